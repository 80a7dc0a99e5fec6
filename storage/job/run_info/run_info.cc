#include "storage/job/run_info/run_info.h"

#include <memory>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/cairn_folder.h"
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

// Those of release 0.1.0 tell no ids: block n held 64 of them from n * 64 + 1 on.
absl::StatusOr<std::optional<DatasetId>> HighestReserved(Disk& disk, const std::string& prefix) {
  constexpr std::uint64_t kOldBlock = 64;
  CAIRN_ASSIGN_OR_RETURN(const auto names, cairn_folder::Names(disk, prefix, /*fresh=*/false));
  std::vector<std::uint64_t> numbers = cairn_folder::Numbers(names, "ids.", identity::kDatasetIdMax);
  for (; !numbers.empty(); numbers.pop_back()) {
    const auto tree = ReadTree(disk, fmt::format("{}/ids.{}", cairn_folder::Of(prefix), numbers.back()));
    if (absl::IsNotFound(tree.status())) continue;  // its maker has not come to the end
    if (!tree.ok()) return tree.status();
    const auto first = tree->GetUnsigned("FIRST"), count = tree->GetUnsigned("COUNT");
    if (!first.ok() || !count.ok()) return std::optional<DatasetId>((numbers.back() + 1) * kOldBlock);
    if (*first == 0 || *first > identity::kDatasetIdMax || *count > identity::kDatasetIdMax) {
      return DataLoss("{}/ids.{}: FIRST {}, COUNT {}", cairn_folder::Of(prefix), numbers.back(), *first, *count);
    }
    return std::optional<DatasetId>(*first + *count - 1);
  }
  return std::optional<DatasetId>();
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
  take(opened->NewestLaunch(), info.newest);
  if (info.newest) take(opened->FindLease(info.newest->id), info.lease);
  take(HighestReserved(disk, prefix), info.id_highest);
  return info;
}

}  // namespace cairn
