#include "storage/job/run_info/run_info.h"

#include <memory>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/cairn_folder.h"
#include "storage/place/prefix/id_blocks.h"
#include "storage/place/prefix/identity.h"

namespace cairn {
namespace {

// When the record was made that says which run it is; 0: it does not tell.
std::int64_t SinceOf(Disk& disk, const std::string& prefix, const RunIdentity& identity) {
  if (identity.provisional) return 0;
  std::string path = cairn_folder::Of(prefix) + "/run";
  if (identity.number != 0) path += fmt::format(".{}", identity.number);
  const auto tree = ReadTree(disk, path);
  return tree.ok() ? tree->GetInt("CREATED").value_or(0) : 0;
}

}  // namespace

absl::StatusOr<RunInfo> ReadRunInfo(Disk& disk, const std::string& prefix) {
  RunInfo info;
  CAIRN_ASSIGN_OR_RETURN(info.identity, identity::Read(disk, prefix));
  info.since_us = SinceOf(disk, prefix, info.identity);
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> opened, Prefix::OpenReadOnly(disk, prefix));
  const auto take = [&](auto result, auto& into) {
    if (result.ok()) {
      into = *std::move(result);
    } else {
      info.damaged.emplace_back(MessageOf(result.status()));
    }
  };
  take(arbiter_record::Read(disk, prefix), info.arbiter);
  take(opened->NewestLaunch(), info.newest);
  if (info.newest) take(opened->FindLease(info.newest->id), info.lease);
  take(id_blocks::Highest(disk, prefix), info.id_highest);
  return info;
}

}  // namespace cairn
