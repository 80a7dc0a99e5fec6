#include "storage/place/prefix/placing.h"

#include <optional>
#include <set>
#include <utility>

#include "storage/base/clock.h"
#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/place/names.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/in_flight.h"
#include "storage/place/prefix/launches.h"
#include "storage/place/prefix/place.h"
#include "storage/place/prefix/removal.h"
#include "storage/place/prefix/waiting.h"

namespace cairn {
namespace {

constexpr int kRoundsMax = 100;            // while others move files, too

std::set<std::string> NamesOf(const WaitingFiles& waiting) {
  std::set<std::string> names;
  for (const auto& [name, at] : waiting) names.insert(name);
  return names;
}

// One dataset on its way to its names.
class Placing {
 public:
  Placing(Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names, DatasetId id,
          const std::vector<catalogue::Catalogue>& catalogues)
      : disk_(disk), prefix_(prefix), records_(records), scr_names_(scr_names), id_(id), catalogues_(catalogues) {}

  absl::Status Look(LaunchId committer);
  absl::Status Mark();
  // Steps 4 and 5. kAborted: too late, and it was removed.
  absl::Status Finish(std::map<DatasetId, std::vector<catalogue::Catalogue>>* withdrawn);
  absl::Status Unmark();  // after the index has it

 private:
  // All are there, in their sizes.
  absl::StatusOr<WaitingFiles> CheckThere();
  absl::Status CheckOne(const catalogue::FileEntry& file, const WaitingFiles& waiting);
  absl::Status Withdraw(const std::set<std::string>& names,
                        std::map<DatasetId, std::vector<catalogue::Catalogue>>* withdrawn);
  absl::Status SyncPlaces();

  Disk& disk_;
  const std::string& prefix_;
  SharedRecords& records_;
  ScrNames& scr_names_;
  const DatasetId id_;
  const std::vector<catalogue::Catalogue>& catalogues_;
};

absl::Status Placing::CheckOne(const catalogue::FileEntry& file, const WaitingFiles& waiting) {
  const auto waits = waiting.find(file.prefix_name());
  std::string path = waits == waiting.end() ? prefix_ + "/" + file.prefix_name() : waits->second;
  auto info = disk_.Info(path);
  if (absl::IsNotFound(info.status()) && waits != waiting.end()) {  // another has just put it in its place
    path = prefix_ + "/" + file.prefix_name();
    info = disk_.Info(path);
  }
  if (absl::IsNotFound(info.status())) return FailedPrecondition("{}: missing", path);
  if (!info.ok()) return info.status();
  if (info->is_regular() && info->bytes == file.bytes()) return absl::OkStatus();
  return FailedPrecondition("{}: not a file of {} bytes", path, file.bytes());
}

absl::StatusOr<WaitingFiles> Placing::CheckThere() {
  CAIRN_ASSIGN_OR_RETURN(WaitingFiles waiting, StillWaiting(disk_, prefix_, catalogues_));
  for (const catalogue::Catalogue& catalogue : catalogues_) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const absl::Status there = CheckOne(file, waiting);
      if (there.ok()) continue;
      CAIRN_RETURN_IF_ERROR(CheckMayCommit(records_, id_));  // it was removed, and so its files went
      return there;
    }
  }
  return waiting;
}

absl::Status Placing::Look(LaunchId committer) {
  CAIRN_ASSIGN_OR_RETURN(const WaitingFiles waiting, CheckThere());
  CAIRN_RETURN_IF_ERROR(FindReplaced(disk_, prefix_, records_, scr_names_, id_, NamesOf(waiting)).status());
  if (committer == 0) return absl::OkStatus();
  const auto commit = records_.ReadCommit(id_);
  if (commit.ok()) {  // by an earlier try: the launch that it names may not be the newest any more
    CAIRN_ASSIGN_OR_RETURN(const bool counts, records_.Counts(*commit));
    if (counts) return absl::OkStatus();
  }
  CAIRN_ASSIGN_OR_RETURN(const std::optional<LaunchId> newer, records_.launches().NextAfter(committer));
  if (!newer) return absl::OkStatus();
  return FencedStatus(
      fmt::format("{}: dataset {} must not take file names from older datasets: launch {}, which is newer than {}, "
                  "may have chosen one of them",
                  prefix_, id_, *newer, committer));
}

