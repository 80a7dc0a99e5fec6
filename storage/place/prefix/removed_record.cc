#include "storage/place/prefix/removed_record.h"

#include <cstdint>

#include "storage/base/clock.h"
#include "storage/base/modes.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/create_once.h"
#include "storage/io/file_tree.h"

namespace cairn {
namespace {

kvtree::Tree NewRecord() {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.SetInt("REMOVED", NowMicros());
  return tree;
}

}  // namespace

absl::Status WriteRemoved(Disk& disk, SharedRecords& records, DatasetId id) {
  const std::string folder = records.DatasetFolder(id);
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, folder, kPrefixFolderMode));
  const absl::Status renamed = disk.Rename(records.CommitPath(id), records.RemovedPath(id));
  if (renamed.ok()) return disk.SyncDirectory(folder);
  if (!absl::IsNotFound(renamed)) return renamed;
  const absl::Status made = CreateFileOnce(disk, records.RemovedPath(id), kvtree::Encode(NewRecord()), kPrefixFileMode);
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

absl::Status WriteRemovedByUser(Disk& disk, SharedRecords& records, DatasetId id) {
  const auto commit = disk.Info(records.CommitPath(id));
  if (commit.ok()) return FailedPrecondition("dataset {} is committed", id);
  if (!absl::IsNotFound(commit.status())) return commit.status();
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, records.DatasetFolder(id), kPrefixFolderMode));
  kvtree::Tree record = NewRecord();
  record.Set("BY_USER", std::uint64_t{1});
  return ReplaceTree(disk, records.RemovedPath(id), record, kPrefixFileMode);
}

absl::StatusOr<bool> IsRemovedByUser(Disk& disk, const SharedRecords& records, DatasetId id) {
  const auto record = ReadTree(disk, records.RemovedPath(id));
  if (absl::IsNotFound(record.status())) return false;
  if (!record.ok()) return record.status();
  if (!record->Get("BY_USER")) return false;
  return record->GetBool("BY_USER");
}

}  // namespace cairn
