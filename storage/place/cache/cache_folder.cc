#include "storage/place/cache/cache_folder.h"

#include "storage/base/path.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/load.h"
#include "storage/place/cache/protection.h"
#include "storage/place/cache/redundancy_record.h"
#include "storage/place/cache/run_folder.h"

namespace cairn {
namespace {

bool CanShareExtents(Disk& disk, const std::string& folder) {
  const std::string index = fmt::format("{}/{}", folder, kCacheIndexName);
  const std::string clone = WorkName(index);
  if (!disk.Clone(index, clone).ok()) return false;
  disk.Remove(clone).IgnoreError();  // a work name: the next start removes it
  return true;
}

class CacheFolderOnDisk final : public CacheFolder {
 public:
  CacheFolderOnDisk(Disk& disk, RunFolder folder)
      : disk_(disk),
        path_(std::move(folder.path)),
        record_(std::move(folder.record)),
        shares_extents_(CanShareExtents(disk, path_)),
        index_(disk, fmt::format("{}/{}", path_, kCacheIndexName)),
        warnings_(std::move(folder.warnings)) {}

  // One that is damaged, or lost though there are datasets, is made anew by Load. Until then nothing is written: an
  // index without their entries would be their end.
  absl::Status ReadIndex() {
    const absl::Status read = index_.Read();
    if (absl::IsDataLoss(read)) return absl::OkStatus();
    CAIRN_RETURN_IF_ERROR(read);
    const auto info = disk_.Info(index_.path());
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->bytes > 0) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const bool datasets, HasDatasets(disk_, path_));
    if (datasets) index_.MarkLost();
    return absl::OkStatus();
  }

  Disk& disk() override { return disk_; }
  const std::string& path() const override { return path_; }
  std::string prefix() const override { return record().prefix; }
  RunRecord record() const override {
    const absl::MutexLock lock(&mutex_);
    return record_;
  }
  absl::Status ChangeRecord(const std::function<void(RunRecord& record)>& change) override;
  std::string DatasetPath(DatasetId id) const override { return path_ + "/" + DatasetFolderName(id); }
  std::string WorkPath(DatasetId id, Rank rank) const override {
    return WorkName(DatasetPath(id) + "/" + CheckpointFileName(id, rank));
  }

  absl::StatusOr<CacheLoad> Load() override {
    CAIRN_ASSIGN_OR_RETURN(CacheLoad load, LoadCache(disk_, path_, prefix(), record().run, index_));
    if (auto asides = FindAsides(); asides.ok()) {
      load.asides = *std::move(asides);
    } else {
      load.warnings.push_back(fmt::format("what lies aside is not known: {}", MessageOf(asides.status())));
    }
    const absl::MutexLock lock(&mutex_);
    load.warnings.insert(load.warnings.begin(), warnings_.begin(), warnings_.end());
    warnings_.clear();
    return load;
  }

  // SCR's index, as it is now: SCR may have changed it since.
  absl::StatusOr<std::vector<ScrCached>> FindScrs() override {
    CacheIndex now(disk_, index_.path());
    const absl::Status read = now.Read();
    if (!read.ok() && !absl::IsDataLoss(read)) return read;
    return FindScrDatasets(disk_, path_, now.Entries());
  }

  absl::StatusOr<std::vector<Aside>> FindAsides() override { return cairn::FindAsides(disk_, path_, index_.Entries()); }
  absl::Status RemoveAside(const Aside& aside) override;