absl::Status Placing::Mark() {
  CAIRN_ASSIGN_OR_RETURN(const WaitingFiles waiting, StillWaiting(disk_, prefix_, catalogues_));
  std::set<std::string> folders;
  for (const auto& [name, at] : waiting) folders.insert(ParentOf(at));
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.SetInt("BEGUN", NowMicros());
  const absl::Status made = CreateFileOnce(disk_, records_.PlacingPath(id_), kvtree::Encode(tree), kPrefixFileMode);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  for (const catalogue::Catalogue& catalogue : catalogues_) {
    CAIRN_RETURN_IF_ERROR(StoreCatalogue(disk_, prefix_, catalogue));
  }
  return absl::OkStatus();
}

// Its own commit counts, so no launch is asked any more.
absl::Status Placing::Withdraw(const std::set<std::string>& names,
                               std::map<DatasetId, std::vector<catalogue::Catalogue>>* withdrawn) {
  CAIRN_RETURN_IF_ERROR(CheckMayCommit(records_, id_));
  // What can fail without harm to the others fails before they give way.
  for (const std::string& name : names) CAIRN_RETURN_IF_ERROR(CheckPlace(disk_, prefix_, name));
  auto replaced = WithdrawReplaced(disk_, prefix_, records_, scr_names_, id_, names, /*committer=*/0);
  if (absl::IsAborted(replaced.status())) {  // a newer one has come meanwhile
    CAIRN_RETURN_IF_ERROR(RemoveDataset(disk_, prefix_, records_, id_, catalogues_));
  }
  if (!replaced.ok()) return replaced.status();
  withdrawn->merge(*replaced);
  return absl::OkStatus();
}

absl::Status Placing::Finish(std::map<DatasetId, std::vector<catalogue::Catalogue>>* withdrawn) {
  for (int round = 0; round < kRoundsMax; ++round) {
    CAIRN_ASSIGN_OR_RETURN(const WaitingFiles waiting, CheckThere());
    if (waiting.empty()) return SyncPlaces();
    CAIRN_RETURN_IF_ERROR(Withdraw(NamesOf(waiting), withdrawn));
    std::vector<CopiedFile> files;
    for (const auto& [name, at] : waiting) files.push_back({.work = at, .to = prefix_ + "/" + name, .in_place = {}});
    const absl::Status placed = PutAllInPlace(disk_, files);
    if (!absl::IsNotFound(placed)) CAIRN_RETURN_IF_ERROR(placed);  // else another has moved one of them
  }
  return Unavailable("{}: dataset {}: others move its files, too, {} times", prefix_, id_, kRoundsMax);
}

// Whoever has moved them may have died before he synced.
absl::Status Placing::SyncPlaces() {
  std::set<std::string> folders;
  for (const catalogue::Catalogue& catalogue : catalogues_) {
    for (const catalogue::FileEntry& file : catalogue.file())
      folders.insert(ParentOf(prefix_ + "/" + file.prefix_name()));
  }
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
  return absl::OkStatus();
}

absl::Status Placing::Unmark() {
  for (const std::string& stage : {RoutedFolder(id_), AdoptedFolder(id_)}) {
    RemoveTree(disk_, prefix_ + "/" + stage).IgnoreError();  // what is left in there is in nobody's way
  }
  const absl::Status gone = disk_.Remove(records_.PlacingPath(id_));
  return absl::IsNotFound(gone) ? absl::OkStatus() : gone;
}

