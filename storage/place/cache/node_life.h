// The lives of a node's daemon, by a number that grows from one to the next: of two messages of a node others believe
// that of the later life. Beside node.cairn: <cache>/<user>/life.cairn.
#ifndef CAIRN_STORAGE_PLACE_CACHE_NODE_LIFE_H_
#define CAIRN_STORAGE_PLACE_CACHE_NODE_LIFE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

// Begins the next life. Its number is durable when this returns, unless the disk is full, which is a warning only: it
// is above that of the last one in the record, and at least the time in microseconds since the epoch, so that a record
// which was lost or damaged costs nothing unless the clock was set back as well. A damaged record is written over.
// Blocks on disk.
// REQUIRES: OpenNode has returned this node (node_identity.h); the caller holds the lock of the cache.
absl::StatusOr<std::uint64_t> BeginLife(Disk& disk, const std::string& cache, std::string_view user,
                                        std::vector<std::string>* warnings);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_NODE_LIFE_H_
