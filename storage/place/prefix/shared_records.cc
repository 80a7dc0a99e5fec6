#include "storage/place/prefix/shared_records.h"

#include "storage/base/clock.h"
#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "storage/place/names.h"

#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/fresh_list.h"
#include "storage/place/prefix/fence_names.h"
#include "storage/place/prefix/index_rules.h"

namespace cairn {
namespace {

// SCR leaves the access to its files to the umask (SCR specification, section 2).
constexpr std::string_view kMergedKey = "CAIRN_COMMITTED";
constexpr std::size_t kWarningsMax = 1000;
constexpr int kLaunchLooksMax = 100;     // while others make launches
constexpr std::size_t kReadAnyway = 64;  // of the newest: what a restart may choose, and what crashes have left

std::string Key(DatasetId id) {
  return fmt::format("{}", id);
}

// What an index that is not there, or of no datasets, reads as.
absl::StatusOr<scr::Index> ParseIndex(const std::string& path, const kvtree::Tree& tree) {
  if (tree.empty()) return scr::Index();
  auto index = scr::GetIndex(tree);
  if (!index.ok()) return Annotate(index.status(), path);
  return index;
}

}  // namespace

bool IsMerged(DatasetId id, const kvtree::Tree& index) {
  return index.FindPath({kMergedKey, Key(id)}) != nullptr;
}

kvtree::Tree ToTree(const CommitRecord& commit) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.Set("RUN", commit.run.Hex());
  if (commit.committer != 0) tree.Set(fence_names::kCommitterKey, commit.committer);
  tree.SetInt("COMMITTED", commit.committed_us);
  scr::PutDescriptor(commit.descriptor, tree.SetEmpty("DSET"));
  return tree;
}

absl::StatusOr<CommitRecord> ParseCommit(const std::string& path, const kvtree::Tree& tree) {
  const auto version = tree.GetUnsigned("VERSION");
  if (!version.ok()) return DataLoss("{}: {}", path, MessageOf(version.status()));
  if (*version != 1) return FailedPrecondition("{}: VERSION {}, this program knows 1", path, *version);
  const auto run = RunId::Parse(tree.Get("RUN").value_or(""));
  if (!run.ok()) return DataLoss("{}: RUN: {}", path, MessageOf(run.status()));
  std::uint64_t committer = 0;
  if (tree.Find(fence_names::kCommitterKey) != nullptr) {
    const auto named = tree.GetUnsigned(fence_names::kCommitterKey);
    if (!named.ok()) return DataLoss("{}: {}", path, MessageOf(named.status()));
    committer = *named;
  }
  const auto committed = tree.GetInt("COMMITTED");
  if (!committed.ok()) return DataLoss("{}: {}", path, MessageOf(committed.status()));
  const kvtree::Tree* dataset = tree.Find("DSET");
  if (dataset == nullptr) return DataLoss("{}: no DSET", path);
  auto descriptor = scr::GetDescriptor(*dataset);
  if (!descriptor.ok()) return DataLoss("{}: DSET: {}", path, MessageOf(descriptor.status()));
  if (!descriptor->launch || !descriptor->ranks || *descriptor->ranks == 0) {
    return DataLoss("{}: DSET without launch or ranks", path);
  }
  return CommitRecord{
      .run = *run, .committer = committer, .committed_us = *committed, .descriptor = *std::move(descriptor)};
}

SharedRecords::SharedRecords(Disk& disk, std::string prefix, RunIdentity identity, Pause pause, bool writable,
                             std::unique_ptr<Arbiter> arbiter)
    : disk_(disk),
      prefix_(std::move(prefix)),
      identity_(std::move(identity)),
      pause_(pause),
      writable_(writable),
      arbiter_(arbiter ? std::move(arbiter) : MakeFolderArbiter(disk, prefix_)),
      launches_(disk, *arbiter_, prefix_, writable, [this] { return Merged(); }),
      index_(disk, Folder(), "index",
             {.pause = pause,
              .check = [this](const kvtree::Tree& index) { return ParseIndex(IndexPath(), index).status(); },
              .remake = [this](kvtree::Tree& index) -> absl::Status {
                CAIRN_RETURN_IF_ERROR(MendTree(index));
                return EnterScrDatasets(index);
              },
              .warn = [this](std::string text) { Warn(std::move(text)); }}),
      flush_(disk, Folder(), "flush",
             {.pause = pause, .check = {}, .remake = {}, .warn = [this](std::string text) { Warn(std::move(text)); }}) {
}

