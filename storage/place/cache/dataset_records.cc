// What dataset_folder.h makes and writes.
#include <set>
#include <span>
#include <string>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/redundancy_record.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

using scr::RedsetKind;

constexpr RedsetKind kKinds[] = {RedsetKind::kFilemaps, RedsetKind::kData};

// What an encode state becomes that is taken back. SCR does not know the name.
std::string GivenUpPath(const std::string& folder) {
  return RecordsFolder(folder) + "/given_up.cairn";
}

// Also where there were no encode states: nobody is to go on with what failed. Where nothing is, nothing comes back.
//   kResourceExhausted  a full disk has no room for a new file
absl::Status MarkGivenUp(Disk& disk, const std::string& folder) {
  const absl::Status made =
      disk.Open(GivenUpPath(folder), {.writable = true, .create = true, .exclusive = true}).status();
  return absl::IsAlreadyExists(made) || absl::IsNotFound(made) ? absl::OkStatus() : made;
}

// A record of a dataset that needs none any more gives its name for the mark.
absl::Status MakeRecordTheMark(Disk& disk, const std::string& folder) {
  const std::string records = RecordsFolder(folder);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(records));
  if (names.empty()) return absl::OkStatus();
  return disk.Rename(fmt::format("{}/{}", records, names.front()), GivenUpPath(folder));
}

absl::StatusOr<FileInfo> InfoOf(Disk& disk, const std::string& path, std::uint64_t bytes) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return FailedPrecondition("{}: missing", path);
  if (!info.ok()) return info.status();
  if (!info->is_regular()) return FailedPrecondition("{}: not a regular file", path);
  if (info->bytes != bytes) return FailedPrecondition("{}: {} bytes instead of {}", path, info->bytes, bytes);
  return *info;
}

scr::Meta MakeMeta(const std::string& target, std::uint32_t nranks, const FileInfo& info) {
  scr::Meta meta;
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

scr::Meta MetaOf(const std::string& prefix, const catalogue::FileEntry& file, std::uint32_t nranks,
                 const FileInfo& info) {
  scr::Meta meta = MakeMeta(prefix + "/" + file.prefix_name(), nranks, info);
  meta.original = file.original().empty() ? file.prefix_name() : file.original();
  if (file.has_crc32()) meta.crc32 = file.crc32();
  if (file.mode() == 0) return meta;
  // As the application left it: reading it may have changed the time of the last access.
  meta.mode = file.mode();
  meta.atime = {.tv_sec = file.atime_s(), .tv_nsec = static_cast<long>(file.atime_ns())};
  meta.mtime = {.tv_sec = file.mtime_s(), .tv_nsec = static_cast<long>(file.mtime_ns())};
  return meta;
}

std::vector<RankRecords::Tree> Below(const std::string& folder, std::vector<scr::NamedTree> named) {
  for (scr::NamedTree& tree : named) tree.first = RecordsFolder(folder) + "/" + tree.first;
  return named;
}

// Of a set of one both records, of a larger one the descriptor.
std::vector<RankRecords::Tree> MakeRedsetRecords(const std::string& folder, RedsetKind kind, Rank rank,
                                                 std::uint32_t nranks, const RankSets& sets,
                                                 std::vector<scr::RedsetFile> files) {
  const kept::Set* const set = SetOf(sets, rank);
  if (set != nullptr) return {MakeSetDescriptor(folder, kind, *set, rank, nranks)};
  return Below(folder, scr::MakeRankRecords(kind, scr::SingleHeader(rank, nranks, std::move(files))));
}

absl::Status WriteTrees(SyncBatch& batch, const std::vector<RankRecords::Tree>& trees) {
  for (const auto& [path, tree] : trees) {
    if (const absl::Status fits = kvtree::Encodable(tree); !fits.ok()) return Annotate(fits, path);
    CAIRN_RETURN_IF_ERROR(batch.Write(path, kvtree::Encode(tree)));
  }
  return absl::OkStatus();
}

absl::Status WriteRecords(Disk& disk, SyncBatch& batch, const std::string& folder, const std::string& prefix,
                          const scr::Descriptor& descriptor, const StoredCatalogue& stored, const RankSets& sets) {
  CAIRN_ASSIGN_OR_RETURN(const RankRecords records, MakeRankRecords(disk, folder, prefix, descriptor, stored, sets));
  for (const std::string& directory : records.directories) batch.AddDirectory(directory);
  batch.AddDirectory(folder);
  batch.AddDirectory(RecordsFolder(folder));
  CAIRN_RETURN_IF_ERROR(WriteTrees(batch, {records.filemap}));
  CAIRN_RETURN_IF_ERROR(WriteTrees(batch, records.of_data));
  const catalogue::Catalogue& catalogue = stored.catalogue;
  CAIRN_ASSIGN_OR_RETURN(const std::vector<RankRecords::Tree> of_filemap,
                         MakeFilemapRecords(disk, folder, catalogue.rank(), catalogue.nranks(), sets));
  return WriteTrees(batch, of_filemap);
}

}  // namespace

