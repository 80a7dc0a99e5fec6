#include "storage/job/protect/member.h"

#include <map>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/dataset_folder.h"

namespace cairn {
namespace {

absl::StatusOr<catalogue::FileEntry> SumsOf(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(path));
  catalogue::FileEntry sums;
  CAIRN_RETURN_IF_ERROR(ChecksumFile(disk, path, info, /*sync=*/false, &sums));
  return sums;
}

// The rank's files by its own records.
class Member {
 public:
  explicit Member(const MemberPlace& place) : place_(place), rank_(place.set.world_rank) {}

  absl::StatusOr<ProtectSource> Data() {
    CAIRN_ASSIGN_OR_RETURN(const StoredCatalogue stored,
                           ReadRank(*place_.disk, place_.folder, place_.run, place_.descriptor, rank_));
    CAIRN_RETURN_IF_ERROR(ReadFilemap());
    ProtectSource source = Empty();
    for (const catalogue::FileEntry& file : stored.catalogue.file()) {
      CAIRN_RETURN_IF_ERROR(Add(file.name(), file, source));
    }
    const std::string name = CatalogueName(rank_);
    CAIRN_ASSIGN_OR_RETURN(const catalogue::FileEntry sums, SumsOf(*place_.disk, place_.folder + "/" + name));
    if (sums.bytes() != stored.bytes || sums.crc32() != stored.crc32) {
      return absl::UnavailableError(fmt::format("{}/{}: it is another one by now", place_.folder, name));
    }
    CAIRN_RETURN_IF_ERROR(Add(name, sums, source));
    return source;
  }

  absl::StatusOr<ProtectSource> OwnFilemap() {
    CAIRN_RETURN_IF_ERROR(ReadFilemap());
    const std::string path = FilemapPath(place_.folder, rank_);
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, place_.disk->Info(path));
    CAIRN_ASSIGN_OR_RETURN(catalogue::FileEntry sums, SumsOf(*place_.disk, path));
    scr::Meta meta;
    meta.bytes = sums.bytes();
    meta.mode = info.mode;
    meta.uid = info.uid;
    meta.gid = info.gid;
    meta.atime = info.atime;
    meta.mtime = info.mtime;
    meta.ctime = info.ctime;
    ProtectSource source = Empty();
    source.member.files.emplace_back(FilemapPath(recorded_, rank_), std::move(meta));
    source.paths.push_back(path);
    source.sums.push_back(std::move(sums));
    return source;
  }

 private:
  ProtectSource Empty() const {
    return {.member = {.descriptor = place_.set, .files = {}}, .disk = place_.disk, .paths = {}, .sums = {}};
  }

  // And where its node has the dataset's folder: its catalogue is there at the top.
  absl::Status ReadFilemap() {
    const std::string path = FilemapPath(place_.folder, rank_);
    const auto tree = ReadTree(*place_.disk, path);
    if (absl::IsNotFound(tree.status())) return DataLoss("{}: missing", path);
    if (!tree.ok()) return tree.status();
    auto filemap = scr::GetFilemap(*tree);
    if (!filemap.ok()) return Annotate(filemap.status(), path);
    files_ = std::move(filemap->files);
    const std::string end = "/" + BaseOf(place_.folder) + "/" + CatalogueName(rank_);
    for (const auto& [file, meta] : files_) {
      if (file.ends_with(end)) recorded_ = ParentOf(file);
    }
    return recorded_.empty() ? DataLoss("{}: no catalogue in it", path) : absl::OkStatus();
  }

  absl::Status Add(const std::string& name, const catalogue::FileEntry& sums, ProtectSource& source) const {
    const std::string recorded = recorded_ + "/" + name;
    const auto file = files_.find(recorded);
    if (file == files_.end() || file->second.bytes != sums.bytes()) {
      return DataLoss("{}: not {} with {} bytes, as the catalogue has it", FilemapPath(place_.folder, rank_), recorded,
                      sums.bytes());
    }
    source.member.files.emplace_back(recorded, file->second);
    source.paths.push_back(place_.folder + "/" + name);
    source.sums.push_back(sums);
    return absl::OkStatus();
  }

  const MemberPlace& place_;
  const Rank rank_;
  std::map<std::string, scr::Meta> files_;
  std::string recorded_;  // the dataset's folder as the member's own node has it
};

}  // namespace

absl::StatusOr<ProtectSource> ReadMember(const MemberPlace& place, scr::RedsetKind kind) {
  Member member(place);
  return kind == scr::RedsetKind::kData ? member.Data() : member.OwnFilemap();
}

}  // namespace cairn
