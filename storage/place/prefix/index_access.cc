#include "storage/place/prefix/index_access.h"

#include "storage/base/path.h"

#include <algorithm>
#include <vector>

#include "storage/base/status.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/index_rules.h"

namespace cairn::index_access {
namespace {

std::optional<DatasetId> NumberOf(std::string_view name) {
  const auto number = NumberAfter(name, "");
  if (!number || *number == 0 || *number > identity::kDatasetIdMax) return std::nullopt;
  return number;
}

// By commit.cairn or summary.scr; empty: neither can be read.
std::string NameInRecords(SharedRecords& records, DatasetId id) {
  // SCR may have given out the number again.
  if (const auto summary = records.ReadScrSummary(id); summary.ok()) return summary->name;
  if (const auto commit = records.ReadCommit(id); commit.ok()) return commit->descriptor.name;
  return {};
}

}  // namespace

RunIdentity RunOf(Disk& disk, const std::string& prefix) {
  const auto run = identity::Read(disk, prefix);
  return run.ok() ? *run : RunIdentity();
}

std::optional<DatasetId> FindEntry(std::string_view name, const kvtree::Tree& index) {
  if (const auto id = index_rules::FindDataset(name, index)) return id;
  const auto number = NumberOf(name);
  if (number && index.FindPath({"DSET", std::to_string(*number)}) != nullptr) return number;
  return std::nullopt;
}

absl::StatusOr<DatasetId> FindRecords(SharedRecords& records, std::string_view name) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<DatasetId> ids, records.ListDatasets());
  std::reverse(ids.begin(), ids.end());
  const auto number = NumberOf(name);
  if (number && std::find(ids.begin(), ids.end(), *number) != ids.end()) return *number;
  for (const DatasetId id : ids) {
    if (!name.empty() && NameInRecords(records, id) == name) return id;
  }
  return NotFound("{}: no records of a dataset {}", records.Folder(), name);
}

absl::Status NoSuchDataset(const std::string& prefix, std::string_view name) {
  return NotFound("{}: no dataset {} in the index", prefix, name);
}

}  // namespace cairn::index_access