std::string RecordsFolder(const std::string& folder) {
  return folder + "/.scr";
}

std::string FilemapPath(const std::string& folder, Rank rank) {
  return fmt::format("{}/filemap_{}", RecordsFolder(folder), rank);
}

const kept::Set* SetOf(const RankSets& sets, Rank rank) {
  const auto set = sets.find(rank);
  return set == sets.end() ? nullptr : &set->second;
}

RankFiles RankFilesOf(const std::string& folder, const StoredCatalogue& stored, const RankSets& sets) {
  RankFiles files;
  files.rank = stored.catalogue.rank();
  if (const kept::Set* const set = SetOf(sets, files.rank); set != nullptr) {
    for (const scr::SetDescriptor& member : DescriptorsOf(*set, stored.catalogue.nranks())) {
      if (member.world_rank == files.rank) files.set = member;
    }
  }
  for (const catalogue::FileEntry& file : stored.catalogue.file()) {
    files.data.push_back(folder + "/" + file.name());
    files.bytes += file.bytes();
  }
  files.data.push_back(folder + "/" + CatalogueName(stored.catalogue.rank()));
  files.bytes += stored.bytes;
  return files;
}

scr::CacheEntry CompleteEntry(const std::string& folder, const scr::Descriptor& descriptor,
                              const std::vector<RankFiles>& ranks) {
  scr::CacheEntry entry{.descriptor = descriptor, .path = folder, .bypass = false};
  entry.descriptor.complete = true;
  entry.descriptor.files = 0;
  entry.descriptor.bytes = 0;
  for (const RankFiles& files : ranks) {
    entry.descriptor.files += files.data.size();
    entry.descriptor.bytes += files.bytes;
  }
  return entry;
}

absl::StatusOr<RankRecords> MakeRankRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                                            const scr::Descriptor& descriptor, const StoredCatalogue& stored,
                                            const RankSets& sets) {
  const catalogue::Catalogue& catalogue = stored.catalogue;
  const Rank rank = catalogue.rank();
  scr::Filemap filemap;
  std::vector<scr::RedsetFile> listed;
  std::set<std::string> directories;
  const auto enter = [&](const catalogue::FileEntry& file) -> absl::Status {
    const std::string path = folder + "/" + file.name();
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, InfoOf(disk, path, file.bytes()));
    scr::Meta meta = MetaOf(prefix, file, catalogue.nranks(), info);
    meta.rank = rank;
    if (descriptor.checkpoint) meta.dataset = descriptor.checkpoint_id.value_or(descriptor.id);
    listed.emplace_back(path, meta);
    filemap.files.emplace(path, std::move(meta));
    directories.insert(ParentOf(path));
    return absl::OkStatus();
  };
  for (const catalogue::FileEntry& file : catalogue.file()) CAIRN_RETURN_IF_ERROR(enter(file));
  catalogue::FileEntry own;
  own.set_name(CatalogueName(rank));
  own.set_prefix_name(CataloguePrefixName(catalogue.dataset(), rank));
  own.set_bytes(stored.bytes);
  own.set_crc32(stored.crc32);
  own.set_has_crc32(true);
  CAIRN_RETURN_IF_ERROR(enter(own));

  RankRecords records;
  records.filemap = {FilemapPath(folder, rank), scr::ToTree(filemap)};
  scr::PutExpectedFiles(filemap.files.size(), records.filemap.second);
  scr::Descriptor begun = descriptor;
  begun.complete.reset();  // not a filemap's to say
  begun.held.reset();
  scr::PutFilemapDescriptor(begun, records.filemap.second);
  records.of_data = MakeRedsetRecords(folder, RedsetKind::kData, rank, catalogue.nranks(), sets, std::move(listed));
  records.directories.assign(directories.begin(), directories.end());
  return records;
}

absl::StatusOr<std::vector<RankRecords::Tree>> MakeFilemapRecords(Disk& disk, const std::string& folder, Rank rank,
                                                                  std::uint32_t nranks, const RankSets& sets) {
  const std::string path = FilemapPath(folder, rank);
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(path));
  return MakeRedsetRecords(folder, RedsetKind::kFilemaps, rank, nranks, sets, {{path, MakeMeta(path, nranks, info)}});
}

RankRecords::Tree MakeSetDescriptor(const std::string& folder, RedsetKind kind, const kept::Set& set, Rank rank,
                                    std::uint32_t nranks) {
  std::vector<scr::SetMember> members;
  std::uint32_t own = 0;
  for (const scr::SetDescriptor& member : DescriptorsOf(set, nranks)) {
    if (member.world_rank == rank) own = member.rank;
    members.push_back({.descriptor = member, .files = {}});
  }
  // Files and chunks are in the header only.
  return Below(folder, scr::MakeRankRecords(kind, scr::HeaderOf(members, own))).front();
}