absl::Status SharedRecords::ChangeNodes(const Change& change) {
  const std::string path = Folder() + "/nodes.scr";
  auto tree = ReadSettled(disk_, path, pause_);
  if (absl::IsDataLoss(tree.status())) {
    CAIRN_ASSIGN_OR_RETURN(const std::string aside, MoveAside(disk_, path, path + ".damaged"));
    Warn(fmt::format("moved aside to {}: {}", aside, MessageOf(tree.status())));
    tree = kvtree::Tree();
  }
  if (absl::IsNotFound(tree.status())) tree = kvtree::Tree();
  if (!tree.ok()) return tree.status();
  kvtree::Tree after = *tree;
  CAIRN_RETURN_IF_ERROR(change(after));
  if (after.SameAs(*tree)) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(MakeRecordsFolder(disk_, Folder()));
  return ReplaceTree(disk_, path, after, kPrefixFileMode);
}

std::string SharedRecords::DatasetFolder(DatasetId id) const {
  return fmt::format("{}/{}", Folder(), RecordsFolderName(id));
}

absl::StatusOr<bool> SharedRecords::IsRemoved(DatasetId id) {
  const auto info = disk_.Info(RemovedPath(id));
  if (info.ok()) return true;
  if (absl::IsNotFound(info.status())) return false;
  return info.status();
}

absl::StatusOr<CommitRecord> SharedRecords::ReadCommit(DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const bool removed, IsRemoved(id));
  if (removed) return NotFound("dataset {} was removed from {}", id, prefix_);
  const std::string path = CommitPath(id);
  const auto tree = ReadTree(disk_, path);
  if (!tree.ok()) return tree.status();
  CAIRN_ASSIGN_OR_RETURN(CommitRecord commit, ParseCommit(path, *tree));
  if (commit.descriptor.id != id) return DataLoss("{}: DSET of dataset {}", path, commit.descriptor.id);
  if (identity_.run != RunId() && !identity_.Includes(commit.run)) {
    return DataLoss("{}: written for run {}, this is {}", path, commit.run.Hex(), identity_.run.Hex());
  }
  return commit;
}

absl::StatusOr<bool> SharedRecords::Counts(const CommitRecord& commit, const Launches::State& state) {
  const DatasetId id = commit.descriptor.id;
  if (state.CommitCounts(id, commit.committer)) return true;
  const auto names = disk_.List(DatasetFolder(id));
  if (absl::IsNotFound(names.status())) return false;
  if (!names.ok()) return names.status();
  return std::any_of(names->begin(), names->end(), [&](const std::string& name) {
    const auto committer = fence_names::CommitterOf(name);
    return committer && state.CommitCounts(id, *committer);
  });
}

absl::StatusOr<bool> SharedRecords::Counts(const CommitRecord& commit) {
  if (commit.committer == 0) return true;
  CAIRN_ASSIGN_OR_RETURN(const Launches::State state, launches_.Now());
  return Counts(commit, state);
}

absl::StatusOr<SharedRecords::Folders> SharedRecords::List() {
  Folders folders;
  auto names = writable_ ? FreshList(disk_, Folder()) : disk_.List(Folder());
  if (absl::IsPermissionDenied(names.status())) names = disk_.List(Folder());
  if (absl::IsNotFound(names.status())) return folders;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const auto id = DatasetOfRecords(name);
    if (id && *id != 0 && *id <= identity::kDatasetIdMax) folders.datasets.push_back(*id);
    if (const auto mark = fence_names::ParseRemovalMark(name)) folders.removals.insert(*mark);
    if (const auto placing = fence_names::ParsePlacingMark(name)) folders.placings.insert(*placing);
  }
  std::sort(folders.datasets.begin(), folders.datasets.end());
  return folders;
}

