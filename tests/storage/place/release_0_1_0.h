// The prefix and the cache that release 0.1.0 left (release_0_1_0/README.md), put on any disk.
#ifndef CAIRN_TESTS_STORAGE_PLACE_RELEASE_0_1_0_H_
#define CAIRN_TESTS_STORAGE_PLACE_RELEASE_0_1_0_H_

#include <string>

#include "storage/io/disk.h"

namespace cairn::testing {

// Where they were, as their records say.
inline constexpr char kOldPrefix[] = "/tmp/cairn-0.1.0/run";
inline constexpr char kOldCache[] = "/tmp/cairn-0.1.0/cache";
inline constexpr char kOldUser[] = "root";  // folder of the cache
inline constexpr char kOldRun[] = "334e783ec11dfe112406479c9e1c01fe";
inline constexpr char kOldRunName[] = "run";

// Launches 1 and 2; ids up to 128 reserved; datasets 1, 2 and 66 committed; one rank each.
void PutOldPrefix(Disk& disk, const std::string& to = kOldPrefix);
// Datasets 65, 66 and 67, whole; 65 and 67 are not on the prefix.
void PutOldCache(Disk& disk, const std::string& to = kOldCache);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_PLACE_RELEASE_0_1_0_H_
