// RemoveLeftovers and MoveRankAside of protection.h.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/redset_records.h"
#include "storage/place/cache/protection.h"
#include "storage/place/cache/redundancy_record.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

class Leftovers {
 public:
  Leftovers(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
            const std::vector<RankFiles>& ranks, const std::set<std::string>& kept)
      : disk_(disk), folder_(folder), descriptor_(descriptor), kept_(kept) {
    for (const RankFiles& files : ranks) {
      here_.insert(files.rank);
      named_.insert(files.data.begin(), files.data.end());
      if (files.set) continue;
      const scr::SetDescriptor set = scr::SingleSet(files.rank, descriptor.ranks.value_or(0));
      for (const scr::RedsetKind kind : {scr::RedsetKind::kData, scr::RedsetKind::kFilemaps}) {
        singles_.insert(scr::FileNameOf(scr::HeaderNameOf(kind, set)));
      }
    }
  }

  // A rank's files first, then its catalogue, which names them.
  absl::Status Remove() {
    CAIRN_RETURN_IF_ERROR(RemoveIf(folder_, [this](const std::string& name) { return IsOfNobody(name); }));
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(folder_));
    for (const std::string& name : names) {
      if (const auto rank = RankOf(name, "rank_", ".cat"); rank && !here_.contains(*rank)) {
        CAIRN_RETURN_IF_ERROR(RemoveRank(name));
      }
    }
    return RemoveIf(RecordsFolder(folder_), [this](const std::string& name) { return IsLeftRecord(name); });
  }

 private:
  std::optional<Rank> RankOf(std::string_view name, const std::string& before, std::string_view after) const {
    if (!name.ends_with(after)) return std::nullopt;
    const auto rank = NumberAfter(name.substr(0, name.size() - after.size()), before);
    if (!rank || *rank >= descriptor_.ranks.value_or(0)) return std::nullopt;
    return static_cast<Rank>(*rank);
  }

  // The checkpoint file of a rank that was being brought, whole or begun. (What an application writes may have such a
  // name, too.)
  bool IsOfNobody(const std::string& name) const {
    if (descriptor_.own_files) return false;
    if (IsWorkName(name)) return true;
    const auto rank = RankOf(name, fmt::format("Ckpt{}-Rank", descriptor_.id), ".fti");
    return rank && !here_.contains(*rank) && !named_.contains(folder_ + "/" + name);
  }

  bool IsLeftRecord(const std::string& name) const {
    if (IsWorkName(name)) return true;
    if (const auto rank = RankOf(name, "filemap_", "")) return !here_.contains(*rank);
    if (IsOlderName(name)) return !kept_.contains(name);
    const auto redset = scr::ParseRedsetName(name);
    if (!redset) return false;
    if (redset->what == scr::RedsetName::What::kHeader) return !singles_.contains(name) && !kept_.contains(name);
    return redset->what == scr::RedsetName::What::kDescriptor && !here_.contains(redset->rank);
  }

  absl::Status RemoveRank(const std::string& catalogue_name) {
    const std::string path = folder_ + "/" + catalogue_name;
    const auto text = ReadWhole(disk_, path, kCatalogueBytesMax);
    if (!text.ok()) return text.status();
    // A damaged one does not say which files there were.
    if (const auto catalogue = DecodeCatalogue(path, *text); catalogue.ok()) {
      for (const catalogue::FileEntry& file : catalogue->file()) {
        if (!named_.contains(folder_ + "/" + file.name()))
          CAIRN_RETURN_IF_ERROR(RemoveFile(folder_ + "/" + file.name()));
      }
    }
    return RemoveFile(path);
  }

  absl::Status RemoveFile(const std::string& path) {
    const absl::Status removed = disk_.Remove(path);
    return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
  }

  template <typename Condition>
  absl::Status RemoveIf(const std::string& folder, Condition condition) {
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk_.List(folder));
    bool removed = false;
    for (const std::string& name : names) {
      if (!condition(name)) continue;
      CAIRN_RETURN_IF_ERROR(RemoveFile(folder + "/" + name));
      removed = true;
    }
    return removed ? disk_.SyncDirectory(folder) : absl::OkStatus();
  }

  Disk& disk_;
  const std::string& folder_;
  const scr::Descriptor& descriptor_;
  std::set<Rank> here_;
  std::set<std::string> named_;    // paths of the files of these ranks
  std::set<std::string> singles_;  // names of the redundancy files of those that are SINGLE
  const std::set<std::string>& kept_;
};

// By its catalogue; without a sound one by the name that a checkpoint's file has.
std::vector<std::string> FilesOfRank(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
                                     Rank rank) {
  std::vector<std::string> names;
  const std::string path = folder + "/" + CatalogueName(rank);
  const auto text = ReadWhole(disk, path, kCatalogueBytesMax);
  const auto catalogue = text.ok() ? DecodeCatalogue(path, *text) : text.status();
  if (catalogue.ok()) {
    for (const catalogue::FileEntry& file : catalogue->file()) names.push_back(file.name());
  } else if (!descriptor.own_files) {
    names.push_back(CheckpointFileName(descriptor.id, rank));
  }
  names.push_back(CatalogueName(rank));
  return names;
}

absl::StatusOr<std::string> MakeAsideFolder(Disk& disk, const std::string& stem) {
  constexpr int kNumbersMax = 1000;
  for (int n = 1; n <= kNumbersMax; ++n) {
    std::string aside = fmt::format("{}.{}", stem, n);
    const absl::Status made = disk.MakeDirectory(aside, 0700);
    if (made.ok()) return aside;
    if (!absl::IsAlreadyExists(made)) return made;
  }
  return ResourceExhausted("{}.1 to {} are all taken", stem, kNumbersMax);
}

}  // namespace

absl::Status RemoveLeftovers(Disk& disk, const std::string& folder, const scr::Descriptor& descriptor,
                             const std::vector<RankFiles>& ranks, const std::set<std::string>& kept) {
  return Leftovers(disk, folder, descriptor, ranks, kept).Remove();
}

absl::Status MoveRankAside(Disk& disk, const std::string& folder, const std::string& stem, const scr::Descriptor& rest,
                           Rank rank) {
  CAIRN_ASSIGN_OR_RETURN(const std::string aside, MakeAsideFolder(disk, stem));
  for (const std::string& name : FilesOfRank(disk, folder, rest, rank)) {
    const std::string from = folder + "/" + name, to = aside + "/" + name;
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(to)));
    const absl::Status moved = disk.Rename(from, to);
    if (absl::IsNotFound(moved)) continue;  // that was the damage
    CAIRN_RETURN_IF_ERROR(moved);
    CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(to)));
    CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(from)));
  }
  return disk.SyncDirectory(ParentOf(aside));
}

}  // namespace cairn
