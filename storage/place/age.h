// Which of two datasets of a run is the newer one, whoever has made them. Pure.
#ifndef CAIRN_STORAGE_PLACE_AGE_H_
#define CAIRN_STORAGE_PLACE_AGE_H_

#include <cstdint>

#include "storage/base/ids.h"

namespace cairn {

// By what a dataset's descriptor says. SCR and Cairn number in one sequence, but SCR gives numbers out again.
struct Age {
  enum class Maker : std::uint8_t {
    kLaunch,   // of Cairn's
    kAdopted,  // brought in from another system: as old as it was made there, whatever its number
    kScr,      // SCR itself
  };
  Maker maker = Maker::kLaunch;
  LaunchId launch = 0;          // kLaunch
  std::int64_t created_us = 0;  // 0: not known
  DatasetId id = 0;
};

// Of launches' datasets by launch, then by number. SCR's, against one of a launch, is newer if its number is higher
// (SCR has seen the other) or if it was made later (SCR had gone back, and has given its number out again). All others
// by their time, or, where that does not tell, by their number.
bool IsNewer(const Age& a, const Age& b);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_AGE_H_