  absl::Status Begin(const scr::Descriptor& descriptor) override;
  absl::Status CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) override;
  absl::Status CommitRankFiles(const catalogue::Catalogue& catalogue) override;
  absl::Status Complete(const scr::Descriptor& descriptor) override;
  absl::Status Protect(const scr::Descriptor& descriptor, const kept::Record& record) override;
  absl::Status Reopen(const scr::Descriptor& descriptor) override;
  void EndReopened(DatasetId id) override;
  absl::Status SetRankAside(DatasetId id, Rank rank) override;
  absl::Status Remove(DatasetId id) override;
  absl::Status Retire(DatasetId id) override;
  bool shares_extents() const override { return shares_extents_; }
  absl::Status SetAside(DatasetId id, const std::string& file, std::string_view why) override;
  absl::Status SetDatasetAside(DatasetId id, Why why) override;
  absl::StatusOr<std::string> RouteFile(DatasetId id, const std::string& name) override;

  absl::Status StoreFlushRecord(const kvtree::Tree& record) override { return ReplaceTree(disk_, FlushPath(), record); }
  absl::StatusOr<kvtree::Tree> LoadFlushRecord() override {
    auto record = ReadTree(disk_, FlushPath());
    if (absl::IsNotFound(record.status())) return kvtree::Tree();
    return record;
  }

 private:
  // A dataset between Begin, or Reopen, and Complete.
  struct Open {
    scr::Descriptor descriptor;
    std::set<Rank> committing;
    std::map<Rank, RankFiles> committed;
    bool reopened = false;  // it is whole, and has an entry
  };

  std::string FlushPath() const { return fmt::format("{}/{}", path_, kFlushRecordName); }
  absl::Status CheckCatalogue(const catalogue::Catalogue& catalogue);
  // kAlreadyExists: what lies under this number is SCR's own.
  absl::Status CheckNotScrs(DatasetId id);
  absl::Status GiveUp(DatasetId id);
  void Forget(DatasetId id) {  // what is open of it
    const absl::MutexLock lock(&mutex_);
    open_.erase(id);
  }
  // The index's descriptor of a dataset that is whole here and not open. kFailedPrecondition: it is not.
  absl::StatusOr<scr::Descriptor> FindWhole(DatasetId id);
  absl::StatusOr<scr::Descriptor> FindWhole(const scr::Descriptor& descriptor);  // and this one
  // Of a whole dataset, one at a time: what ranks keep, or which ranks lie here, is being changed.
  class Changing {
   public:
    Changing(CacheFolderOnDisk& folder, DatasetId id) : folder_(folder), id_(id) {
      const absl::MutexLock lock(&folder_.mutex_);
      // Ends with the other's work on the disk.
      while (!folder_.changing_.insert(id_).second) folder_.changed_.Wait(&folder_.mutex_);
    }
    ~Changing() {
      const absl::MutexLock lock(&folder_.mutex_);
      folder_.changing_.erase(id_);
      folder_.changed_.SignalAll();
    }
    Changing(const Changing&) = delete;

   private:
    CacheFolderOnDisk& folder_;
    const DatasetId id_;
  };
  absl::Status TakeOut(const scr::Descriptor& rest, const std::vector<RankFiles>& ranks);
  absl::Status RemoveUnnamed(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks);
  absl::StatusOr<std::map<Rank, RankFiles>> FilesOf(const scr::Descriptor& descriptor);
  absl::Status CompleteReopened(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks);
  absl::Status WriteEntry(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks, bool* removed);
  // Marks the rank as being committed, runs `write` with the dataset's descriptor, keeps what it answers.
  template <typename Write>
  absl::Status CommitAs(const catalogue::Catalogue& catalogue, Write write);

  Disk& disk_;
  const std::string path_;
  absl::Mutex record_mutex_;  // one change of the record at a time; before the other
  RunRecord record_ ABSL_GUARDED_BY(mutex_);
  const bool shares_extents_;
  CacheIndex index_;
  mutable absl::Mutex mutex_;
  std::map<DatasetId, Open> open_ ABSL_GUARDED_BY(mutex_);
  std::set<DatasetId> changing_ ABSL_GUARDED_BY(mutex_);
  absl::CondVar changed_;  // one of these is not any more
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mutex_);
};

absl::Status CacheFolderOnDisk::ChangeRecord(const std::function<void(RunRecord& record)>& change) {
  const absl::MutexLock changing(&record_mutex_);
  RunRecord next = record();
  const RunId run = next.run.run;
  change(next);
  next.run.run = run;
  CAIRN_RETURN_IF_ERROR(StoreRunRecord(disk_, path_, next));
  const absl::MutexLock lock(&mutex_);
  record_ = std::move(next);
  return absl::OkStatus();
}

