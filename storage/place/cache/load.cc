#include "storage/place/cache/load.h"

#include "storage/base/path.h"
#include "storage/place/names.h"

#include <algorithm>
#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/protection.h"
#include "storage/place/cache/repair.h"

namespace cairn {
namespace {

constexpr std::size_t kRepairsNamed = 8;  // of a dataset

class Loader {
 public:
  Loader(Disk& disk, const std::string& path, const std::string& prefix, const RunIdentity& run,
         const std::set<DatasetId>& unread, CacheIndex& index)
      : disk_(disk), path_(path), prefix_(prefix), run_(run), unread_(unread), index_(index) {}

  absl::StatusOr<CacheLoad> Run() {
    CAIRN_RETURN_IF_ERROR(LookAround());
    CAIRN_RETURN_IF_ERROR(ReadIndex());
    for (const auto& [id, entry] : index_.Entries()) {
      See(id);
      CAIRN_RETURN_IF_ERROR(Judge(id, entry));
    }
    CAIRN_RETURN_IF_ERROR(ForgetEntries());
    RemoveFolders();
    CAIRN_ASSIGN_OR_RETURN(load_.scrs, FindScrDatasets(disk_, path_, index_.Entries()));
    return std::move(load_);
  }

 private:
  void See(DatasetId id) { load_.highest_id = std::max(load_.highest_id, id); }
  void Warn(std::string text) { load_.warnings.push_back(std::move(text)); }
  std::string FolderOf(DatasetId id) const { return path_ + "/" + DatasetFolderName(id); }

  absl::Status LookAround();
  void SeeAside(const Aside& aside);
  absl::Status ReadIndex();
  absl::Status RebuildIndex(const absl::Status& damage, bool missing);
  absl::Status Judge(DatasetId id, const scr::CacheEntry& entry);
  void CorrectPath(const scr::CacheEntry& entry);
  absl::Status PutInOrder(const CachedDataset& dataset, const std::vector<StoredCatalogue>& ranks);
  void TakeIn(DatasetId id, const scr::Descriptor& descriptor, std::vector<StoredCatalogue> ranks);
  absl::Status MoveFolderAside(DatasetId id, std::string_view why);
  absl::Status ForgetEntries();
  void RemoveFolders();
  absl::Status RemoveRest(DatasetId id);
  void RemoveWorkFiles(const std::string& folder);

