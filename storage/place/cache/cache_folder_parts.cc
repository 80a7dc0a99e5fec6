// Whole datasets rank by rank: what ranks keep for others, more ranks of one, and one rank out of it.
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/place/cache/cache_folder_on_disk.h"
#include "storage/place/cache/protection.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {

absl::StatusOr<scr::Descriptor> CacheFolderOnDisk::FindWhole(DatasetId id) {
  {
    const absl::MutexLock lock(&mutex_);
    if (open_.contains(id)) return FailedPrecondition("{}: dataset {} is open", path_, id);
  }
  const std::map<DatasetId, scr::CacheEntry> entries = index_.Entries();
  const auto entry = entries.find(id);
  if (entry == entries.end()) return FailedPrecondition("{}: no dataset {}", path_, id);
  const scr::Descriptor& here = entry->second.descriptor;
  if (here.launch && !entry->second.bypass && here.complete.value_or(false) && here.ranks.value_or(0) > 0) return here;
  return FailedPrecondition("{}: dataset {} is not whole here", path_, id);
}

absl::StatusOr<scr::Descriptor> CacheFolderOnDisk::FindWhole(const scr::Descriptor& descriptor) {
  CAIRN_ASSIGN_OR_RETURN(scr::Descriptor here, FindWhole(descriptor.id));
  if (here.launch == descriptor.launch && here.ranks == descriptor.ranks) return here;
  return FailedPrecondition("{}: another dataset has the number {} here", path_, descriptor.id);
}

absl::Status CacheFolderOnDisk::Protect(const scr::Descriptor& descriptor, const kept::Record& record) {
  const Changing changing(*this, descriptor.id);
  CAIRN_ASSIGN_OR_RETURN(const scr::Descriptor here, FindWhole(descriptor));
  return PutProtection(disk_, DatasetPath(here.id), prefix(), this->record().run, here, record);
}

absl::StatusOr<std::map<Rank, RankFiles>> CacheFolderOnDisk::FilesOf(const scr::Descriptor& descriptor) {
  const RunIdentity run = record().run;
  const std::string folder = DatasetPath(descriptor.id);
  const auto kept = ReadRedundancyRecord(disk_, folder, run, descriptor);
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
  const RankSets sets = kept.ok() ? SetsOfRanks(*kept) : RankSets();
  std::map<Rank, RankFiles> ranks;
  for (const Rank rank : scr::RanksHeld(descriptor)) {
    CAIRN_ASSIGN_OR_RETURN(const StoredCatalogue stored, ReadRank(disk_, folder, run, descriptor, rank));
    ranks[rank] = RankFilesOf(folder, stored, sets);
  }
  return ranks;
}

absl::Status CacheFolderOnDisk::Reopen(const scr::Descriptor& descriptor) {
  const Changing changing(*this, descriptor.id);
  CAIRN_ASSIGN_OR_RETURN(const scr::Descriptor here, FindWhole(descriptor));
  CAIRN_ASSIGN_OR_RETURN(auto ranks, FilesOf(here));
  const absl::MutexLock lock(&mutex_);
  const auto [open, fresh] = open_.try_emplace(here.id);
  if (!fresh) return FailedPrecondition("{}: dataset {} is open", path_, here.id);
  open->second = {.descriptor = here, .committing = {}, .committed = std::move(ranks), .reopened = true};
  return absl::OkStatus();
}

void CacheFolderOnDisk::EndReopened(DatasetId id) {
  Open ended;
  {
    const absl::MutexLock lock(&mutex_);
    const auto open = open_.find(id);
    if (open == open_.end() || !open->second.reopened) return;
    ended = std::move(open->second);
    open_.erase(open);
  }
  if (!ended.committing.empty()) return;  // the next start removes what these write
  std::vector<RankFiles> here;
  for (const Rank rank : scr::RanksHeld(ended.descriptor)) here.push_back(ended.committed.at(rank));
  RemoveUnnamed(ended.descriptor, here).IgnoreError();  // likewise; until then they only take up room
}