absl::Status CacheFolderOnDisk::Begin(const scr::Descriptor& descriptor) {
  const DatasetId id = descriptor.id;
  if (id == 0 || id > std::numeric_limits<std::int32_t>::max() || descriptor.name.empty() || !descriptor.launch ||
      descriptor.ranks.value_or(0) == 0) {
    return InvalidArgument("dataset {} named \"{}\": a number, a name, a launch and ranks are needed", id,
                           descriptor.name);
  }
  kvtree::Tree entry;
  scr::PutCacheEntry({.descriptor = descriptor, .path = DatasetPath(id), .bypass = false}, entry);
  CAIRN_RETURN_IF_ERROR(kvtree::Encodable(entry));
  CAIRN_RETURN_IF_ERROR(index_.CheckWritable());
  CAIRN_RETURN_IF_ERROR(CheckNotScrs(id));
  if (index_.ContainsOwn(id)) return AlreadyExists("{}: dataset {} was begun before", path_, id);
  CAIRN_RETURN_IF_ERROR(disk_.MakeDirectory(DatasetPath(id), 0700));
  if (absl::Status made = disk_.MakeDirectory(DatasetPath(id) + "/.scr", 0700); !made.ok()) {
    RemoveTree(disk_, DatasetPath(id)).IgnoreError();  // what is left of it goes at the next start
    return made;
  }
  const absl::MutexLock lock(&mutex_);
  open_[id] = {.descriptor = descriptor, .committing = {}, .committed = {}};
  return absl::OkStatus();
}

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
  return FailedPrecondition("{}: dataset {} is another one here", path_, descriptor.id);
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
    return FailedPrecondition("{}: of dataset {} rank {} lies here alone, or not at all", path_, id, rank);
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

absl::Status CacheFolderOnDisk::CheckNotScrs(DatasetId id) {
  const std::map<DatasetId, scr::CacheEntry> entries = index_.Entries();
  const auto entry = entries.find(id);
  CAIRN_ASSIGN_OR_RETURN(const bool scrs,
                         IsScrsFolder(disk_, DatasetPath(id), entry == entries.end() ? nullptr : &entry->second));
  return scrs ? AlreadyExists("{}: is SCR's own", DatasetPath(id)) : absl::OkStatus();
}

absl::Status CacheFolderOnDisk::CheckCatalogue(const catalogue::Catalogue& catalogue) {
  CAIRN_RETURN_IF_ERROR(ValidateCatalogue(catalogue));
  const RunIdentity run = record().run;
  if (run.Includes(catalogue.run())) return absl::OkStatus();
  return InvalidArgument("catalogue of run {} in the cache of run {}", catalogue.run(), run.run.Hex());
}

template <typename Write>
absl::Status CacheFolderOnDisk::CommitAs(const catalogue::Catalogue& catalogue, Write write) {
  CAIRN_RETURN_IF_ERROR(CheckCatalogue(catalogue));
  const DatasetId id = catalogue.dataset();
  const Rank rank = catalogue.rank();
  scr::Descriptor descriptor;
  {
    const absl::MutexLock lock(&mutex_);
    const auto open = open_.find(id);
    if (open == open_.end()) return FailedPrecondition("{}: dataset {} is not open", path_, id);
    descriptor = open->second.descriptor;
    if (catalogue.nranks() != descriptor.ranks) {
      return InvalidArgument("dataset {}: rank {} says {} ranks, the dataset has {}", id, rank, catalogue.nranks(),
                             *descriptor.ranks);
    }
    if (open->second.committed.contains(rank) || !open->second.committing.insert(rank).second) {
      return AlreadyExists("dataset {}: rank {} was committed before", id, rank);
    }
  }
  absl::StatusOr<RankFiles> files = write(descriptor);
  const absl::MutexLock lock(&mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return FailedPrecondition("{}: dataset {} was removed meanwhile", path_, id);
  open->second.committing.erase(rank);
  if (!files.ok()) return files.status();
  open->second.committed[rank] = *std::move(files);
  return absl::OkStatus();
}

absl::Status CacheFolderOnDisk::CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) {
  if (catalogue.files() || (catalogue.file_size() == 1) != !work_path.empty()) {
    return InvalidArgument("dataset {}, rank {}: {} files in the catalogue, {} written", catalogue.dataset(),
                           catalogue.rank(), catalogue.file_size(), work_path.empty() ? 0 : 1);
  }
  if (catalogue.file_size() == 1 &&
      catalogue.file(0).name() != CheckpointFileName(catalogue.dataset(), catalogue.rank())) {
    return InvalidArgument("dataset {}, rank {}: checkpoint file named {}", catalogue.dataset(), catalogue.rank(),
                           catalogue.file(0).name());
  }
  return CommitAs(catalogue, [&](const scr::Descriptor& descriptor) -> absl::StatusOr<RankFiles> {
    const std::string folder = DatasetPath(catalogue.dataset());
    if (!work_path.empty()) CAIRN_RETURN_IF_ERROR(disk_.Rename(work_path, folder + "/" + catalogue.file(0).name()));
    return WriteRankRecords(disk_, folder, prefix(), descriptor, catalogue);
  });
}

