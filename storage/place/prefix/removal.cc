#include "storage/place/prefix/removal.h"

#include "storage/base/clock.h"
#include "storage/base/modes.h"
#include "storage/base/path.h"
#include "storage/place/names.h"

#include <algorithm>
#include <functional>
#include <set>

#include "storage/base/status.h"
#include "storage/file/transfer/work_file.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/io/create_once.h"
#include "storage/io/file_tree.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/fence_names.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/place.h"
#include "storage/place/prefix/removed_record.h"
#include "storage/place/prefix/scr_dataset.h"
#include "storage/place/prefix/views.h"
#include "storage/place/prefix/waiting.h"

namespace cairn {
namespace {

constexpr int kLooksMax = 100;  // while others commit and remove

// Removes one after the other, whatever happens, and keeps the first error.
class Remover {
 public:
  explicit Remover(Disk& disk) : disk_(disk) {}

  void File(const std::string& path) { Note(disk_.Remove(path)); }
  void Files(const std::string& folder, const std::function<bool(const std::string&)>& which) {
    const auto names = disk_.List(folder);
    if (!names.ok()) return Note(names.status());
    for (const std::string& name : *names) {
      if (which(name)) File(folder + "/" + name);
    }
  }
  void Synced(const std::string& folder) { Note(disk_.SyncDirectory(folder)); }
  void FolderIfEmpty(const std::string& folder) {
    const absl::Status removed = disk_.Remove(folder);
    if (!absl::IsAlreadyExists(removed)) Note(removed);  // not empty: what is in it is not ours
  }
  // What Cairn has put into ckpt.<id>, and the folder if that was all.
  void DataFolder(const std::string& prefix, DatasetId id) {
    const std::string folder = prefix + "/" + DatasetName(id);
    const auto names = disk_.List(folder);
    if (!names.ok()) return Note(names.status());
    for (const std::string& name : *names) {
      if (!IsDatasetFile(name, id)) continue;
      const absl::Status removed = disk_.Remove(folder + "/" + name);
      if (!absl::IsAlreadyExists(removed)) Note(removed);  // somebody's folder of that name, with files in it
    }
    FolderIfEmpty(folder);
  }
  const absl::Status& status() const { return status_; }

