#include "storage/job/index_change/index_change.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "storage/base/status.h"

namespace cairn {
namespace {

using Rows = std::vector<IndexRow>;

DatasetId IdOf(const IndexRow& row) {
  return row.entry.descriptor.id;
}

DatasetId CurrentIdOf(const Rows& rows) {
  const IndexRow* const current = CurrentOf(rows);
  return current == nullptr ? 0 : IdOf(*current);
}

// The id of what was added; 0 of the others.
absl::StatusOr<DatasetId> Apply(Disk& disk, const std::string& prefix, IndexChange change, const std::string& name) {
  switch (change) {
    case IndexChange::kCurrent:
      CAIRN_RETURN_IF_ERROR(SetIndexCurrent(disk, prefix, name));
      return 0;
    case IndexChange::kDrop:
      CAIRN_RETURN_IF_ERROR(DropFromIndex(disk, prefix, name));
      return 0;
    case IndexChange::kDropAfter:
      CAIRN_RETURN_IF_ERROR(DropAfter(disk, prefix, name).status());
      return 0;
    case IndexChange::kRemove:
      CAIRN_RETURN_IF_ERROR(RemoveFromIndex(disk, prefix, name));
      return 0;
    case IndexChange::kAdd:
      return AddToIndex(disk, prefix, name);
  }
  return Internal("no such change");
}

// Those of `before` that are not in `after`.
Rows Gone(const Rows& before, const Rows& after) {
  std::set<DatasetId> left;
  for (const IndexRow& row : after) left.insert(IdOf(row));
  Rows gone;
  std::ranges::copy_if(before, std::back_inserter(gone),
                       [&](const IndexRow& row) { return !left.contains(IdOf(row)); });
  return gone;
}

}  // namespace

const IndexRow* CurrentOf(const std::vector<IndexRow>& rows) {
  const auto current = std::ranges::find_if(rows, &IndexRow::current);
  return current == rows.end() ? nullptr : &*current;
}

// The rows come from the index before and after: NAME may be a name or a number, and one change many datasets.
absl::StatusOr<IndexChanged> ChangeIndex(Disk& disk, const std::string& prefix, IndexChange change,
                                         const std::string& name) {
  absl::StatusOr<Rows> before = ListIndex(disk, prefix);
  // What was lost with a damaged index may be added to a new one: AddToIndex decides.
  if (change == IndexChange::kAdd && absl::IsDataLoss(before.status())) before = Rows();
  if (!before.ok()) return before.status();
  CAIRN_ASSIGN_OR_RETURN(const DatasetId added, Apply(disk, prefix, change, name));
  CAIRN_ASSIGN_OR_RETURN(const Rows after, ListIndex(disk, prefix));
  IndexChanged changed{.rows = {}, .current_before = CurrentIdOf(*before), .current_after = CurrentIdOf(after)};
  const IndexRow* const current = CurrentOf(after);
  if (current != nullptr) changed.current_name = current->entry.descriptor.name;
  if (change == IndexChange::kCurrent) {
    if (current != nullptr) changed.rows.push_back(*current);
  } else if (change == IndexChange::kAdd) {
    const auto row = std::ranges::find(after, added, IdOf);
    if (row != after.end()) changed.rows.push_back(*row);
  } else {
    changed.rows = Gone(*before, after);
  }
  return changed;
}

}  // namespace cairn