// It was in the index before, and someone has taken it out since: it stays out.
absl::Status EnterUnmerged(SharedRecords& records, const CommitRecord& commit) {
  return records.ChangeIndexIfNeeded([&commit](kvtree::Tree& index) -> absl::Status {
    if (IsMerged(commit.descriptor.id, index)) return absl::OkStatus();
    return SharedRecords::MergeCommit(commit, /*verified=*/false, index);
  });
}

absl::Status FinishOne(Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names,
                       DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
  if (removed) {  // and that was cut short
    CAIRN_ASSIGN_OR_RETURN(const auto stored, StoredCatalogues(disk, prefix, records.identity(), id));
    return RemoveDataset(disk, prefix, records, id, stored);
  }
  const auto commit = records.ReadCommit(id);
  if (absl::IsNotFound(commit.status())) return absl::OkStatus();  // not yet, or never
  if (!commit.ok()) return commit.status();
  CAIRN_ASSIGN_OR_RETURN(const bool counts, records.Counts(*commit));
  if (!counts) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::vector<catalogue::Catalogue> catalogues, ReadCatalogues(disk, prefix, records, id));
  std::map<DatasetId, std::vector<catalogue::Catalogue>> withdrawn;
  Placing placing(disk, prefix, records, scr_names, id, catalogues);
  CAIRN_RETURN_IF_ERROR(placing.Finish(&withdrawn));
  CAIRN_RETURN_IF_ERROR(EnterUnmerged(records, *commit));
  CAIRN_RETURN_IF_ERROR(placing.Unmark());
  for (const auto& [older, its] : withdrawn) {
    if (!its.empty()) CAIRN_RETURN_IF_ERROR(RemoveDataset(disk, prefix, records, older, its));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReplaceDatasets(Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names,
                             const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                             LaunchId committer, Replacement* replacement) {
  Placing placing(disk, prefix, records, scr_names, descriptor.id, catalogues);
  CAIRN_RETURN_IF_ERROR(placing.Look(committer));
  CAIRN_RETURN_IF_ERROR(placing.Mark());
  const auto made = MakeCommit(disk, prefix, records, descriptor, catalogues, committer);
  replacement->committed = made.ok();
  replacement->made = made.ok() || IsFenced(made.status());
  if (!made.ok()) {
    // A removal that came after the look is told as one that came before.
    const absl::Status now = CheckMayCommit(records, descriptor.id);
    return absl::IsAborted(now) ? now : made.status();
  }
  const absl::Status placed = placing.Finish(&replacement->withdrawn);
  if (absl::IsAborted(placed)) replacement->committed = replacement->made = false;  // it is removed
  CAIRN_RETURN_IF_ERROR(placed);
  const absl::Status entered = EnterMade(prefix, records, *made);
  if (absl::IsAlreadyExists(entered)) {
    CAIRN_RETURN_IF_ERROR(EnterUnmerged(records, made->commit));
  } else if (!entered.ok()) {
    return entered;
  }
  CAIRN_RETURN_IF_ERROR(placing.Unmark());
  return entered;
}

absl::Status FinishPlacings(Disk& disk, const std::string& prefix, SharedRecords& records, ScrNames& scr_names) {
  CAIRN_ASSIGN_OR_RETURN(const std::set<DatasetId> ids, records.ListPlacings());
  for (const DatasetId id : ids) {
    const absl::Status finished = FinishOne(disk, prefix, records, scr_names, id);
    if (absl::IsUnavailable(finished)) return finished;
    if (!finished.ok()) records.Warn(fmt::format("dataset {}: {}", id, MessageOf(finished)));
  }
  return absl::OkStatus();
}

absl::Status PutAllInPlace(Disk& disk, const std::vector<CopiedFile>& files) {
  std::vector<CopiedFile> first, indexes;
  for (const CopiedFile& file : files) {
    const bool shows_steps = !file.work.empty() && BaseOf(file.to) == "md.idx";
    (shows_steps ? indexes : first).push_back(file);
  }
  CAIRN_RETURN_IF_ERROR(PutInPlace(disk, first));
  return PutInPlace(disk, indexes);
}

}  // namespace cairn
