// Which node a cache is of: <cache>/<user>/node.cairn. Two daemons in one cache would repair each other's datasets. A
// lock keeps them apart, but not on every file system that several nodes see; so the record names the node as well.
#ifndef CAIRN_STORAGE_PLACE_CACHE_NODE_IDENTITY_H_
#define CAIRN_STORAGE_PLACE_CACHE_NODE_IDENTITY_H_

#include <absl/status/statusor.h>

#include <string>
#include <string_view>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

struct NodeIdentity {
  std::string id;    // 32 hex digits. Leases name a cache by it: one is void for the daemon that holds that cache
  std::string host;  // as given
  std::vector<std::string> warnings;  // for the log
};

// Reads the record, or makes it (and the folder, 0700) where there is none. It holds VERSION 1, ID, HOST and INODE, the
// number of <cache>/<user>. The id is a new one, with a warning, whenever it is not certain that the cache is the one
// that the old id was given to: INODE is another (the folder is a copy, or was moved), `take` made it another host's,
// or the record is damaged (it is moved aside to node.cairn.damaged.<n>). Blocks on disk.
// REQUIRES: the caller holds the lock of the cache.
//   kFailedPrecondition  the record names another host, and not `take`; or it is of a newer version
//   kInvalidArgument     cache is not absolute, user is no name, host is empty, too long or has control characters;
//                        node.cairn is no regular file
//   kPermissionDenied    <cache>/<user> is no directory
absl::StatusOr<NodeIdentity> OpenNode(Disk& disk, const std::string& cache, std::string_view user,
                                      std::string_view host, bool take);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_NODE_IDENTITY_H_