absl::StatusOr<std::vector<DatasetId>> SharedRecords::ListDatasets() {
  CAIRN_ASSIGN_OR_RETURN(Folders folders, List());
  return std::move(folders.datasets);
}

absl::StatusOr<std::set<std::pair<DatasetId, LaunchId>>> SharedRecords::ListRemovals() {
  CAIRN_ASSIGN_OR_RETURN(Folders folders, List());
  return std::move(folders.removals);
}

absl::StatusOr<std::set<DatasetId>> SharedRecords::ListPlacings() {
  CAIRN_ASSIGN_OR_RETURN(Folders folders, List());
  return std::move(folders.placings);
}

absl::StatusOr<bool> SharedRecords::IsPlacing(DatasetId id) {
  const auto info = disk_.Info(PlacingPath(id));
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  return info.ok();
}

std::string SharedRecords::PlacingPath(DatasetId id) const {
  return fmt::format("{}/{}", Folder(), fence_names::PlacingMark(id));
}

absl::StatusOr<std::vector<DatasetId>> SharedRecords::ListUnmerged() {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree index, ReadIndex());
  CAIRN_ASSIGN_OR_RETURN(std::vector<DatasetId> ids, ListDatasets());
  std::erase_if(ids, [&](DatasetId id) { return IsMerged(id, index); });
  return ids;
}

