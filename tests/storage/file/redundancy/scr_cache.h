// The caches of SCR jobs among the vectors, on a disk of a test's own.
#ifndef CAIRN_TESTS_STORAGE_FILE_REDUNDANCY_SCR_CACHE_H_
#define CAIRN_TESTS_STORAGE_FILE_REDUNDANCY_SCR_CACHE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn::testing {

// Copies what a scenario has below `sub` ("nodes", "pfs") to `to`, directories made. False: there are no vectors here,
// and nothing was copied.
bool PutScenario(Disk& disk, std::string_view scenario, std::string_view sub, const std::string& to);

// Byte `at` of an application's file in the vectors, by its base name. `dataset`: the dataset's.
std::byte ScrByteOf(std::string_view dataset, std::string_view file, std::uint64_t at);

// The paths of all files below `path`, sorted.
std::vector<std::string> FilesBelow(Disk& disk, const std::string& path);

void PutBytes(Disk& disk, const std::string& path, std::string_view bytes);  // replaces
std::string GetBytes(Disk& disk, const std::string& path);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_REDUNDANCY_SCR_CACHE_H_
