// Records that SCR and its tools write in place, without a rename: a reader may find one empty or half written, which
// is whole a moment later. Calls block on disk.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_SETTLED_H_
#define CAIRN_STORAGE_PLACE_PREFIX_SETTLED_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <string>

#include "storage/format/kvtree/tree.h"
#include "storage/io/disk.h"

namespace cairn {

// What a reader does meanwhile; none: it sleeps. Tests give their own.
using Pause = std::function<void(std::chrono::milliseconds)>;

// `text`, if given, receives the bytes of the tree that is answered. As ReadTree, but what is empty or damaged is read
// again, three times within 200 ms at most, before it counts as that.
absl::StatusOr<kvtree::Tree> ReadSettled(Disk& disk, const std::string& path, const Pause& pause = {},
                                         std::string* text = nullptr);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_SETTLED_H_
