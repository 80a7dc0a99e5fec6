#include "storage/job/diff/diff.h"

#include <utility>

#include "storage/base/status.h"

namespace cairn {

absl::StatusOr<SideOfDiff> OpenSideOfDiff(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(CheckpointFile file, OpenCheckpointFile(disk, path));
  SideOfDiff side{.path = path, .file = std::move(file), .damage = {}};
  CAIRN_ASSIGN_OR_RETURN(const ftiff::Verdict verdict, VerifyData(side.file, path));
  for (const ftiff::BadChunk& chunk : verdict.bad) side.damage.push_back(chunk.why);
  if (!verdict.bad_checksum.empty()) side.damage.push_back(verdict.bad_checksum);
  return side;
}

absl::StatusOr<ftiff::FileDiff> Compare(const SideOfDiff& a, const SideOfDiff& b) {
  return ftiff::CompareFiles({.metadata = a.file.metadata, .read = a.file.reader()},
                             {.metadata = b.file.metadata, .read = b.file.reader()});
}

}  // namespace cairn