absl::Status CacheFolderOnDisk::CommitRankFiles(const catalogue::Catalogue& catalogue) {
  if (!catalogue.files()) {
    return InvalidArgument("dataset {}, rank {}: not a catalogue of the application's files", catalogue.dataset(),
                           catalogue.rank());
  }
  return CommitAs(catalogue, [&](const scr::Descriptor& descriptor) {
    return WriteRankRecords(disk_, DatasetPath(catalogue.dataset()), prefix(), descriptor, catalogue);
  });
}

absl::Status CacheFolderOnDisk::Complete(const scr::Descriptor& descriptor) {
  const DatasetId id = descriptor.id;
  const std::vector<Rank> held = scr::RanksHeld(descriptor);
  std::vector<RankFiles> ranks;
  bool reopened = false;
  {
    const absl::MutexLock lock(&mutex_);
    const auto open = open_.find(id);
    if (open == open_.end()) return FailedPrecondition("{}: dataset {} is not open", path_, id);
    const std::map<Rank, RankFiles>& committed = open->second.committed;
    const bool those = std::equal(held.begin(), held.end(), committed.begin(), committed.end(),
                                  [](Rank rank, const auto& item) { return rank == item.first; });
    if (descriptor.ranks != open->second.descriptor.ranks || !those) {
      return FailedPrecondition("dataset {}: {} of {} ranks are committed", id, committed.size(), held.size());
    }
    for (const auto& [rank, files] : committed) ranks.push_back(files);
    reopened = open->second.reopened;
  }
  if (reopened) return CompleteReopened(descriptor, ranks);
  CAIRN_RETURN_IF_ERROR(WriteDatasetRecords(disk_, DatasetPath(id), *descriptor.ranks, ranks));
  bool removed = false;
  CAIRN_RETURN_IF_ERROR(WriteEntry(descriptor, ranks, &removed));
  if (removed) {
    CAIRN_RETURN_IF_ERROR(EraseEncodeStates(disk_, DatasetPath(id)));  // written after the removal took them back
    return FailedPrecondition("{}: dataset {} was removed meanwhile", path_, id);
  }
  Forget(id);
  return absl::OkStatus();
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

absl::Status CacheFolderOnDisk::WriteEntry(const scr::Descriptor& descriptor, const std::vector<RankFiles>& ranks,
                                           bool* removed) {
  const scr::CacheEntry entry = CompleteEntry(DatasetPath(descriptor.id), descriptor, ranks);
  return index_.Apply([&](kvtree::Tree& tree) {
    const absl::MutexLock lock(&mutex_);
    *removed = !open_.contains(entry.descriptor.id);
    if (!*removed) scr::PutCacheEntry(entry, tree);
  });
}

absl::Status CacheFolderOnDisk::Remove(DatasetId id) {
  CAIRN_RETURN_IF_ERROR(CheckNotScrs(id));
  Forget(id);
  CAIRN_RETURN_IF_ERROR(GiveUp(id));
  return RemoveTree(disk_, DatasetPath(id));
}

absl::Status CacheFolderOnDisk::Retire(DatasetId id) {
  if (!index_.ContainsOwn(id)) return NotFound("{}: no dataset {}", path_, id);
  Forget(id);  // else what had been reopened could be completed
  return GiveUp(id);
}

// The entry first: without it the dataset is not believed in; an entry without encode states would be mended. Then the
// states, by which it would come back if the index were lost. The bytes are untouched until both are gone for good.
absl::Status CacheFolderOnDisk::GiveUp(DatasetId id) {
  CAIRN_RETURN_IF_ERROR(index_.Apply([id](kvtree::Tree& tree) { scr::EraseCacheEntry(id, tree); }));
  return EraseEncodeStates(disk_, DatasetPath(id));
}

absl::Status CacheFolderOnDisk::SetAside(DatasetId id, const std::string& file, std::string_view why) {
  const std::string folder = DatasetPath(id) + "/";
  const std::string name = file.starts_with(folder) ? file.substr(folder.size()) : file;
  // As a path below the folder only: catalogues are named so, too.
  const auto normal = NormalizeFileName("", "x/" + name);
  if (!normal.ok() || *normal != "x/" + name) return InvalidArgument("{}: not a file of dataset {}", file, id);
  bool there = false;
  CAIRN_RETURN_IF_ERROR(index_.Apply([&](kvtree::Tree& tree) {
    kvtree::Tree* datasets = tree.Find("DSET");
    kvtree::Tree* entry = datasets != nullptr ? datasets->Find(std::to_string(id)) : nullptr;
    there = entry != nullptr;
    if (!there) return;
    entry->At("DSETDESC").SetBool("COMPLETE", false);
    // Up to a NUL, which a key cannot hold.
    entry->Set("CAIRN_DAMAGED", fmt::format("{}: {}", name, why.substr(0, why.find('\0'))));
  }));
  if (!there) return NotFound("{}: no dataset {}", path_, id);
  Forget(id);  // likewise
  CAIRN_RETURN_IF_ERROR(EraseEncodeStates(disk_, DatasetPath(id)));
  const absl::Status moved = MoveAside(disk_, folder + name, folder + name + ".damaged").status();
  return absl::IsNotFound(moved) ? absl::OkStatus() : moved;  // then that was the damage
}

absl::Status CacheFolderOnDisk::SetDatasetAside(DatasetId id, Why why) {
  CAIRN_RETURN_IF_ERROR(CheckNotScrs(id));
  Forget(id);
  // First the folder: an entry without one is harmless, a folder without entry would be removed.
  const std::string_view stem = why == Why::kDamaged ? kDamagedStem : kTakenStem;
  const absl::Status moved = MoveAside(disk_, DatasetPath(id), fmt::format("{}/{}{}", path_, stem, id)).status();
  if (!moved.ok() && !absl::IsNotFound(moved)) return moved;
  return index_.Apply([id](kvtree::Tree& tree) { scr::EraseCacheEntry(id, tree); });
}

absl::Status CacheFolderOnDisk::RemoveAside(const Aside& aside) {
  const absl::StatusOr<std::string> going = MarkGoing(disk_, path_, aside);
  if (absl::IsNotFound(going.status())) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(going.status());
  if (aside.kind == Aside::Kind::kInPlace) {  // an entry without a folder is harmless
    CAIRN_RETURN_IF_ERROR(index_.Apply([id = aside.dataset](kvtree::Tree& tree) { scr::EraseCacheEntry(id, tree); }));
  }
  return RemoveTree(disk_, *going);
}

absl::StatusOr<std::string> CacheFolderOnDisk::RouteFile(DatasetId id, const std::string& name) {
  CAIRN_ASSIGN_OR_RETURN(const std::string normal, NormalizeFileName("", name));
  CAIRN_RETURN_IF_ERROR(disk_.Info(DatasetPath(id)).status());
  std::string path = DatasetPath(id) + "/" + normal;
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk_, ParentOf(path), 0700));
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CacheFolder>> CacheFolder::Open(Disk& disk, const std::string& cache,
                                                               std::string_view user, std::string_view run_name,
                                                               const RunIdentity& run, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(RunFolder folder, OpenRunFolder(disk, cache, user, run_name, run, prefix));
  auto opened = std::make_unique<CacheFolderOnDisk>(disk, std::move(folder));
  CAIRN_RETURN_IF_ERROR(opened->ReadIndex());
  return opened;
}

absl::StatusOr<std::vector<catalogue::Catalogue>> ReadCatalogues(Disk& disk, const std::string& folder,
                                                                 const RunIdentity& run,
                                                                 const scr::Descriptor& descriptor) {
  constexpr std::uint64_t kBytesMax = 1u << 30;
  std::uint64_t bytes = 0;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Rank rank : scr::RanksHeld(descriptor)) {
    CAIRN_ASSIGN_OR_RETURN(StoredCatalogue stored, ReadRank(disk, folder, run, descriptor, rank));
    bytes += stored.bytes;
    if (bytes > kBytesMax) return ResourceExhausted("{}: catalogues of more than {} bytes", folder, kBytesMax);
    catalogues.push_back(std::move(stored.catalogue));
  }
  return catalogues;
}

}  // namespace cairn