  Disk& disk_;
  const std::string& path_;
  const std::string& prefix_;
  const RunIdentity& run_;
  const std::set<DatasetId>& unread_;
  CacheIndex& index_;
  CacheLoad load_;
  std::set<DatasetId> folders_;     // there, and nothing was decided about them yet
  std::set<DatasetId> forget_;      // entries
  std::vector<std::string> going_;  // asides whose removal was cut short
};

absl::Status Loader::LookAround() {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(path_));
  for (const std::string& name : names) {
    if (const auto id = DatasetOfRecords(name)) {
      folders_.insert(*id);
      See(*id);
    } else if (const auto aside = AsideOf(name)) {
      SeeAside(*aside);
    }
  }
  RemoveWorkFiles(path_);
  return absl::OkStatus();
}

void Loader::SeeAside(const Aside& aside) {
  See(aside.dataset);
  if (aside.kind == Aside::Kind::kGoing) going_.push_back(aside.name);
  if (aside.kind == Aside::Kind::kDamaged && aside.dataset != 0) {
    Warn(fmt::format("{}/{}: a damaged copy of dataset {} is kept here", path_, aside.name, aside.dataset));
  }
  if (aside.kind != Aside::Kind::kTaken) return;
  Warn(fmt::format("{}/{}: another dataset has the number {} now; this one is kept here until somebody removes it",
                   path_, aside.name, aside.dataset));
}

// The index is there before the first folder is made: folders without it mean that it was lost.
absl::Status Loader::ReadIndex() {
  const auto info = disk_.Info(index_.path());
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  const bool missing = !info.ok() || info->bytes == 0;
  absl::Status status = index_.Read();
  if (status.ok() && missing && !folders_.empty()) {
    index_.MarkLost();
    status = DataLoss("{}: missing", index_.path());
  }
  if (status.ok() && missing) return CacheIndex::MakeIfMissing(disk_, index_.path());
  return absl::IsDataLoss(status) ? RebuildIndex(status, !info.ok()) : status;
}

// From the folders: those that can be shown to be whole are entered, the others go aside. All of that before the new
// index is there, at once: what a crash leaves of this is done again, and a folder without entry is removed only by an
// index that never was lost.
absl::Status Loader::RebuildIndex(const absl::Status& damage, bool missing) {
  std::map<DatasetId, scr::CacheEntry> entries;
  for (const DatasetId id : std::set<DatasetId>(folders_)) {
    CAIRN_ASSIGN_OR_RETURN(const bool scrs, IsScrs(disk_, FolderOf(id)));
    if (scrs) continue;  // RemoveFolders leaves it alone
    auto entry = RecoverEntry(disk_, FolderOf(id), run_, id);
    if (entry.ok()) {
      entries[id] = *std::move(entry);
    } else if (absl::IsDataLoss(entry.status()) || absl::IsUnavailable(entry.status())) {
      // Also what this disk cannot read: it keeps its bytes, and the run can go on.
      folders_.erase(id);
      CAIRN_RETURN_IF_ERROR(MoveFolderAside(id, MessageOf(entry.status())));
    } else {
      return entry.status();  // with an index that is missing something, it would be removed the next time
    }
  }
  Warn(fmt::format("made anew with {} datasets that are whole: {}", entries.size(), MessageOf(damage)));
  if (!missing) {
    CAIRN_ASSIGN_OR_RETURN(const std::string aside, MoveAside(disk_, index_.path(), index_.path() + ".damaged"));
    Warn(fmt::format("{} was moved aside to {}", index_.path(), aside));
  }
  return index_.Rebuild(entries);
}

absl::Status Loader::Judge(DatasetId id, const scr::CacheEntry& entry) {
  const scr::Descriptor& descriptor = entry.descriptor;
  if (!descriptor.launch || entry.bypass) {
    folders_.erase(id);
    Warn(fmt::format("{}: written by SCR, left alone", FolderOf(id)));
    return absl::OkStatus();
  }
  if (!descriptor.complete) {  // the folder, if there, goes with those that have no entry
    forget_.insert(id);
    load_.removed.push_back(id);
    return absl::OkStatus();
  }
  absl::Status damage;
  if (!*descriptor.complete) {
    damage = DataLoss("a file in it was found damaged before");
  } else if (descriptor.ranks.value_or(0) == 0) {
    damage = DataLoss("{}: dataset {} has no CAIRN_RANKS", index_.path(), id);
  } else {
    auto ranks = ReadDataset(disk_, FolderOf(id), run_, descriptor);
    if (ranks.ok()) {
      folders_.erase(id);
      if (entry.path != FolderOf(id)) CorrectPath(entry);
      TakeIn(id, descriptor, *std::move(ranks));
      return absl::OkStatus();
    }
    if (!absl::IsDataLoss(ranks.status())) {
      folders_.erase(id);
      Warn(fmt::format("dataset {} cannot be read now: {}", id, MessageOf(ranks.status())));
      return absl::OkStatus();
    }
    damage = ranks.status();
  }
  forget_.insert(id);
  if (folders_.erase(id) != 0) return MoveFolderAside(id, MessageOf(damage));
  Warn(fmt::format("dataset {} is gone from the cache: {}", id, MessageOf(damage)));
  return absl::OkStatus();
}

// The cache may be spelled or mounted otherwise than it was.
void Loader::CorrectPath(const scr::CacheEntry& entry) {
  scr::CacheEntry here = entry;
  here.path = FolderOf(entry.descriptor.id);
  Warn(fmt::format("{}: dataset {} had PATH {}", index_.path(), entry.descriptor.id, entry.path));
  const absl::Status written = index_.Apply([&here](kvtree::Tree& tree) { scr::PutCacheEntry(here, tree); });
  if (!written.ok()) Warn(std::string(MessageOf(written)));  // SCR would not find it; Cairn does
}

// The records for SCR: first, without a word, what a call that was cut short has left, then what is damaged.
absl::Status Loader::PutInOrder(const CachedDataset& dataset, const std::vector<StoredCatalogue>& ranks) {
  const scr::Descriptor& descriptor = dataset.descriptor;
  const std::string folder = FolderOf(descriptor.id);
  const RankSets sets = SetsOfRanks(dataset.redundancy);
  CAIRN_RETURN_IF_ERROR(SettleRedsets(disk_, folder, prefix_, descriptor, ranks, sets));
  std::vector<std::string> made_anew;
  const absl::Status repaired = RepairRecords(disk_, folder, prefix_, descriptor, ranks, sets, &made_anew);
  for (std::size_t i = 0; i < std::min(made_anew.size(), kRepairsNamed); ++i) Warn(std::move(made_anew[i]));
  if (made_anew.size() > kRepairsNamed) {
    Warn(fmt::format("dataset {}: made {} more records anew", descriptor.id, made_anew.size() - kRepairsNamed));
  }
  CAIRN_RETURN_IF_ERROR(repaired);
  std::vector<RankFiles> files;
  for (const StoredCatalogue& stored : ranks) files.push_back(RankFilesOf(folder, stored, sets));
  return RemoveLeftovers(disk_, folder, descriptor, files, NamesIn(dataset.redundancy));
}

// Whatever becomes of the records for SCR: the dataset is whole by Cairn's own.
void Loader::TakeIn(DatasetId id, const scr::Descriptor& descriptor, std::vector<StoredCatalogue> ranks) {
  RemoveWorkFiles(FolderOf(id));
  CachedDataset& dataset = load_.whole[id];
  dataset.descriptor = descriptor;
  auto redundancy = LoadProtection(disk_, FolderOf(id), run_, descriptor, &load_.warnings);
  absl::Status in_order = redundancy.status();  // without it nobody knows what there has to be
  if (redundancy.ok()) {
    dataset.redundancy = *std::move(redundancy);
    in_order = PutInOrder(dataset, ranks);
  }
  if (!in_order.ok()) Warn(fmt::format("dataset {}: its records cannot be made anew: {}", id, MessageOf(in_order)));
  for (StoredCatalogue& stored : ranks) dataset.ranks.push_back(std::move(stored.catalogue));
}

// Before the entry goes, if it does: an entry without folder is harmless, a folder without entry is removed.
absl::Status Loader::MoveFolderAside(DatasetId id, std::string_view why) {
  CAIRN_ASSIGN_OR_RETURN(const std::string aside,
                         MoveAside(disk_, FolderOf(id), fmt::format("{}/{}{}", path_, kDamagedStem, id)));
  Warn(fmt::format("dataset {} was moved aside to {}: {}", id, aside, why));
  return absl::OkStatus();
}

absl::Status Loader::ForgetEntries() {
  if (forget_.empty()) return absl::OkStatus();
  const CacheIndex::Change forget = [this](kvtree::Tree& tree) {
    for (const DatasetId id : forget_) scr::EraseCacheEntry(id, tree);
  };
  const absl::Status written = index_.Apply(forget);
  if (!absl::IsResourceExhausted(written)) return written;
  // The disk is full. On it they mean nothing without their folders, and the next start judges them again.
  index_.ApplyLater(forget);
  Warn(fmt::format("{} names datasets that are gone, until it can be written: {}", index_.path(), MessageOf(written)));
  return absl::OkStatus();
}

void Loader::RemoveFolders() {
  for (const DatasetId id : folders_) {
    if (unread_.contains(id)) {
      Warn(fmt::format("{}: cannot be read now; left alone", FolderOf(id)));
      continue;
    }
    const auto scrs = IsScrs(disk_, FolderOf(id));
    if (!scrs.ok()) {
      Warn(fmt::format("{}: cannot be read now: {}", FolderOf(id), MessageOf(scrs.status())));
      continue;
    }
    if (*scrs && !forget_.contains(id)) {
      Warn(fmt::format("{}: written by SCR, without an entry in {}; left alone", FolderOf(id), kCacheIndexName));
      continue;
    }
    if (!forget_.contains(id)) load_.removed.push_back(id);
    if (const absl::Status status = RemoveRest(id); !status.ok()) {
      Warn(fmt::format("rest of dataset {}: {}", id, MessageOf(status)));
    }
  }
  std::sort(load_.removed.begin(), load_.removed.end());
  for (const std::string& name : going_) {
    if (const absl::Status status = RemoveTree(disk_, path_ + "/" + name); !status.ok()) {
      Warn(fmt::format("{}/{}: {}", path_, name, MessageOf(status)));
    }
  }
}

// Marked first: else what a crash leaves of it could be made whole by the next start.
absl::Status Loader::RemoveRest(DatasetId id) {
  CAIRN_RETURN_IF_ERROR(Annotate(EraseEncodeStates(disk_, FolderOf(id)), "kept, since it cannot be marked"));
  return RemoveGivenUp(disk_, FolderOf(id));
}

void Loader::RemoveWorkFiles(const std::string& folder) {
  const auto names = disk_.List(folder);
  if (!names.ok()) return;  // whoever needs the folder says so
  for (const std::string& name : *names) {
    if (!IsWorkName(name)) continue;
    if (const absl::Status status = disk_.Remove(folder + "/" + name); !status.ok()) {
      Warn(fmt::format("{}/{}: {}", folder, name, MessageOf(status)));
    }
  }
}

}  // namespace

std::string DatasetFolderName(DatasetId id) {
  return RecordsFolderName(id);
}

absl::StatusOr<CacheLoad> LoadCache(Disk& disk, const std::string& path, const std::string& prefix,
                                    const RunIdentity& run, const std::set<DatasetId>& unread, CacheIndex& index) {
  return Loader(disk, path, prefix, run, unread, index).Run();
}

}  // namespace cairn
