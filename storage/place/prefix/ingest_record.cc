#include "storage/place/prefix/ingest_record.h"

#include "proto/announcement.h"
#include "storage/base/status.h"
#include "storage/place/prefix/cairn_folder.h"

namespace cairn::ingest_record {

std::string PathOf(const std::string& prefix, const std::string& node) {
  return cairn_folder::Of(prefix) + "/" + kAnnouncementStem + node;
}

absl::Status Write(Disk& disk, const std::string& prefix, const std::string& node, std::string_view text) {
  CAIRN_RETURN_IF_ERROR(cairn_folder::Make(disk, prefix));
  return ReplaceFile(disk, PathOf(prefix, node), text, 0600);
}

absl::Status Tell(Disk& disk, const std::string& prefix, const std::string& node, std::string_view text) {
  if (!text.empty()) return Write(disk, prefix, node, text);
  const absl::Status removed = disk.Remove(PathOf(prefix, node));
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace cairn::ingest_record
