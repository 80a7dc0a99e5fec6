// .cairn/ingest.<node>: where clients on other hosts reach this node's daemon (proto/announcement.h), rewritten in each
// life of it. It holds a key: the folder, and the file, are the user's alone. Calls block on disk. Stateless, hence
// thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_INGEST_RECORD_H_
#define CAIRN_STORAGE_PLACE_PREFIX_INGEST_RECORD_H_

#include <absl/status/status.h>

#include <string>
#include <string_view>

#include "storage/io/disk.h"

namespace cairn::ingest_record {

std::string PathOf(const std::string& prefix, const std::string& node);

// Replaces it, durably, with mode 0600; makes the folder if need be. `node`: 32 hex digits.
// kPermissionDenied: the folder is another user's or open to others.
absl::Status Write(Disk& disk, const std::string& prefix, const std::string& node, std::string_view text);
// The same, if there is something to tell (`text` is not empty). Else what an earlier life of the node's daemon has
// left is removed: nobody has its keys any more. None there: OK.
absl::Status Tell(Disk& disk, const std::string& prefix, const std::string& node, std::string_view text);

}  // namespace cairn::ingest_record

#endif  // CAIRN_STORAGE_PLACE_PREFIX_INGEST_RECORD_H_
