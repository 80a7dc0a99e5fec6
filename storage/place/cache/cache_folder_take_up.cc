// FindUnfinished, FindRanks, TakeUp and Drop of cache_folder.h: datasets that a daemon which was killed has begun.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/cache_folder_on_disk.h"
#include "storage/place/cache/repair.h"
#include "storage/place/cache/sync_batch.h"

namespace cairn {
namespace {

std::optional<Rank> RankOfCatalogue(std::string_view name) {
  constexpr std::string_view kBefore = "rank_", kAfter = ".cat";
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return std::nullopt;
  const auto rank = NumberAfter(name.substr(0, name.size() - kAfter.size()), kBefore);
  if (!rank || CatalogueName(static_cast<Rank>(*rank)) != name) return std::nullopt;
  return static_cast<Rank>(*rank);
}

bool SameDataset(const scr::Descriptor& a, const scr::Descriptor& b) {
  return a.id == b.id && a.name == b.name && a.launch == b.launch && a.mark == b.mark && a.step == b.step &&
         a.ranks == b.ranks;
}

// It was looked at, and is none that can be taken up. Else it could not be looked at: the disk does not answer or does
// not let this user read, or the machine is short of something. A later look may find more.
bool IsSettled(const absl::Status& status) {
  return IsGoneOrDamaged(status) || absl::IsAlreadyExists(status) || absl::IsFailedPrecondition(status);
}

// Writes a catalogue anew, durably but for its name. A sync of the file that is there would say nothing: the kernel
// tells an error of its writing only once, and may have told it to the daemon that was killed.
absl::Status WriteAnew(Disk& disk, const std::string& path, StoredCatalogue* stored) {
  const std::string encoded = EncodeCatalogue(stored->catalogue);
  stored->bytes = encoded.size();
  stored->crc32 = Crc32(std::as_bytes(std::span(encoded)));
  const std::string work = WorkName(path);
  SyncBatch batch(disk);
  CAIRN_RETURN_IF_ERROR(batch.Write(work, encoded));
  CAIRN_RETURN_IF_ERROR(batch.Run());
  return disk.Rename(work, path);
}

// What lies there of other ranks: they are written anew, and on a disk that was full it would be in the way of that.
absl::Status RemoveRest(Disk& disk, const std::string& folder, const std::vector<std::string>& names,
                        const std::map<Rank, StoredCatalogue>& stored) {
  std::set<std::string> stay = {BaseOf(RecordsFolder(folder))};
  for (const auto& [rank, one] : stored) {
    stay.insert(CatalogueName(rank));
    for (const catalogue::FileEntry& file : one.catalogue.file()) stay.insert(file.name());
  }
  for (const std::string& name : names) {
    if (!stay.contains(name)) CAIRN_RETURN_IF_ERROR(RemoveTree(disk, folder + "/" + name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CacheFolder::Unfinished> CacheFolderOnDisk::FindUnfinished() {
  Unfinished found;
  if (!index_.CheckWritable().ok()) return found;  // which datasets are whole is not known before Load
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(path_));
  for (const std::string& name : names) {
    const auto id = DatasetOfRecords(name);
    if (!id || index_.ContainsOwn(*id)) continue;
    auto descriptor = LookAtUnfinished(*id, &found.refused);
    if (descriptor.ok()) {
      found.datasets.push_back(*std::move(descriptor));
    } else if (!IsSettled(descriptor.status())) {
      found.unread[*id] = descriptor.status();
    }
  }
  const absl::MutexLock lock(&mutex_);
  unread_.clear();
  for (const auto& [id, why] : found.unread) unread_.insert(id);
  return found;
}

absl::StatusOr<scr::Descriptor> CacheFolderOnDisk::LookAtUnfinished(DatasetId id, std::vector<std::string>* refused) {
  const std::string folder = DatasetPath(id);
  CAIRN_RETURN_IF_ERROR(CheckNotScrs(id));
  CAIRN_ASSIGN_OR_RETURN(const bool given_up, IsGivenUp(disk_, folder));
  if (given_up) return NotFound("{}: was given up", folder);
  CAIRN_ASSIGN_OR_RETURN(scr::Descriptor descriptor, FindDescriptor(disk_, folder, id, refused));
  if (descriptor.own_files) return NotFound("{}: the application's files, of which no label is left either", folder);
  // Its encode states are there, its entry is not: a removal of it was cut short. (Or its making, in the same moment.
  // Then it is found by the labels that are still sealed, or goes as it would have without deposits.)
  const absl::Status encoded = CheckEncoded(disk_, folder);
  if (encoded.ok()) return NotFound("{}: has been whole", folder);
  if (!absl::IsDataLoss(encoded)) return encoded;
  return descriptor;
}

absl::StatusOr<std::set<Rank>> CacheFolderOnDisk::FindRanks(DatasetId id) {
  std::set<Rank> ranks;
  const auto names = disk_.List(DatasetPath(id));
  if (absl::IsNotFound(names.status())) return ranks;
  CAIRN_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (const auto rank = RankOfCatalogue(name)) ranks.insert(*rank);
  }
  return ranks;
}

absl::StatusOr<std::map<Rank, StoredCatalogue>> CacheFolderOnDisk::FindStored(const scr::Descriptor& descriptor,
                                                                              const std::vector<std::string>& names) {
  std::map<Rank, StoredCatalogue> stored;
  for (const std::string& name : names) {
    const auto rank = RankOfCatalogue(name);
    if (!rank || *rank >= descriptor.ranks.value_or(0)) continue;
    auto one = ReadRank(disk_, DatasetPath(descriptor.id), record().run, descriptor, *rank);
    if (absl::IsDataLoss(one.status())) continue;  // it was cut short
    CAIRN_RETURN_IF_ERROR(one.status());
    stored[*rank] = *std::move(one);
  }
  return stored;
}

// A rank's files are synced before its catalogue is there, but not the catalogue itself; and not all may be there that
// says the same for SCR: these are written anew.
absl::StatusOr<std::vector<Rank>> CacheFolderOnDisk::TakeUp(const scr::Descriptor& descriptor) {
  const DatasetId id = descriptor.id;
  const std::string folder = DatasetPath(id);
  CAIRN_RETURN_IF_ERROR(index_.CheckWritable());
  CAIRN_RETURN_IF_ERROR(CheckNotScrs(id));
  if (index_.ContainsOwn(id)) return AlreadyExists("{}: dataset {} is whole", path_, id);
  const auto names = disk_.List(folder);
  if (absl::IsNotFound(names.status())) {
    CAIRN_RETURN_IF_ERROR(Begin(descriptor));
    return std::vector<Rank>();
  }
  CAIRN_RETURN_IF_ERROR(names.status());
  CAIRN_ASSIGN_OR_RETURN(const bool given_up, IsGivenUp(disk_, folder));
  const auto there = FindDescriptor(disk_, folder, id);
  if (given_up || (there.ok() && !SameDataset(*there, descriptor))) {
    return FailedPrecondition("{}: it was given up, or is another dataset", folder);
  }
  if (!there.ok() && !absl::IsNotFound(there.status())) return there.status();
  CAIRN_ASSIGN_OR_RETURN(auto stored, FindStored(descriptor, *names));
  CAIRN_RETURN_IF_ERROR(RemoveRest(disk_, folder, *names, stored));
  Open open{.descriptor = descriptor, .committing = {}, .committed = {}};
  std::vector<Rank> ranks;
  for (auto& [rank, one] : stored) {
    CAIRN_RETURN_IF_ERROR(WriteAnew(disk_, folder + "/" + CatalogueName(rank), &one));
    CAIRN_RETURN_IF_ERROR(RewriteRankRecords(disk_, folder, prefix(), descriptor, one, {}));
    open.committed[rank] = RankFilesOf(folder, one, {});
    ranks.push_back(rank);
  }
  if (absl::Status made = disk_.MakeDirectory(RecordsFolder(folder), 0700);
      !made.ok() && !absl::IsAlreadyExists(made)) {
    return made;
  }
  CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(folder));
  const absl::MutexLock lock(&mutex_);
  open_[id] = std::move(open);
  return ranks;
}

absl::Status CacheFolderOnDisk::Drop(DatasetId id) {
  // Where the index is damaged, Load moves aside what cannot be shown to be whole.
  if (!index_.CheckWritable().ok() || index_.ContainsOwn(id)) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(CheckNotScrs(id));
  Forget(id);
  CAIRN_RETURN_IF_ERROR(EraseEncodeStates(disk_, DatasetPath(id)));
  const absl::MutexLock lock(&mutex_);
  unread_.erase(id);
  return absl::OkStatus();
}

}  // namespace cairn
