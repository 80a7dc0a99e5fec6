// List, current, drop.
#include "storage/place/prefix/index_tools.h"

#include <algorithm>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/place/prefix/index_access.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/settled.h"
#include "storage/place/prefix/shared_records.h"

namespace cairn {

absl::StatusOr<std::vector<IndexRow>> ListIndex(Disk& disk, const std::string& prefix, const Pause& pause) {
  SharedRecords records(disk, prefix, RunId(), pause);
  std::vector<IndexRow> rows;
  const auto tree = records.ReadIndex();
  if (!tree.ok()) return tree.status();
  if (tree->empty()) return rows;
  auto index = scr::GetIndex(*tree);
  if (!index.ok()) return Annotate(index.status(), records.Folder() + "/index.scr");
  const auto current = index_rules::CurrentOf(*tree);
  rows.reserve(index->datasets.size());
  for (auto at = index->datasets.rbegin(); at != index->datasets.rend(); ++at) {
    IndexRow row{.entry = std::move(at->second), .current = current == at->first, .by_cairn = false};
    row.by_cairn = row.entry.descriptor.launch.has_value();
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::Status SetIndexCurrent(Disk& disk, const std::string& prefix, std::string_view name) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_RETURN_IF_ERROR(records.Mend());
  return records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    const auto id = index_access::FindEntry(name, index);
    if (!id) return index_access::NoSuchDataset(prefix, name);
    CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(*id, index));
    if (!entry) return index_access::NoSuchDataset(prefix, name);
    const auto refused = [&](std::string_view why) { return FailedPrecondition("dataset {} {}", *id, why); };
    if (!entry->descriptor.checkpoint) return refused("is no checkpoint");
    if (!entry->complete) return refused("is not complete");
    if (!entry->failed.empty()) return refused(fmt::format("failed at {}", entry->failed));
    if (entry->descriptor.name.empty()) return refused("has no name");
    index_rules::Bind(*id, entry->descriptor.name, NowMicros(), index);
    return absl::OkStatus();
  });
}

absl::Status DropFromIndex(Disk& disk, const std::string& prefix, std::string_view name) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_RETURN_IF_ERROR(records.Mend());
  return records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    const auto id = index_access::FindEntry(name, index);
    if (!id) return index_access::NoSuchDataset(prefix, name);
    SharedRecords::Drop(*id, index);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<DatasetId>> DropAfter(Disk& disk, const std::string& prefix, std::string_view name) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  CAIRN_RETURN_IF_ERROR(records.Mend());
  std::vector<DatasetId> dropped;
  CAIRN_RETURN_IF_ERROR(records.ChangeIndex([&](kvtree::Tree& index) -> absl::Status {
    dropped.clear();
    const auto id = index_access::FindEntry(name, index);
    if (!id) return index_access::NoSuchDataset(prefix, name);
    CAIRN_ASSIGN_OR_RETURN(const scr::Index before, scr::GetIndex(index));
    for (auto at = before.datasets.upper_bound(*id); at != before.datasets.end(); ++at) dropped.push_back(at->first);
    // The current one last: each time that CURRENT moves, all others are looked at.
    const auto current = index_rules::CurrentOf(index);
    for (const DatasetId newer : dropped) {
      if (newer != current) SharedRecords::Drop(newer, index);
    }
    if (current && *current > *id) SharedRecords::Drop(*current, index);
    return absl::OkStatus();
  }));
  return dropped;
}

}  // namespace cairn
