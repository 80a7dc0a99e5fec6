#include "storage/place/cache/cache_folder.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/cache_folder_on_disk.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/load.h"
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

absl::Status CheckPart(const DatasetStore::Part& part) {
  const catalogue::Catalogue& catalogue = part.catalogue;
  if (catalogue.files() || (catalogue.file_size() == 1) != !part.work_path.empty()) {
    return InvalidArgument("dataset {}, rank {}: {} files in the catalogue, {} written", catalogue.dataset(),
                           catalogue.rank(), catalogue.file_size(), part.work_path.empty() ? 0 : 1);
  }
  if (catalogue.file_size() == 1 &&
      catalogue.file(0).name() != CheckpointFileName(catalogue.dataset(), catalogue.rank())) {
    return InvalidArgument("dataset {}, rank {}: checkpoint file named {}", catalogue.dataset(), catalogue.rank(),
                           catalogue.file(0).name());
  }
  return absl::OkStatus();
}

}  // namespace

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

absl::StatusOr<scr::Descriptor> CacheFolderOnDisk::BeginCommit(const catalogue::Catalogue& catalogue) {
  CAIRN_RETURN_IF_ERROR(CheckCatalogue(catalogue));
  const DatasetId id = catalogue.dataset();
  const Rank rank = catalogue.rank();
  const absl::MutexLock lock(&mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return FailedPrecondition("{}: dataset {} is not open", path_, id);
  if (catalogue.nranks() != open->second.descriptor.ranks) {
    return InvalidArgument("dataset {}: rank {} says {} ranks, the dataset has {}", id, rank, catalogue.nranks(),
                           *open->second.descriptor.ranks);
  }
  if (open->second.committed.contains(rank) || !open->second.committing.insert(rank).second) {
    return AlreadyExists("dataset {}: rank {} was committed before", id, rank);
  }
  return open->second.descriptor;
}

absl::Status CacheFolderOnDisk::EndCommit(const catalogue::Catalogue& catalogue, absl::StatusOr<RankFiles> files) {
  const DatasetId id = catalogue.dataset();
  const absl::MutexLock lock(&mutex_);
  const auto open = open_.find(id);
  if (open == open_.end()) return FailedPrecondition("{}: dataset {} was removed meanwhile", path_, id);
  open->second.committing.erase(catalogue.rank());
  if (!files.ok()) return files.status();
  open->second.committed[catalogue.rank()] = *std::move(files);
  return absl::OkStatus();
}

// In place, and its records, which are durable once the batch has run.
absl::StatusOr<RankFiles> CacheFolderOnDisk::WritePart(const Part& part, SyncBatch& batch,
                                                       const scr::Descriptor& descriptor) {
  const std::string folder = DatasetPath(descriptor.id);
  if (!part.work_path.empty()) {
    CAIRN_RETURN_IF_ERROR(disk_.Rename(part.work_path, folder + "/" + part.catalogue.file(0).name()));
  }
  return WriteRankRecords(disk_, batch, folder, prefix(), descriptor, part.catalogue);
}

absl::Status CacheFolderOnDisk::CommitRanks(std::span<const Part> parts) {
  for (const Part& part : parts) CAIRN_RETURN_IF_ERROR(CheckPart(part));
  SyncBatch batch(disk_);
  std::vector<absl::StatusOr<RankFiles>> written;
  absl::Status status;
  for (const Part& part : parts) {
    const auto descriptor = BeginCommit(part.catalogue);
    if (status = descriptor.status(); !status.ok()) break;
    written.push_back(WritePart(part, batch, *descriptor));
    if (status = written.back().status(); !status.ok()) break;
  }
  if (status.ok()) status = batch.Run();
  for (std::size_t i = 0; i < written.size(); ++i) {
    const absl::Status ended =
        EndCommit(parts[i].catalogue, status.ok() ? std::move(written[i]) : absl::StatusOr<RankFiles>(status));
    if (status.ok()) status = ended;
  }
  return status;
}

absl::Status CacheFolderOnDisk::CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) {
  const Part part{.catalogue = catalogue, .work_path = work_path};
  return CommitRanks({&part, 1});
}

absl::Status CacheFolderOnDisk::CommitRankFiles(const catalogue::Catalogue& catalogue) {
  if (!catalogue.files()) {
    return InvalidArgument("dataset {}, rank {}: not a catalogue of the application's files", catalogue.dataset(),
                           catalogue.rank());
  }
  CAIRN_ASSIGN_OR_RETURN(const scr::Descriptor descriptor, BeginCommit(catalogue));
  SyncBatch batch(disk_);
  auto written = WritePart({.catalogue = catalogue, .work_path = {}}, batch, descriptor);
  if (const absl::Status synced = written.ok() ? batch.Run() : absl::OkStatus(); !synced.ok()) written = synced;
  return EndCommit(catalogue, std::move(written));
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
  return RemoveGivenUp(disk_, DatasetPath(id));
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

absl::StatusOr<std::unique_ptr<CacheFolder>> CacheFolder::Open(Disk& disk, const std::string& cache,
                                                               std::string_view user, std::string_view run_name,
                                                               const RunIdentity& run, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(RunFolder folder, OpenRunFolder(disk, cache, user, run_name, run, prefix));
  const bool shares_extents = CanShareExtents(disk, folder.path);
  auto opened = std::make_unique<CacheFolderOnDisk>(disk, std::move(folder), shares_extents);
  CAIRN_RETURN_IF_ERROR(opened->ReadIndex());
  return opened;
}

absl::StatusOr<std::vector<catalogue::Catalogue>> ReadCatalogues(Disk& disk, const std::string& folder,
                                                                 const RunIdentity& run,
                                                                 const scr::Descriptor& descriptor,
                                                                 std::uint64_t bytes_max) {
  std::uint64_t bytes = 0;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Rank rank : scr::RanksHeld(descriptor)) {
    CAIRN_ASSIGN_OR_RETURN(StoredCatalogue stored, ReadRank(disk, folder, run, descriptor, rank));
    if (stored.bytes > bytes_max - bytes) {
      return ResourceExhausted("{}: catalogues of more than {} bytes", folder, bytes_max);
    }
    bytes += stored.bytes;
    catalogues.push_back(std::move(stored.catalogue));
  }
  return catalogues;
}

}  // namespace cairn
