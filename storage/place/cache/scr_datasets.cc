#include "storage/place/cache/scr_datasets.h"

#include <algorithm>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/redset_records.h"
#include "storage/place/cache/dataset_folder.h"
#include "storage/place/cache/repair.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

// Where a file that SCR recorded in a folder of that name is now: the cache may be mounted otherwise.
std::string PlaceOf(const std::string& recorded, const std::string& folder) {
  const std::string marker = "/" + BaseOf(folder) + "/";
  const std::size_t at = recorded.find(marker);
  return at == std::string::npos ? recorded : folder + recorded.substr(at + marker.size() - 1);
}

// What a look at the names in <folder>/.scr tells.
struct Records {
  std::vector<std::string> filemaps;
  bool redundant = false;  // another rank may have what is lost
};

absl::StatusOr<Records> LookAtRecords(Disk& disk, const std::string& folder) {
  Records records;
  const auto names = disk.List(RecordsFolder(folder));
  if (absl::IsNotFound(names.status())) return records;
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (NumberAfter(name, "filemap_")) records.filemaps.push_back(RecordsFolder(folder) + "/" + name);
    const auto redset = scr::ParseRedsetName(name);
    const bool header = redset && redset->what == scr::RedsetName::What::kHeader;
    records.redundant |= header && redset->scheme != scr::Scheme::kSingle;
  }
  return records;
}

// Are all files of the ranks there, in their sizes? kNotFound, kDataLoss, kFailedPrecondition: no.
absl::Status CheckFiles(Disk& disk, const std::string& folder, const std::vector<std::string>& filemaps) {
  std::uint32_t ranks = 1;
  for (const std::string& path : filemaps) {
    CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
    CAIRN_ASSIGN_OR_RETURN(const scr::Filemap filemap, scr::GetFilemap(tree));
    for (const auto& [recorded, meta] : filemap.files) {
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(PlaceOf(recorded, folder)));
      CAIRN_RETURN_IF_ERROR(scr::CheckCached(meta, info.bytes));
      ranks = std::max(ranks, meta.ranks);
    }
  }
  return filemaps.size() < ranks ? NotFound("{} of {} filemaps", filemaps.size(), ranks) : absl::OkStatus();
}

bool IsDamage(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsDataLoss(status) || absl::IsFailedPrecondition(status) ||
         absl::IsInvalidArgument(status);
}

// OK: by all that can be seen here.
absl::Status CheckWhole(Disk& disk, const std::string& folder, const scr::CacheEntry* entry) {
  const bool bypass = entry != nullptr && entry->bypass;  // its files are not here, and only its filemaps are encoded
  if (entry != nullptr && !entry->descriptor.complete.value_or(true)) return DataLoss("it was not completed");
  if (!bypass) CAIRN_RETURN_IF_ERROR(CheckEncoded(disk, folder));
  CAIRN_ASSIGN_OR_RETURN(const Records records, LookAtRecords(disk, folder));
  if (records.redundant || bypass) return absl::OkStatus();
  return CheckFiles(disk, folder, records.filemaps);
}

}  // namespace

absl::StatusOr<bool> IsScrsFolder(Disk& disk, const std::string& folder, const scr::CacheEntry* entry) {
  if (entry == nullptr) return IsScrs(disk, folder);
  if (entry->descriptor.launch && !entry->bypass) return false;
  const auto info = disk.Info(folder);
  if (absl::IsNotFound(info.status())) return false;
  return info.ok() ? absl::StatusOr<bool>(true) : info.status();
}

absl::StatusOr<std::vector<ScrCached>> FindScrDatasets(Disk& disk, const std::string& path,
                                                       const std::map<DatasetId, scr::CacheEntry>& entries) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(path));
  std::vector<ScrCached> found;
  for (const std::string& name : names) {
    const auto id = DatasetOfRecords(name);
    if (!id) continue;
    const std::string folder = path + "/" + name;
    const auto at = entries.find(*id);
    const scr::CacheEntry* entry = at == entries.end() ? nullptr : &at->second;
    const auto scrs = IsScrsFolder(disk, folder, entry);
    if (!scrs.ok() || !*scrs) continue;  // what is Cairn's own and cannot be read is told by Load
    ScrCached one;
    if (entry != nullptr) one.descriptor = entry->descriptor;
    one.descriptor.id = *id;
    one.folder = folder;
    one.whole = !IsDamage(CheckWhole(disk, folder, entry));
    found.push_back(std::move(one));
  }
  std::sort(found.begin(), found.end(),
            [](const ScrCached& a, const ScrCached& b) { return a.descriptor.id < b.descriptor.id; });
  return found;
}

}  // namespace cairn
