// Work files (storage/io/disk.h) that someone who was killed has left among a prefix' records.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_STALE_WORK_H_
#define CAIRN_STORAGE_PLACE_PREFIX_STALE_WORK_H_

#include <ctime>
#include <string>

#include "storage/io/disk.h"

namespace cairn {

// A work file is written and renamed within moments; another process may be at it now, by a clock of its own.
inline constexpr std::time_t kStaleWorkSeconds = 3600;

// Removes those in <prefix>/.cairn, in <prefix>/.scr and in its newest dataset folders, and views under work names in
// the prefix itself, that were last written more than kStaleWorkSeconds before `now`. One whose time is not known (0)
// stays. Blocks. What cannot be looked at or removed stays, too: it is in nobody's way.
void RemoveStaleWork(Disk& disk, const std::string& prefix, std::time_t now);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_STALE_WORK_H_