 private:
  void Note(const absl::Status& status) {
    if (status_.ok() && !status.ok() && !absl::IsNotFound(status)) status_ = status;
  }
  Disk& disk_;
  absl::Status status_;
};

// By SCR's lists, which are those of Cairn's datasets, too. Damaged ones name nothing: nobody restores by them, and
// what this dataset's catalogues name shall not stay for ever for their sake.
absl::Status AddListed(Disk& disk, SharedRecords& records, DatasetId id, RealNames& real,
                       std::set<std::string>* names) {
  const auto listed = ListedNames(disk, records.DatasetFolder(id));
  if (absl::IsDataLoss(listed.status())) {
    records.Warn(fmt::format("dataset {}: {}", id, MessageOf(listed.status())));
    return absl::OkStatus();
  }
  if (!listed.ok()) return listed.status();
  for (const std::string& name : *listed) names->insert(real.Of(name));
  return absl::OkStatus();
}

// Real names: under names of their own, later outputs may have taken the place of this one's files.
absl::StatusOr<std::set<std::string>> NamesIn(Disk& disk, const std::string& prefix, SharedRecords& records,
                                              const PrefixView& view, DatasetId id, RealNames& real) {
  std::set<std::string> names;
  for (const auto& [other, entry] : view.index.datasets) {
    // SCR's own bytes are never Cairn's to take.
    if (other == id || entry.descriptor.launch || !entry.complete) continue;
    CAIRN_RETURN_IF_ERROR(AddListed(disk, records, other, real, &names));
  }
  for (const auto& [other, commit] : view.commits) {
    if (other == id || !commit.descriptor.own_files) continue;
    const auto catalogues = ReadCatalogues(disk, prefix, records, other);
    if (absl::IsNotFound(catalogues.status())) continue;  // removed meanwhile
    if (absl::IsDataLoss(catalogues.status())) {
      CAIRN_RETURN_IF_ERROR(AddListed(disk, records, other, real, &names));
      continue;
    }
    if (!catalogues.ok()) return catalogues.status();
    for (const catalogue::Catalogue& catalogue : *catalogues) {
      for (const catalogue::FileEntry& file : catalogue.file()) names.insert(real.Of(file.prefix_name()));
    }
  }
  return names;
}

bool SameDatasets(const PrefixView& one, const PrefixView& other) {
  return std::equal(one.commits.begin(), one.commits.end(), other.commits.begin(), other.commits.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first; });
}

// A name may go from one dataset to another while it is looked, and be seen with neither: so what is seen counts if the
// same datasets are there afterwards.
absl::StatusOr<std::set<std::string>> NamesOfOthers(Disk& disk, const std::string& prefix, SharedRecords& records,
                                                    DatasetId id, RealNames& real) {
  CAIRN_ASSIGN_OR_RETURN(PrefixView view, records.LookQuickly());
  for (int i = 0; i < kLooksMax; ++i) {
    CAIRN_ASSIGN_OR_RETURN(std::set<std::string> names, NamesIn(disk, prefix, records, view, id, real));
    CAIRN_ASSIGN_OR_RETURN(PrefixView after, records.LookQuickly());
    if (SameDatasets(view, after)) return names;
    view = std::move(after);
  }
  return Unavailable("{}: others added or removed datasets during each of {} attempts", prefix, kLooksMax);
}

absl::Status CheckCatalogues(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) {
  for (const catalogue::Catalogue& catalogue : catalogues) {
    CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
    if (catalogue.dataset() != id) {
      return InvalidArgument("dataset {} cannot be removed by a catalogue of dataset {}", id, catalogue.dataset());
    }
  }
  return absl::OkStatus();
}

absl::Status IsScrs(DatasetId id) {
  return FailedPrecondition("dataset {} was written by SCR and is removed by `cairn index remove` only", id);
}

absl::Status ForgetEntry(SharedRecords& records, DatasetId id) {
  return records.ChangeIndex([id](kvtree::Tree& index) -> absl::Status {
    if (index.empty()) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const scr::Index before, scr::GetIndex(index));
    const auto entry = before.datasets.find(id);
    if (entry != before.datasets.end() && !entry->second.descriptor.launch) {
      return IsScrs(id);
    }
    SharedRecords::Forget(id, index);
    return absl::OkStatus();
  });
}

std::string MarkPath(const SharedRecords& records, DatasetId id, LaunchId committer) {
  return fmt::format("{}/{}", records.Folder(), fence_names::RemovalMark(id, committer));
}

// The lists go last: while the root is there, the removal is not finished.
absl::Status RemoveLists(Disk& disk, const std::string& folder) {
  Remover remover(disk);
  const std::string root = "rank2file";
  remover.Files(folder, [&](const std::string& name) {
    return name == "summary.scr" || name == fence_names::kCommit || fence_names::CommitterOf(name) ||
           IsWorkName(name) || name.starts_with(root + ".");
  });
  CAIRN_RETURN_IF_ERROR(remover.status());
  remover.File(folder + "/" + root);
  return remover.status();
}

}  // namespace

absl::Status WithdrawDataset(Disk& disk, SharedRecords& records, DatasetId id) {
  CAIRN_RETURN_IF_ERROR(ForgetEntry(records, id));
  CAIRN_RETURN_IF_ERROR(WriteRemoved(disk, records, id));
  return ForgetEntry(records, id);  // another may have merged the commit between these two
}

absl::StatusOr<bool> WithdrawForRemoval(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id) {
  const absl::Status withdrawn = WithdrawDataset(disk, records, id);
  if (withdrawn.ok()) return false;
  if (!absl::IsResourceExhausted(withdrawn)) return withdrawn;
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree index, records.ReadIndex());
  CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(id, index));
  if (entry && !entry->descriptor.launch) return IsScrs(id);
  CAIRN_RETURN_IF_ERROR(RemoveView(disk, prefix, id));
  const absl::Status again = WithdrawDataset(disk, records, id);
  if (again.ok()) return false;
  if (!absl::IsResourceExhausted(again)) return again;
  CAIRN_RETURN_IF_ERROR(WriteRemoved(disk, records, id));  // a rename, which needs no room
  return true;
}