absl::StatusOr<RankFiles> WriteRankRecords(Disk& disk, SyncBatch& batch, const std::string& folder,
                                           const std::string& prefix, const scr::Descriptor& descriptor,
                                           const catalogue::Catalogue& catalogue) {
  const std::string encoded = EncodeCatalogue(catalogue);
  const StoredCatalogue stored{
      .catalogue = catalogue, .bytes = encoded.size(), .crc32 = Crc32(std::as_bytes(std::span(encoded)))};
  CAIRN_RETURN_IF_ERROR(batch.Write(folder + "/" + CatalogueName(catalogue.rank()), encoded));
  CAIRN_RETURN_IF_ERROR(WriteRecords(disk, batch, folder, prefix, descriptor, stored, {}));
  return RankFilesOf(folder, stored, {});
}

absl::Status RewriteRankRecords(Disk& disk, const std::string& folder, const std::string& prefix,
                                const scr::Descriptor& descriptor, const StoredCatalogue& stored,
                                const RankSets& sets) {
  SyncBatch batch(disk);
  CAIRN_RETURN_IF_ERROR(WriteRecords(disk, batch, folder, prefix, descriptor, stored, sets));
  return batch.Run();
}

std::vector<RankRecords::Tree> MakeOwnershipLists(const std::string& folder, std::uint32_t nranks,
                                                  const std::vector<RankFiles>& ranks) {
  std::vector<scr::OwnedFiles> data, maps;
  for (const RankFiles& files : ranks) {
    const scr::SetDescriptor set = files.set.value_or(scr::SingleSet(files.rank, nranks));
    data.push_back({.set = set, .files = files.data});
    maps.push_back({.set = set, .files = {FilemapPath(folder, files.rank)}});
  }
  const std::string records = RecordsFolder(folder);
  return Below(folder, {scr::MakeOwnership(RedsetKind::kData, records, data),
                        scr::MakeOwnership(RedsetKind::kFilemaps, records, maps)});
}

std::vector<RankRecords::Tree> MakeEncodeStates(const std::string& folder) {
  std::vector<scr::NamedTree> states;
  for (const RedsetKind kind : kKinds) states.push_back(scr::MakeEncodeState(kind));
  return Below(folder, std::move(states));
}

absl::Status WriteDatasetRecords(Disk& disk, const std::string& folder, std::uint32_t nranks,
                                 const std::vector<RankFiles>& ranks) {
  SyncBatch lists(disk);
  lists.AddDirectory(RecordsFolder(folder));
  lists.AddDirectory(ParentOf(folder));
  CAIRN_RETURN_IF_ERROR(WriteTrees(lists, MakeOwnershipLists(folder, nranks, ranks)));
  CAIRN_RETURN_IF_ERROR(lists.Run());
  SyncBatch states(disk);
  states.AddDirectory(RecordsFolder(folder));
  CAIRN_RETURN_IF_ERROR(WriteTrees(states, MakeEncodeStates(folder)));
  return states.Run();
}

absl::Status EraseEncodeStates(Disk& disk, const std::string& folder, Erased why) {
  bool first = true;
  for (const auto& [path, tree] : MakeEncodeStates(folder)) {
    const absl::Status erased =
        std::exchange(first, false) ? disk.Rename(path, GivenUpPath(folder)) : disk.Remove(path);
    if (!erased.ok() && !absl::IsNotFound(erased)) return erased;
  }
  absl::Status marked = MarkGivenUp(disk, folder);
  if (absl::IsResourceExhausted(marked)) {
    marked = why == Erased::kToRewrite ? absl::OkStatus() : MakeRecordTheMark(disk, folder);
  }
  CAIRN_RETURN_IF_ERROR(marked);
  const absl::Status synced = disk.SyncDirectory(RecordsFolder(folder));
  return absl::IsNotFound(synced) ? absl::OkStatus() : synced;
}

// Filemaps without a catalogue would look like SCR's, catalogues with filemaps and without the mark like a dataset that
// a killed daemon has begun.
absl::Status RemoveGivenUp(Disk& disk, const std::string& folder) {
  const std::string mark = GivenUpPath(folder), records = RecordsFolder(folder);
  for (const std::string& inside : {records, folder}) {
    const auto names = disk.List(inside);
    if (absl::IsNotFound(names.status())) continue;
    CAIRN_RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      const std::string path = fmt::format("{}/{}", inside, name);
      if (path != mark && path != records) CAIRN_RETURN_IF_ERROR(RemoveTree(disk, path));
    }
  }
  return RemoveTree(disk, folder);
}

absl::StatusOr<bool> IsGivenUp(Disk& disk, const std::string& folder) {
  const auto info = disk.Info(GivenUpPath(folder));
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  return info.ok();
}

}  // namespace cairn