absl::Status SharedRecords::ReadOne(DatasetId id, const Launches::State& state, Commits& commits) {
  auto commit = ReadCommit(id);
  if (commit.ok()) {
    CAIRN_ASSIGN_OR_RETURN(const bool counts, Counts(*commit, state));
    (counts ? commits.counting : commits.fenced).emplace(id, *std::move(commit));
  } else if (absl::IsDataLoss(commit.status()) || absl::IsFailedPrecondition(commit.status()) ||
             absl::IsInvalidArgument(commit.status()) || absl::IsPermissionDenied(commit.status())) {
    Warn(fmt::format("dataset {} does not count: {}", id, MessageOf(commit.status())));
  } else if (!absl::IsNotFound(commit.status())) {
    return commit.status();
  } else {
    CAIRN_ASSIGN_OR_RETURN(const bool gone, IsRemoved(id));
    if (gone) commits.removed.insert(id);
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedRecords::Commits> SharedRecords::ReadCommits(const PassOver& pass_over) {
  CAIRN_ASSIGN_OR_RETURN(Launches::State state, launches_.Now());
  for (int i = 0; i < kLaunchLooksMax; ++i) {
    auto commits = ReadUnder(state, pass_over);
    if (!commits.ok()) return commits;
    const LaunchId newest = state.newest;
    CAIRN_ASSIGN_OR_RETURN(state, launches_.Now());
    if (state.newest == newest) return commits;
  }
  return Unavailable("{}: others made a launch during each of {} attempts", prefix_, kLaunchLooksMax);
}

absl::StatusOr<SharedRecords::Commits> SharedRecords::ReadUnder(const Launches::State& state,
                                                                const PassOver& pass_over) {
  Commits commits;
  CAIRN_ASSIGN_OR_RETURN(Folders folders, List());
  commits.placing = std::move(folders.placings);
  for (const auto& [id, committer] : folders.removals) {
    if (state.RemovalCounts(id, committer)) commits.removed.insert(id);
  }
  for (const DatasetId id : folders.datasets) {
    if (commits.removed.contains(id)) continue;
    if (pass_over(id)) {
      commits.passed_over.push_back(id);
      continue;
    }
    if (state.base->removed.Contains(id)) {
      commits.removed.insert(id);
      continue;
    }
    // What is asked for by name afterwards comes from the server, then. (No such directory, or not ours: ReadOne
    // tells.)
    if (writable_ && !state.decided(id)) FreshList(disk_, DatasetFolder(id)).IgnoreError();
    CAIRN_RETURN_IF_ERROR(ReadOne(id, state, commits));
  }
  return commits;
}

absl::StatusOr<PrefixView> SharedRecords::LookAtIndex() {
  PrefixView view;
  auto tree = ReadIndex();
  if (absl::IsDataLoss(tree.status())) {
    Warn(fmt::format("read without index: {}", MessageOf(tree.status())));
  } else if (!tree.ok()) {
    return tree.status();
  } else {
    view.tree = *std::move(tree);
    auto index = ParseIndex(IndexPath(), view.tree);
    if (absl::IsDataLoss(index.status())) {
      Warn(fmt::format("read without index: {}", MessageOf(index.status())));
      view.tree = kvtree::Tree();
    } else if (!index.ok()) {
      return index.status();
    } else {
      view.index = *std::move(index);
    }
  }
  return view;
}

absl::StatusOr<PrefixView> SharedRecords::LookAt(PrefixView view, const std::set<DatasetId>* before,
                                                 const PassOver& pass_over) {
  CAIRN_ASSIGN_OR_RETURN(Commits commits, ReadCommits(pass_over));
  if (before != nullptr)
    std::erase_if(commits.counting, [&](const auto& item) { return !before->contains(item.first); });
  for (const DatasetId id : commits.passed_over) {
    CommitRecord commit;
    commit.run = identity_.run;
    commit.descriptor = view.index.datasets.at(id).descriptor;
    commits.counting.emplace(id, std::move(commit));
  }
  view.commits = std::move(commits.counting);
  view.fenced = std::move(commits.fenced);
  view.removed = std::move(commits.removed);
  view.placing = std::move(commits.placing);
  return view;
}

absl::StatusOr<PrefixView> SharedRecords::Look() {
  CAIRN_ASSIGN_OR_RETURN(const auto before, ListBefore());
  CAIRN_ASSIGN_OR_RETURN(PrefixView view, LookAtIndex());
  return LookAt(std::move(view), before ? &*before : nullptr, [](DatasetId) { return false; });
}

absl::StatusOr<std::optional<std::set<DatasetId>>> SharedRecords::ListBefore() {
  if (writable_) return std::nullopt;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DatasetId> ids, ListDatasets());
  return std::set<DatasetId>(ids.begin(), ids.end());
}

absl::StatusOr<PrefixView> SharedRecords::LookQuickly() {
  CAIRN_ASSIGN_OR_RETURN(const auto before, ListBefore());
  CAIRN_ASSIGN_OR_RETURN(PrefixView view, LookAtIndex());
  std::set<DatasetId> believed;
  std::size_t newest = 0;
  for (auto at = view.index.datasets.rbegin(); at != view.index.datasets.rend(); ++at) {
    const auto& [id, entry] = *at;
    if (!entry.descriptor.launch || ++newest <= kReadAnyway) continue;
    if (entry.complete && IsMerged(id, view.tree)) believed.insert(id);
  }
  return LookAt(std::move(view), before ? &*before : nullptr,
                [&believed](DatasetId id) { return believed.contains(id); });
}

NumberRanges SharedRecords::Merged() {
  NumberRanges merged;
  const auto view = LookAtIndex();
  if (!view.ok()) return merged;  // then they are looked at, one by one
  for (const auto& [id, entry] : view->index.datasets) {
    if (entry.complete && entry.descriptor.launch && IsMerged(id, view->tree)) merged.Add(id);
  }
  return merged;
}

absl::Status SharedRecords::Mend() {
  return index_.MakeIfNeeded([this](kvtree::Tree& index) { return MendTree(index); });
}

absl::Status SharedRecords::MendTree(kvtree::Tree& index) {
  // What is merged and has no entry was taken out by SCR's tools: it stays out.
  CAIRN_ASSIGN_OR_RETURN(const Commits commits, ReadCommits([&index](DatasetId id) { return IsMerged(id, index); }));
  for (const auto& [id, commit] : commits.counting) {
    if (commits.placing.contains(id)) continue;
    const kvtree::Tree* taken = index.FindPath({"DSET", Key(id), "DSET"});
    if (taken != nullptr) {
      const auto descriptor = scr::GetDescriptor(*taken);
      if (descriptor.ok() && !descriptor->launch) continue;  // SCR gave the id out again (SCR specification, section 8)
    }
    // Its maker may not have come to that, and the index must not say more than there is when the power has failed.
    CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(DatasetFolder(id)));
    CAIRN_RETURN_IF_ERROR(MergeCommit(commit, /*verified=*/false, index));
  }
  return absl::OkStatus();
}

