// Launches that began while the prefix could not be asked: the application goes on from image or cache, with the ids
// that this daemon still had. What is needed to make such a launch on the prefix later is in the cache's record
// (run.cairn), synced, before the open was answered. Stateless; blocks.
#ifndef CAIRN_DAEMON_CORE_PROVISIONAL_H_
#define CAIRN_DAEMON_CORE_PROVISIONAL_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// One that is on the prefix now. If it was abandoned, another launch had been made since its predecessor: nothing of it
// counts, and it may have another number than its datasets carry.
struct ConfirmedLaunch {
  LaunchId carried = 0;  // the number that it had here meanwhile
  LaunchRecord made;
};

// Makes those that the record names, in their order, and takes them off the record. Again is harmless: one whose secret
// is on the prefix already is not made twice. REQUIRES: one at a time for a folder.
absl::StatusOr<std::vector<ConfirmedLaunch>> ConfirmProvisional(Prefix& prefix, CacheFolder& folder,
                                                                const Maker& maker);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_PROVISIONAL_H_
