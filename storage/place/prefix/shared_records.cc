#include "storage/place/prefix/shared_records.h"

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/place/names.h"

#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/index_rules.h"

namespace cairn {
namespace {

// SCR leaves the access to its files to the umask (SCR specification, section 2).
constexpr std::uint32_t kFileMode = 0666;
constexpr std::string_view kMergedKey = "CAIRN_COMMITTED";
constexpr std::size_t kWarningsMax = 1000;

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
  const auto committed = tree.GetInt("COMMITTED");
  if (!committed.ok()) return DataLoss("{}: {}", path, MessageOf(committed.status()));
  const kvtree::Tree* dataset = tree.Find("DSET");
  if (dataset == nullptr) return DataLoss("{}: no DSET", path);
  auto descriptor = scr::GetDescriptor(*dataset);
  if (!descriptor.ok()) return DataLoss("{}: DSET: {}", path, MessageOf(descriptor.status()));
  if (!descriptor->launch || !descriptor->ranks || *descriptor->ranks == 0) {
    return DataLoss("{}: DSET without launch or ranks", path);
  }
  return CommitRecord{.run = *run, .committed_us = *committed, .descriptor = *std::move(descriptor)};
}

SharedRecords::SharedRecords(Disk& disk, std::string prefix, const RunId& run, Pause pause)
    : disk_(disk),
      prefix_(std::move(prefix)),
      run_(run),
      pause_(pause),
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
  return ReplaceTree(disk_, path, after, kFileMode);
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
  if (run_ != RunId() && commit.run != run_) {
    return DataLoss("{}: written for run {}, this is {}", path, commit.run.Hex(), run_.Hex());
  }
  return commit;
}

absl::StatusOr<std::vector<DatasetId>> SharedRecords::ListDatasets() {
  std::vector<DatasetId> ids;
  const auto names = disk_.List(Folder());
  if (absl::IsNotFound(names.status())) return ids;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const auto id = DatasetOfRecords(name);
    if (id && *id != 0 && *id <= identity::kDatasetIdMax) ids.push_back(*id);
  }
  std::sort(ids.begin(), ids.end());
  return ids;
}

absl::StatusOr<std::vector<DatasetId>> SharedRecords::ListUnmerged() {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree index, ReadIndex());
  CAIRN_ASSIGN_OR_RETURN(std::vector<DatasetId> ids, ListDatasets());
  std::erase_if(ids, [&](DatasetId id) { return IsMerged(id, index); });
  return ids;
}

absl::StatusOr<std::map<DatasetId, CommitRecord>> SharedRecords::ReadCommits(const kvtree::Tree* index,
                                                                             std::set<DatasetId>* removed) {
  std::map<DatasetId, CommitRecord> commits;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DatasetId> ids, ListDatasets());
  for (const DatasetId id : ids) {
    if (index != nullptr && IsMerged(id, *index)) continue;
    auto commit = ReadCommit(id);
    if (commit.ok()) {
      commits.emplace(id, *std::move(commit));
    } else if (absl::IsDataLoss(commit.status()) || absl::IsFailedPrecondition(commit.status()) ||
               absl::IsInvalidArgument(commit.status()) || absl::IsPermissionDenied(commit.status())) {
      Warn(fmt::format("dataset {} does not count: {}", id, MessageOf(commit.status())));
    } else if (!absl::IsNotFound(commit.status())) {
      return commit.status();
    } else if (removed != nullptr) {
      CAIRN_ASSIGN_OR_RETURN(const bool gone, IsRemoved(id));
      if (gone) removed->insert(id);
    }
  }
  return commits;
}

absl::StatusOr<PrefixView> SharedRecords::Look() {
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
  CAIRN_ASSIGN_OR_RETURN(view.commits, ReadCommits(nullptr, &view.removed));
  return view;
}

absl::Status SharedRecords::Mend() {
  return index_.MakeIfNeeded([this](kvtree::Tree& index) { return MendTree(index); });
}

absl::Status SharedRecords::MendTree(kvtree::Tree& index) {
  // What is merged and has no entry was taken out by SCR's tools: it stays out.
  CAIRN_ASSIGN_OR_RETURN(const auto commits, ReadCommits(&index));
  for (const auto& [id, commit] : commits) {
    const kvtree::Tree* taken = index.FindPath({"DSET", Key(id), "DSET"});
    if (taken != nullptr) {
      const auto descriptor = scr::GetDescriptor(*taken);
      if (descriptor.ok() && !descriptor->launch) continue;  // SCR gave the id out again (SCR specification, section 8)
    }
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
  CAIRN_RETURN_IF_ERROR(EnterCommit(commit, verified, index));
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
