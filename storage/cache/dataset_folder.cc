#include "storage/cache/dataset_folder.h"

#include <span>
#include <utility>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/cache/catalogue.h"
#include "storage/cache/sync_batch.h"
#include "storage/cache/tree_file.h"

namespace cairn {
namespace {

std::string RecordsFolder(const std::string& folder) {
  return folder + "/.scr";
}

scr::Meta MakeMeta(const std::string& prefix, const std::string& prefix_name, std::uint32_t nranks,
                   const FileInfo& info) {
  const std::string target = prefix + "/" + prefix_name;
  scr::Meta meta;
  meta.original = prefix_name;
  meta.directory = ParentOf(target);
  meta.name = BaseOf(target);
  meta.ranks = nranks;
  meta.complete = true;
  meta.bytes = info.bytes;
  meta.mode = info.mode;
  meta.uid = info.uid;
  meta.gid = info.gid;
  meta.atime = info.atime;
  meta.mtime = info.mtime;
  meta.ctime = info.ctime;
  return meta;
}

absl::StatusOr<FileInfo> InfoOf(Disk& disk, const std::string& path, std::uint64_t bytes) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return FailedPrecondition("{}: missing", path);
  if (!info.ok()) return info.status();
  if (!info->is_regular()) return FailedPrecondition("{}: not a regular file", path);
  if (info->bytes != bytes) return FailedPrecondition("{}: {} bytes instead of {}", path, info->bytes, bytes);
  return *info;
}

absl::Status WriteTrees(SyncBatch& batch, const std::string& records, const std::vector<scr::NamedTree>& trees) {
  for (const auto& [name, tree] : trees) {
    CAIRN_RETURN_IF_ERROR(batch.Write(records + "/" + name, kvtree::Encode(tree)));
  }
  return absl::OkStatus();
}

absl::Status CheckBelongs(const std::string& path, const RunId& run, const scr::Descriptor& descriptor, Rank rank,
                          const catalogue::Catalogue& catalogue) {
  if (catalogue.run() == run.Hex() && catalogue.dataset() == descriptor.id && catalogue.rank() == rank &&
      catalogue.nranks() == descriptor.ranks && catalogue.launch() == descriptor.launch &&
      catalogue.files() == descriptor.own_files) {
    return absl::OkStatus();
  }
  return DataLoss(
      "{}: of run {}, launch {}, dataset {}, rank {} of {}; expected run {}, launch {}, dataset {}, rank {} of {}",
      path, catalogue.run(), catalogue.launch(), catalogue.dataset(), catalogue.rank(), catalogue.nranks(), run.Hex(),
      descriptor.launch.value_or(0), descriptor.id, rank, descriptor.ranks.value_or(0));
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

absl::Status CheckFile(Disk& disk, const std::string& path, std::uint64_t bytes, const std::string& filemap_path,
                       const scr::Filemap& filemap) {
  const auto info = InfoOf(disk, path, bytes);
  if (!info.ok()) return AsDamage(info.status());
  const auto meta = filemap.files.find(path);
  if (meta == filemap.files.end()) return DataLoss("{}: does not list {}", filemap_path, path);
  if (!meta->second.complete) return DataLoss("{}: {} is not COMPLETE", filemap_path, path);
  if (meta->second.bytes != bytes) {
    return DataLoss("{}: {} has SIZE {}, the catalogue says {}", filemap_path, path, meta->second.bytes, bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<catalogue::Catalogue> ReadRank(Disk& disk, const std::string& folder, const RunId& run,
                                              const scr::Descriptor& descriptor, Rank rank) {
  const std::string path = folder + "/" + CatalogueName(rank);
  const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
  if (!text.ok()) return AsDamage(text.status());
  CAIRN_ASSIGN_OR_RETURN(catalogue::Catalogue catalogue, DecodeCatalogue(path, *text));
  CAIRN_RETURN_IF_ERROR(CheckBelongs(path, run, descriptor, rank, catalogue));
  const std::string filemap_path = FilemapPath(folder, rank);
  const auto tree = ReadTree(disk, filemap_path);
  if (!tree.ok()) return AsDamage(tree.status());
  const auto filemap = scr::GetFilemap(*tree);
  if (!filemap.ok()) return DataLoss("{}: {}", filemap_path, MessageOf(filemap.status()));
  CAIRN_RETURN_IF_ERROR(CheckFile(disk, path, text->size(), filemap_path, *filemap));
  for (const catalogue::FileEntry& file : catalogue.file()) {
    CAIRN_RETURN_IF_ERROR(CheckFile(disk, folder + "/" + file.name(), file.bytes(), filemap_path, *filemap));
  }
  return catalogue;
}

}  // namespace

std::string FilemapPath(const std::string& folder, Rank rank) {
  return fmt::format("{}/filemap_{}", RecordsFolder(folder), rank);
}

absl::StatusOr<RankFiles> WriteRankRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                                           const catalogue::Catalogue& catalogue) {
  const Rank rank = catalogue.rank();
  const std::uint32_t nranks = catalogue.nranks();
  const std::string records = RecordsFolder(folder);
  SyncBatch batch(disk);
  batch.AddDirectory(folder);
  batch.AddDirectory(records);
  RankFiles files;
  scr::Filemap filemap;
  std::vector<scr::RedsetFile> listed;
  const auto enter = [&](const std::string& name, const std::string& prefix_name, std::uint64_t bytes,
                         std::optional<std::uint32_t> crc32) -> absl::Status {
    const std::string path = folder + "/" + name;
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, InfoOf(disk, path, bytes));
    scr::Meta meta = MakeMeta(prefix, prefix_name, nranks, info);
    meta.crc32 = crc32;
    files.data.push_back(path);
    files.bytes += bytes;
    listed.emplace_back(path, meta);
    filemap.files.emplace(path, std::move(meta));
    batch.AddDirectory(ParentOf(path));
    return absl::OkStatus();
  };
  for (const catalogue::FileEntry& file : catalogue.file()) {
    const auto crc32 = file.has_crc32() ? std::optional(file.crc32()) : std::nullopt;
    CAIRN_RETURN_IF_ERROR(enter(file.name(), file.prefix_name(), file.bytes(), crc32));
  }
  const std::string encoded = EncodeCatalogue(catalogue);
  const std::string name = CatalogueName(rank);
  CAIRN_RETURN_IF_ERROR(batch.Write(folder + "/" + name, encoded));
  CAIRN_RETURN_IF_ERROR(enter(name, fmt::format("ckpt.{}/{}", catalogue.dataset(), name), encoded.size(),
                              Crc32(std::as_bytes(std::span(encoded)))));

  const std::string filemap_path = FilemapPath(folder, rank);
  CAIRN_RETURN_IF_ERROR(batch.Write(filemap_path, kvtree::Encode(scr::ToTree(filemap))));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(filemap_path));
  const std::vector<scr::RedsetFile> maps = {{filemap_path, MakeMeta(prefix, "", nranks, info)}};
  using scr::RedsetKind;
  CAIRN_RETURN_IF_ERROR(WriteTrees(batch, records, scr::MakeSingleRank(RedsetKind::kData, rank, nranks, listed)));
  CAIRN_RETURN_IF_ERROR(WriteTrees(batch, records, scr::MakeSingleRank(RedsetKind::kFilemaps, rank, nranks, maps)));
  CAIRN_RETURN_IF_ERROR(batch.Run());
  return files;
}

absl::Status WriteDatasetRecords(Disk& disk, const std::string& folder, const std::vector<RankFiles>& ranks) {
  const std::string records = RecordsFolder(folder);
  const auto nranks = static_cast<std::uint32_t>(ranks.size());
  std::vector<scr::OwnedFiles> data, maps;
  for (Rank rank = 0; rank < nranks; ++rank) {
    data.push_back({.rank = rank, .files = ranks[rank].data});
    maps.push_back({.rank = rank, .files = {FilemapPath(folder, rank)}});
  }
  using scr::RedsetKind;
  SyncBatch lists(disk);
  lists.AddDirectory(records);
  lists.AddDirectory(ParentOf(folder));
  CAIRN_RETURN_IF_ERROR(WriteTrees(lists, records,
                                   {scr::MakeOwnership(RedsetKind::kData, records, nranks, data),
                                    scr::MakeOwnership(RedsetKind::kFilemaps, records, nranks, maps)}));
  CAIRN_RETURN_IF_ERROR(lists.Run());
  SyncBatch states(disk);
  states.AddDirectory(records);
  CAIRN_RETURN_IF_ERROR(WriteTrees(
      states, records, {scr::MakeEncodeState(RedsetKind::kFilemaps), scr::MakeEncodeState(RedsetKind::kData)}));
  return states.Run();
}

absl::Status EraseEncodeStates(Disk& disk, const std::string& folder) {
  for (const scr::RedsetKind kind : {scr::RedsetKind::kData, scr::RedsetKind::kFilemaps}) {
    const absl::Status removed = disk.Remove(RecordsFolder(folder) + "/" + scr::MakeEncodeState(kind).first);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  const absl::Status synced = disk.SyncDirectory(RecordsFolder(folder));
  return absl::IsNotFound(synced) ? absl::OkStatus() : synced;
}

absl::StatusOr<std::vector<catalogue::Catalogue>> ReadDataset(Disk& disk, const std::string& folder, const RunId& run,
                                                              const scr::Descriptor& descriptor) {
  const auto info = disk.Info(folder);
  if (!info.ok()) return AsDamage(info.status());
  if (!info->is_directory()) return DataLoss("{}: not a directory", folder);
  std::vector<catalogue::Catalogue> ranks;
  for (Rank rank = 0; rank < descriptor.ranks.value_or(0); ++rank) {
    auto catalogue = ReadRank(disk, folder, run, descriptor, rank);
    if (!catalogue.ok()) return AsDamage(catalogue.status());
    ranks.push_back(*std::move(catalogue));
  }
  return ranks;
}

}  // namespace cairn