absl::Status FinishWithdrawal(SharedRecords& records, DatasetId id) {
  return ForgetEntry(records, id);
}

// The summary first: without an index it would bring the entry back.
absl::Status WithdrawScrDataset(Disk& disk, SharedRecords& records, DatasetId id) {
  const std::string path = records.DatasetFolder(id) + "/summary.scr";
  auto summary = ReadTree(disk, path);
  if (summary.ok()) {
    summary->Set("COMPLETE", std::uint64_t{0});
    CAIRN_RETURN_IF_ERROR(ReplaceTree(disk, path, *summary, kPrefixFileMode));
  } else if (!absl::IsNotFound(summary.status()) && !absl::IsDataLoss(summary.status()) &&
             !absl::IsInvalidArgument(summary.status())) {
    return summary.status();
  }
  return records.ChangeIndex([id](kvtree::Tree& index) -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const auto there, index_rules::EntryOf(id, index));
    if (!there || there->descriptor.launch) return absl::OkStatus();
    index.At("DSET").At(fmt::format("{}", id)).Set("COMPLETE", std::uint64_t{0});
    if (index_rules::CurrentOf(index) == id) index.Erase("CURRENT");
    return absl::OkStatus();
  });
}

absl::Status MarkRemovals(Disk& disk, SharedRecords& records, const std::set<DatasetId>& ids, LaunchId committer) {
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  tree.SetInt("BEGUN", NowMicros());
  for (const DatasetId id : ids) {
    const absl::Status made =
        CreateFileOnce(disk, MarkPath(records, id, committer), kvtree::Encode(tree), kPrefixFileMode);
    if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  }
  CAIRN_ASSIGN_OR_RETURN(const std::set<DatasetId> fenced, records.launches().FencedRemovals(ids, committer));
  if (fenced.empty()) return absl::OkStatus();
  for (const DatasetId id : fenced) CAIRN_RETURN_IF_ERROR(UnmarkRemoval(disk, records, id, committer));
  return FencedStatus(fmt::format("{}: dataset {} is not removed: a launch newer than {} may have chosen it",
                                  records.Folder(), *fenced.begin(), committer));
}

absl::Status UnmarkRemoval(Disk& disk, SharedRecords& records, DatasetId id, LaunchId committer) {
  const absl::Status gone = disk.Remove(MarkPath(records, id, committer));
  return absl::IsNotFound(gone) ? absl::OkStatus() : gone;
}

namespace {

// Files that are not in their places yet (placing.h): durably, so that nobody who goes on with them puts them there
// afterwards. Answers their names: what is under these is not this dataset's.
absl::StatusOr<std::set<std::string>> RemoveWaiting(Disk& disk, const std::string& prefix, SharedRecords& records,
                                                    DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) {
  std::set<std::string> names, folders;
  CAIRN_ASSIGN_OR_RETURN(const bool placing, records.IsPlacing(id));
  if (!placing) return names;
  CAIRN_ASSIGN_OR_RETURN(const WaitingFiles waiting, StillWaiting(disk, prefix, catalogues));
  Remover remover(disk);
  for (const auto& [name, path] : waiting) {
    remover.File(path);
    folders.insert(ParentOf(path));
    names.insert(name);
  }
  for (const std::string& folder : folders) remover.Synced(folder);
  CAIRN_RETURN_IF_ERROR(remover.status());
  for (const std::string& stage : {RoutedFolder(id), AdoptedFolder(id)}) {
    CAIRN_RETURN_IF_ERROR(RemoveTree(disk, prefix + "/" + stage));
  }
  return names;
}

}  // namespace

