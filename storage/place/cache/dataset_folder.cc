#include "storage/place/cache/dataset_folder.h"

#include "storage/base/path.h"

#include <span>

#include "storage/base/checksum.h"
#include "storage/base/number_ranges.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {
namespace {

absl::Status CheckBelongs(const std::string& path, const RunIdentity& run, const scr::Descriptor& descriptor, Rank rank,
                          const catalogue::Catalogue& catalogue) {
  if (run.Includes(catalogue.run()) && catalogue.dataset() == descriptor.id && catalogue.rank() == rank &&
      catalogue.nranks() == descriptor.ranks && catalogue.launch() == descriptor.launch &&
      catalogue.files() == descriptor.own_files) {
    return absl::OkStatus();
  }
  return DataLoss(
      "{}: of run {}, launch {}, dataset {}, rank {} of {}; expected run {}, launch {}, dataset {}, rank {} of {}",
      path, catalogue.run(), catalogue.launch(), catalogue.dataset(), catalogue.rank(), catalogue.nranks(),
      run.run.Hex(), descriptor.launch.value_or(0), descriptor.id, rank, descriptor.ranks.value_or(0));
}

// What the disk says of a dataset's part that is not there: damage. What it says of itself: an error.
absl::Status AsDamage(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
      return DataLoss("{}", MessageOf(status));
    default:
      return status;
  }
}

absl::Status CheckFile(Disk& disk, const std::string& path, std::uint64_t bytes) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return DataLoss("{}: missing", path);
  if (!info.ok()) return AsDamage(info.status());
  if (!info->is_regular()) return DataLoss("{}: not a regular file", path);
  if (info->bytes != bytes) return DataLoss("{}: {} bytes instead of {}", path, info->bytes, bytes);
  return absl::OkStatus();
}

// The names in the folder's .scr that filemaps have. None: no such folder.
absl::StatusOr<std::vector<std::string>> ListFilemaps(Disk& disk, const std::string& folder) {
  const auto names = disk.List(RecordsFolder(folder));
  std::vector<std::string> filemaps;
  if (absl::IsNotFound(names.status())) return filemaps;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (NumberAfter(name, "filemap_")) filemaps.push_back(RecordsFolder(folder) + "/" + name);
  }
  return filemaps;
}

// Of records that the disk does not let anybody read, the first, and how many more there are.
class Refusals {
 public:
  void Add(const absl::Status& status) {
    if (first_.ok()) first_ = status;
    ++count_;
  }
  // OK: there are none.
  absl::Status Said() const {
    if (count_ < 2) return first_;
    return MakeError(first_.code(), "{}, and {} more beside it could not be read", MessageOf(first_), count_ - 1);
  }

 private:
  absl::Status first_;
  std::size_t count_ = 0;
};

}  // namespace

bool IsGoneOrDamaged(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsInvalidArgument(status);
}

absl::StatusOr<StoredCatalogue> ReadRank(Disk& disk, const std::string& folder, const RunIdentity& run,
                                         const scr::Descriptor& descriptor, Rank rank) {
  const std::string path = folder + "/" + CatalogueName(rank);
  const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
  if (!text.ok()) return AsDamage(text.status());
  StoredCatalogue stored{.catalogue = {}, .bytes = text->size(), .crc32 = Crc32(std::as_bytes(std::span(*text)))};
  auto catalogue = DecodeCatalogue(path, *text);
  if (!catalogue.ok()) return AsDamage(catalogue.status());
  stored.catalogue = *std::move(catalogue);
  CAIRN_RETURN_IF_ERROR(CheckBelongs(path, run, descriptor, rank, stored.catalogue));
  for (const catalogue::FileEntry& file : stored.catalogue.file()) {
    CAIRN_RETURN_IF_ERROR(CheckFile(disk, folder + "/" + file.name(), file.bytes()));
  }
  return stored;
}

absl::StatusOr<std::vector<StoredCatalogue>> ReadDataset(Disk& disk, const std::string& folder, const RunIdentity& run,
                                                         const scr::Descriptor& descriptor) {
  const auto info = disk.Info(folder);
  if (!info.ok()) return AsDamage(info.status());
  if (!info->is_directory()) return DataLoss("{}: not a directory", folder);
  std::vector<StoredCatalogue> ranks;
  for (const Rank rank : scr::RanksHeld(descriptor)) {
    CAIRN_ASSIGN_OR_RETURN(StoredCatalogue stored, ReadRank(disk, folder, run, descriptor, rank));
    ranks.push_back(std::move(stored));
  }
  return ranks;
}

absl::StatusOr<scr::Descriptor> FindDescriptor(Disk& disk, const std::string& folder, DatasetId id,
                                               std::vector<std::string>* refused) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> filemaps, ListFilemaps(disk, folder));
  Refusals refusals;
  for (const std::string& path : filemaps) {
    const auto tree = ReadTree(disk, path);
    if (!tree.ok() && !IsGoneOrDamaged(tree.status())) refusals.Add(tree.status());
    if (!tree.ok()) continue;
    auto descriptor = scr::GetFilemapDescriptor(*tree);
    if (!descriptor.ok() || descriptor->id != id || descriptor->name.empty() || !descriptor->launch ||
        descriptor->ranks.value_or(0) == 0) {
      continue;
    }
    descriptor->complete.reset();
    if (refused != nullptr && !refusals.Said().ok()) refused->push_back(std::string(MessageOf(refusals.Said())));
    return descriptor;
  }
  CAIRN_RETURN_IF_ERROR(refusals.Said());
  return NotFound("{}: no filemap says what dataset it is", folder);
}

absl::StatusOr<std::optional<NumberRanges>> FindHeld(Disk& disk, const std::string& folder, std::uint32_t nranks) {
  const std::string path = MakeOwnershipLists(folder, nranks, {}).front().first;
  const auto list = ReadTree(disk, path);
  if (!list.ok() && !IsGoneOrDamaged(list.status())) return list.status();
  const kvtree::Tree* ranks = list.ok() ? list->Find("RANK") : nullptr;
  if (ranks == nullptr) return std::nullopt;
  NumberRanges owned;
  for (const auto& [key, files] : ranks->elements()) {
    const auto rank = ParseNumberRanges(key, nranks);
    if (!rank || rank->size() != 1) return std::nullopt;
    owned.Add(rank->ranges().begin()->first);
  }
  if (owned.empty() || owned.size() == nranks) return std::nullopt;
  return owned;
}

absl::StatusOr<bool> IsScrs(Disk& disk, const std::string& folder) {
  const auto names = disk.List(folder);
  if (absl::IsNotFound(names.status())) return false;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (IsCatalogueName(name)) return false;
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> filemaps, ListFilemaps(disk, folder));
  bool readable = false;
  Refusals refusals;
  for (const std::string& path : filemaps) {
    const auto tree = ReadTree(disk, path);
    if (!tree.ok() && !IsGoneOrDamaged(tree.status())) refusals.Add(tree.status());
    if (!tree.ok()) continue;
    if (tree->FindPath({"DSETDESC", "CAIRN_LAUNCH"}) != nullptr) return false;
    readable = true;
  }
  CAIRN_RETURN_IF_ERROR(refusals.Said());  // one of these may say that it is Cairn's
  return readable;
}

}  // namespace cairn