absl::Status CacheFolderOnDisk::SetRankAside(DatasetId id, Rank rank) {
  const Changing changing(*this, id);
  CAIRN_ASSIGN_OR_RETURN(const scr::Descriptor here, FindWhole(id));
  scr::Descriptor rest = here;
  rest.held.emplace();
  for (const Rank held : scr::RanksHeld(here)) rest.held->Add(held);
  const bool is_here = rest.held->Contains(rank);
  rest.held->Remove(rank);
  if (!is_here || rest.held->empty()) {
    return FailedPrecondition("{}: dataset {} has rank {} here alone, or not at all", path_, id, rank);
  }
  const std::string folder = DatasetPath(id);
  // Before the entry: a record that names a rank that does not lie here would be taken for damaged.
  CAIRN_RETURN_IF_ERROR(EndProtection(disk_, folder, record().run, here, rank));
  CAIRN_ASSIGN_OR_RETURN(const auto files, FilesOf(rest));
  std::vector<RankFiles> ranks;
  for (const auto& [other, of_rank] : files) ranks.push_back(of_rank);
  CAIRN_RETURN_IF_ERROR(TakeOut(rest, ranks));
  // From here on it has gone: a start would put SCR's lists in order, and remove its files.
  absl::Status moved = ReplaceOwnershipLists(disk_, folder, *rest.ranks, ranks);
  if (moved.ok()) moved = MoveRankAside(disk_, folder, fmt::format("{}/{}{}", path_, kDamagedStem, id), rest, rank);
  if (moved.ok()) moved = RemoveUnnamed(rest, ranks);
  if (!moved.ok()) {
    const absl::MutexLock lock(&mutex_);
    warnings_.push_back(fmt::format("dataset {}, rank {}: {}", id, rank, MessageOf(moved)));
  }
  return absl::OkStatus();
}

absl::Status CacheFolderOnDisk::TakeOut(const scr::Descriptor& rest, const std::vector<RankFiles>& ranks) {
  const scr::CacheEntry entry = CompleteEntry(DatasetPath(rest.id), rest, ranks);
  bool there = false;
  CAIRN_RETURN_IF_ERROR(index_.Apply([&](kvtree::Tree& tree) {
    const kvtree::Tree* datasets = tree.Find("DSET");
    const kvtree::Tree* now = datasets != nullptr ? datasets->Find(std::to_string(rest.id)) : nullptr;
    const kvtree::Tree* descriptor = now != nullptr ? now->Find("DSETDESC") : nullptr;
    const auto complete = descriptor != nullptr ? descriptor->GetBool("COMPLETE") : NotFound("DSETDESC");
    there = complete.ok() && *complete;
    if (there) scr::PutCacheEntry(entry, tree);
  }));
  return there ? absl::OkStatus() : FailedPrecondition("{}: dataset {} was given up meanwhile", path_, rest.id);
}

absl::Status CacheFolderOnDisk::RemoveUnnamed(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks) {
  const std::string folder = DatasetPath(descriptor.id);
  const auto kept = ReadRedundancyRecord(disk_, folder, record().run, descriptor);
  if (!kept.ok() && !absl::IsNotFound(kept.status())) return kept.status();
  return RemoveLeftovers(disk_, folder, descriptor, ranks, kept.ok() ? NamesIn(*kept) : std::set<std::string>());
}

// The encode states are there all the time: so it is whole with or without the new ranks, also by its folder alone.
absl::Status CacheFolderOnDisk::CompleteReopened(const scr::Descriptor& descriptor,
                                                 const std::vector<RankFiles>& ranks) {
  const std::string folder = DatasetPath(descriptor.id);
  CAIRN_RETURN_IF_ERROR(ReplaceOwnershipLists(disk_, folder, *descriptor.ranks, ranks));
  bool removed = false;
  CAIRN_RETURN_IF_ERROR(WriteEntry(descriptor, ranks, &removed));
  if (removed) return FailedPrecondition("{}: dataset {} was closed or removed meanwhile", path_, descriptor.id);
  Forget(descriptor.id);
  return absl::OkStatus();
}

}  // namespace cairn