absl::Status RemoveDataset(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                           const std::vector<catalogue::Catalogue>& catalogues, LaunchId committer) {
  CAIRN_RETURN_IF_ERROR(CheckCatalogues(id, catalogues));
  if (committer != 0) CAIRN_RETURN_IF_ERROR(MarkRemovals(disk, records, {id}, committer));
  bool own_files = false;
  for (const catalogue::Catalogue& catalogue : catalogues) own_files |= catalogue.files();
  RealNames real(disk, prefix);
  std::set<std::string> others;
  if (own_files) {
    CAIRN_ASSIGN_OR_RETURN(others, NamesOfOthers(disk, prefix, records, id, real));
  }
  CAIRN_ASSIGN_OR_RETURN(const bool entry_stays, WithdrawForRemoval(disk, prefix, records, id));
  if (committer != 0) CAIRN_RETURN_IF_ERROR(UnmarkRemoval(disk, records, id, committer));
  CAIRN_RETURN_IF_ERROR(RemoveView(disk, prefix, id));
  CAIRN_ASSIGN_OR_RETURN(const std::set<std::string> waited, RemoveWaiting(disk, prefix, records, id, catalogues));

  Remover remover(disk);
  std::set<std::string> folders;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::string path = prefix + "/" + file.prefix_name();
      const bool own = !waited.contains(file.prefix_name()) && !others.contains(real.Of(file.prefix_name()));
      if (own) remover.File(path);
      remover.File(TransferWorkName(path, file, catalogue.files() ? id : 0));
      if (catalogue.files()) folders.insert(ParentOf(path));
    }
  }
  // Their catalogues go next, and without them nobody would know whose files the power has brought back.
  for (const std::string& folder : folders) remover.Synced(folder);
  RemoveEmptyFolders(disk, prefix, folders);
  remover.DataFolder(prefix, id);
  remover.File(records.PlacingPath(id));
  CAIRN_RETURN_IF_ERROR(remover.status());
  if (entry_stays) CAIRN_RETURN_IF_ERROR(FinishWithdrawal(records, id));
  return RemoveLists(disk, records.DatasetFolder(id));
}

namespace {

// Files under names of the application's own need catalogues, which are read while they are there.
absl::Status FinishOne(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                       LaunchId committer) {
  auto catalogues = ReadCatalogues(disk, prefix, records, id);
  if (absl::IsUnavailable(catalogues.status())) return catalogues.status();
  if (!catalogues.ok()) catalogues = std::vector<catalogue::Catalogue>();
  const absl::Status removed = RemoveDataset(disk, prefix, records, id, *catalogues);
  if (!removed.ok() && !absl::IsFailedPrecondition(removed)) return removed;  // SCR's own by now
  return UnmarkRemoval(disk, records, id, committer);
}

absl::Status FinishMarked(Disk& disk, const std::string& prefix, SharedRecords& records) {
  CAIRN_ASSIGN_OR_RETURN(const auto marks, records.ListRemovals());
  for (const auto& [id, committer] : marks) {
    // Whether it counts is asked of the server, as who has made it does.
    CAIRN_ASSIGN_OR_RETURN(const auto fenced, records.launches().FencedRemovals({id}, committer));
    CAIRN_RETURN_IF_ERROR(fenced.empty() ? FinishOne(disk, prefix, records, id, committer)
                                         : UnmarkRemoval(disk, records, id, committer));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status FinishRemovals(Disk& disk, const std::string& prefix, SharedRecords& records) {
  CAIRN_RETURN_IF_ERROR(FinishMarked(disk, prefix, records));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<DatasetId> ids, records.ListUnmerged());
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree index, records.ReadIndex());
  for (const DatasetId id : ids) {
    const std::string folder = records.DatasetFolder(id);
    const auto names = disk.List(folder);
    if (absl::IsNotFound(names.status())) continue;          // another finishes it at the same time
    if (absl::IsPermissionDenied(names.status())) continue;  // not this user's
    if (!names.ok()) return names.status();
    const bool removed = std::find(names->begin(), names->end(), BaseOf(records.RemovedPath(id))) != names->end();
    if (!removed || names->size() == 1) continue;
    // SCR has given the id out again since (SCR specification, section 8): what is here now is not Cairn's.
    CAIRN_ASSIGN_OR_RETURN(const auto entry, index_rules::EntryOf(id, index));
    if (entry && !entry->descriptor.launch) continue;
    CAIRN_RETURN_IF_ERROR(RemoveView(disk, prefix, id));
    Remover remover(disk);
    remover.DataFolder(prefix, id);
    CAIRN_RETURN_IF_ERROR(remover.status());
    CAIRN_RETURN_IF_ERROR(RemoveLists(disk, folder));
  }
  return absl::OkStatus();
}

}  // namespace cairn
