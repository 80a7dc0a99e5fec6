#include "storage/place/prefix/authority_record.h"

#include <unistd.h>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/cairn_folder.h"

namespace cairn::authority_record {
namespace {

std::string NameOf(const RunId& run) {
  return "authority." + run.Hex();
}

absl::Status OnlyOurs(const std::string& path, const FileInfo& info) {
  if (!info.is_regular()) return PermissionDenied("{}: is no regular file", path);
  if (info.uid != ::geteuid()) {
    return PermissionDenied("{}: belongs to user {}, this process runs as {}", path, info.uid, ::geteuid());
  }
  if ((info.mode & 077) != 0) {
    return PermissionDenied(
        "{}: mode {:04o} lets others read the key of the run's authority; remove the file while no daemon serves the "
        "run, so that a new one is made",
        path, info.mode & 07777);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> TextOf(const std::string& path, const kvtree::Tree& tree, std::string_view key) {
  auto text = tree.GetString(key);
  if (!text.ok()) return cairn_folder::NamingFile(path, text.status());
  return text;
}

}  // namespace

std::string PathOf(const std::string& prefix, const RunId& run) {
  return cairn_folder::Of(prefix) + "/" + NameOf(run);
}

absl::StatusOr<AuthorityRecord> Read(Disk& disk, const std::string& prefix, const RunId& run) {
  const std::string path = PathOf(prefix, run);
  // The folder first: in one that others can write to, nothing that is asked about the file holds.
  CAIRN_ASSIGN_OR_RETURN(const FileInfo folder, disk.Info(cairn_folder::Of(prefix)));
  CAIRN_RETURN_IF_ERROR(cairn_folder::CheckClosed(prefix, folder));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(path));
  CAIRN_RETURN_IF_ERROR(OnlyOurs(path, info));
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTreeOnce(disk, path));
  CAIRN_RETURN_IF_ERROR(cairn_folder::CheckVersion(path, tree));
  CAIRN_ASSIGN_OR_RETURN(const std::string named, TextOf(path, tree, "RUN"));
  if (named != run.Hex()) return DataLoss("{}: RUN is {}, not the run of the file's name", path, Quoted(named));
  AuthorityRecord record;
  CAIRN_ASSIGN_OR_RETURN(record.key, TextOf(path, tree, "KEY"));
  CAIRN_ASSIGN_OR_RETURN(record.certificate, TextOf(path, tree, "CERTIFICATE"));
  return record;
}

absl::Status Make(Disk& disk, const std::string& prefix, const RunId& run, const AuthorityRecord& record) {
  CAIRN_RETURN_IF_ERROR(cairn_folder::Make(disk, prefix));
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", run.Hex());
  tree.Set("KEY", record.key);
  tree.Set("CERTIFICATE", record.certificate);
  return cairn_folder::MakeRecord(disk, prefix, NameOf(run), tree);
}

}  // namespace cairn::authority_record