absl::StatusOr<scr::Descriptor> SharedRecords::ReadScrSummary(DatasetId id) {
  const std::string path = DatasetFolder(id) + "/summary.scr";
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk_, path));
  auto descriptor = scr::GetSummary(tree);
  if (!descriptor.ok()) return Annotate(descriptor.status(), path);
  if (descriptor->id != id && descriptor->id != 0) return DataLoss("{}: DSET of dataset {}", path, descriptor->id);
  if (descriptor->launch) return NotFound("{}: dataset {} is Cairn's", path, id);
  // The library of SCR looks at the index alone, its tools at the summary (SCR specification, 9.1).
  CAIRN_ASSIGN_OR_RETURN(const bool complete, tree.GetBool("COMPLETE"));
  if (!complete) return FailedPrecondition("{}: dataset {} is not complete", path, id);
  descriptor->id = id;
  return descriptor;
}

// After the index was lost. What SCR has finished says so itself; which of it had failed is not known any more.
absl::Status SharedRecords::EnterScrDatasets(kvtree::Tree& index) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DatasetId> ids, ListDatasets());
  for (const DatasetId id : ids) {
    if (index.FindPath({"DSET", Key(id)}) != nullptr) continue;
    auto descriptor = ReadScrSummary(id);
    if (absl::IsUnavailable(descriptor.status())) return descriptor.status();
    if (!descriptor.ok() || !descriptor->complete.value_or(false)) continue;
    scr::PutIndexEntry(
        {.descriptor = *std::move(descriptor), .complete = true, .flushed = {}, .fetched = {}, .failed = {}}, index);
    Warn(fmt::format("dataset {} is entered again from its summary", id));
  }
  return absl::OkStatus();
}

absl::Status SharedRecords::MergeCommit(const CommitRecord& commit, bool verified, kvtree::Tree& index) {
  CAIRN_ASSIGN_OR_RETURN(const auto before, index_rules::EntryOf(commit.descriptor.id, index));
  const bool refused = before && index_rules::IsRefused(*before, index);
  CAIRN_RETURN_IF_ERROR(EnterCommit(commit, verified && !refused, index));
  CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(commit.descriptor.id, index));
  if (entry && entry->failed.empty()) index_rules::FollowCommit(commit.descriptor, index);
  return absl::OkStatus();
}

absl::Status SharedRecords::EnterCommit(const CommitRecord& commit, bool verified, kvtree::Tree& index) {
  const scr::Descriptor& descriptor = commit.descriptor;
  scr::IndexEntry entry;
  CAIRN_ASSIGN_OR_RETURN(const auto there, index_rules::EntryOf(descriptor.id, index));
  if (there) entry = *there;
  entry.descriptor = descriptor;
  entry.complete = true;
  entry.flushed = scr::LocalTime(verified ? NowMicros() : commit.committed_us);
  if (verified) entry.failed.clear();
  scr::PutIndexEntry(entry, index);
  index.At(kMergedKey).At(Key(descriptor.id));
  return absl::OkStatus();
}

void SharedRecords::Forget(DatasetId id, kvtree::Tree& index) {
  index_rules::Erase(id, index);
  if (kvtree::Tree* merged = index.Find(kMergedKey); merged != nullptr) merged->Erase(Key(id));
}

void SharedRecords::Drop(DatasetId id, kvtree::Tree& index) {
  const kvtree::Tree* descriptor = index.FindPath({"DSET", Key(id), "DSET"});
  const bool by_cairn = descriptor != nullptr && descriptor->Find("CAIRN_LAUNCH") != nullptr;
  index_rules::Erase(id, index);
  if (by_cairn) index.At(kMergedKey).At(Key(id));
}

void SharedRecords::Warn(std::string text) {
  const absl::MutexLock lock(&warnings_mutex_);
  if (warnings_.size() < kWarningsMax) warnings_.push_back(std::move(text));
}

std::vector<std::string> SharedRecords::TakeWarnings() {
  const absl::MutexLock lock(&warnings_mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace cairn
