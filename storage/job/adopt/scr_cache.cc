#include "storage/job/adopt/scr_cache.h"

#include "storage/base/path.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/kvtree/tree.h"

namespace cairn {
namespace {

constexpr int kDepthMax = 8;
constexpr std::size_t kNamesMax = 4'000'000;
constexpr std::string_view kJobStem = "scr.", kDatasetStem = "scr.dataset.", kIndexName = "cindex.scrinfo";

// What is below the roots, by job.
struct Found {
  std::map<DatasetId, std::vector<std::string>> folders;
  std::vector<std::string> indexes;
};

// A node's store that cannot be read is a node that is lost: what it held is rebuilt from the others, if they can.
bool IsOutOfReach(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsNotFound(status) || absl::IsUnavailable(status) ||
         absl::IsInternal(status);
}

// scr.<job>, but not the folder of a dataset.
bool IsJobFolder(std::string_view name) {
  return name.starts_with(kJobStem) && name.size() > kJobStem.size() && !NumberAfter(name, kDatasetStem);
}

class Walk {
 public:
  explicit Walk(Disk& disk) : disk_(disk) {}

  absl::Status Below(const std::string& root) {
    std::string job;
    for (std::string path = root; path != "/"; path = ParentOf(path)) {
      if (job.empty() && IsJobFolder(BaseOf(path))) job = BaseOf(path).substr(kJobStem.size());
    }
    if (const auto id = NumberAfter(BaseOf(root), kDatasetStem); id && !job.empty()) {
      return NotFound("{} is the folder of one dataset: name the one above it, {}", root, ParentOf(root));
    }
    return Folder(root, job, 0);
  }

  std::map<std::string, Found> jobs;
  std::vector<std::string> warnings;

 private:
  absl::Status Folder(const std::string& path, const std::string& job, int depth) {
    const auto names = disk_.List(path);
    // What the user named has to be there; below that, folders of others may be closed.
    if (!names.ok() && depth > 0 && IsOutOfReach(names.status())) {
      warnings.push_back(fmt::format("passed over: {}", MessageOf(names.status())));
      return absl::OkStatus();
    }
    if (!names.ok()) return names.status();
    names_ += names->size();
    if (names_ > kNamesMax) return ResourceExhausted("more than {} names below the folders given", kNamesMax);
    for (const std::string& name : *names) CAIRN_RETURN_IF_ERROR(Entry(path, name, job, depth));
    return absl::OkStatus();
  }

  absl::Status Entry(const std::string& folder, const std::string& name, const std::string& job, int depth) {
    const std::string path = folder + "/" + name;
    if (!job.empty() && name == kIndexName) {
      jobs[job].indexes.push_back(path);
      return absl::OkStatus();
    }
    if (depth >= kDepthMax || name == ".scr") return absl::OkStatus();
    const auto info = disk_.Info(path);
    if (absl::IsNotFound(info.status())) return absl::OkStatus();
    if (!info.ok() && IsOutOfReach(info.status())) {
      warnings.push_back(fmt::format("passed over: {}", MessageOf(info.status())));
      return absl::OkStatus();
    }
    if (!info.ok()) return info.status();
    if (!info->is_directory()) return absl::OkStatus();
    if (const auto id = NumberAfter(name, kDatasetStem); id && !job.empty()) {
      if (*id >= 1 && *id <= scr::kIntMax) jobs[job].folders[*id].push_back(path);
      return absl::OkStatus();
    }
    return Folder(path, IsJobFolder(name) ? name.substr(kJobStem.size()) : job, depth + 1);
  }

  Disk& disk_;
  std::size_t names_ = 0;
};

// Cairn keeps its own cache in SCR's manner, and SCR may have gone on there: only SCR's datasets are left in.
void DropCairns(ScrCache& cache) {
  std::erase_if(cache.datasets, [&](const auto& item) {
    const ScrDataset& dataset = item.second;
    const bool cairns = dataset.entry && dataset.entry->descriptor.launch;
    if (cairns) cache.warnings.push_back(fmt::format("dataset {} is Cairn's own, and needs no adopting", dataset.id));
    return cairns;
  });
}

// Of entries that contradict each other the later dataset counts: ids are used again after a restart.
void Enter(const scr::CacheEntry& entry, ScrDataset& dataset, std::vector<std::string>& warnings) {
  if (!entry.path.empty()) dataset.recorded.insert(entry.path);
  if (!dataset.entry) {
    dataset.entry = entry;
    return;
  }
  scr::Descriptor& known = dataset.entry->descriptor;
  if (entry.descriptor.created_us != known.created_us) {
    warnings.push_back(
        fmt::format("dataset {}: the nodes' indexes know two of that number; the later one is meant", dataset.id));
    if (entry.descriptor.created_us > known.created_us) dataset.entry = entry;
    return;
  }
  if (!known.complete) known.complete = entry.descriptor.complete;
}

absl::Status ReadIndexes(Disk& disk, const std::vector<std::string>& indexes, ScrCache& cache) {
  for (const std::string& path : indexes) {
    const auto tree = ReadTree(disk, path);
    if (absl::IsNotFound(tree.status()) || absl::IsDataLoss(tree.status()) || absl::IsPermissionDenied(tree.status())) {
      cache.warnings.push_back(fmt::format("passed over: {}", MessageOf(tree.status())));
      continue;
    }
    if (!tree.ok()) return tree.status();
    const auto entries = scr::GetCacheEntries(*tree);
    if (!entries.ok()) {
      cache.warnings.push_back(fmt::format("passed over: {}: {}", path, MessageOf(entries.status())));
      continue;
    }
    for (const auto& [id, entry] : *entries) {
      cache.datasets[id].id = id;
      Enter(entry, cache.datasets[id], cache.warnings);
    }
  }
  return absl::OkStatus();
}

// A header and where it ends: the payload behind it may be as large as the data.
absl::StatusOr<ScrHeader> ReadHeader(Disk& disk, const std::string& path) {
  ScrHeader read{.path = path, .header = {}};
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  std::array<std::byte, 8> size{};
  constexpr std::uint64_t kSizeOffset = 8, kFixedBytes = 20;  // SCR specification, 1.2
  if (info.bytes < kFixedBytes) return DataLoss("{}: {} bytes, no header", path, info.bytes);
  CAIRN_RETURN_IF_ERROR(file->ReadAt(kSizeOffset, size));
  std::uint64_t declared = 0;
  for (const std::byte byte : size) declared = declared << 8 | std::to_integer<std::uint64_t>(byte);
  std::string bytes(std::min({info.bytes, std::max(declared, kFixedBytes), kvtree::kFileBytesMax}), '\0');
  CAIRN_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, kvtree::Decode(path, bytes, &read.header_bytes));
  auto header = scr::GetRedundancyHeader(tree);
  if (!header.ok()) return Annotate(header.status(), path);
  read.header = *std::move(header);
  read.payload_bytes = info.bytes - read.header_bytes;
  return read;
}

// Damage is a warning, and the record is not there, as is one that is closed to the user; the disk's own errors pass
// through.
template <typename T>
absl::Status KeepIfWhole(absl::StatusOr<T> record, T& target, bool* kept, std::vector<std::string>& warnings) {
  *kept = record.ok();
  if (record.ok()) {
    target = *std::move(record);
    return absl::OkStatus();
  }
  if (!absl::IsDataLoss(record.status()) && !absl::IsNotFound(record.status()) &&
      !absl::IsInvalidArgument(record.status()) && !absl::IsPermissionDenied(record.status())) {
    return record.status();
  }
  warnings.push_back(fmt::format("passed over: {}", MessageOf(record.status())));
  return absl::OkStatus();
}

absl::StatusOr<scr::EncodeState> ReadState(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
  auto state = scr::GetEncodeState(tree);
  return state.ok() ? state : Annotate(state.status(), path);
}

absl::Status ReadRecord(Disk& disk, const std::string& path, const scr::RedsetName& name, ScrPart& part,
                        std::vector<std::string>& warnings) {
  bool kept = false;
  if (name.what == scr::RedsetName::What::kEncodeState) {
    // One that cannot be read says that something was under way.
    part.states[name.kind] = scr::EncodeState::kCorrupt;
    return KeepIfWhole(ReadState(disk, path), part.states[name.kind], &kept, warnings);
  }
  if (name.what != scr::RedsetName::What::kHeader) return absl::OkStatus();
  ScrHeader header;
  CAIRN_RETURN_IF_ERROR(KeepIfWhole(ReadHeader(disk, path), header, &kept, warnings));
  if (!kept) return absl::OkStatus();
  if (header.header.members.at(header.header.rank).descriptor.world_rank != name.rank) {
    warnings.push_back(fmt::format("passed over: {}: its header is of another rank", path));
    return absl::OkStatus();
  }
  part.headers[name.kind].emplace(name.rank, std::move(header));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ScrCache> FindScrCache(Disk& disk, const std::vector<std::string>& roots, const std::string& job) {
  Walk walk(disk);
  for (const std::string& root : roots) CAIRN_RETURN_IF_ERROR(walk.Below(root));
  std::erase_if(walk.jobs, [&](const auto& found) { return found.second.folders.empty(); });
  if (!job.empty()) std::erase_if(walk.jobs, [&](const auto& found) { return found.first != job; });
  if (walk.jobs.empty()) {
    return NotFound("no cache of SCR{} below {}", job.empty() ? "" : "'s job " + job, fmt::join(roots, ", "));
  }
  if (walk.jobs.size() > 1) {
    std::string names;
    for (const auto& [name, found] : walk.jobs) names += (names.empty() ? "" : ", ") + name;
    return FailedPrecondition("there are caches of several jobs: {}; choose one by --job", names);
  }
  auto& [name, found] = *walk.jobs.begin();
  ScrCache cache{.job = name, .datasets = {}, .warnings = std::move(walk.warnings)};
  CAIRN_RETURN_IF_ERROR(ReadIndexes(disk, found.indexes, cache));
  for (auto& [id, folders] : found.folders) {
    // The same folder may lie below two roots.
    std::sort(folders.begin(), folders.end());
    folders.erase(std::unique(folders.begin(), folders.end()), folders.end());
    cache.datasets[id].id = id;
    cache.datasets[id].folders = std::move(folders);
  }
  DropCairns(cache);
  return cache;
}

absl::StatusOr<ScrPart> ReadScrPart(Disk& disk, const std::string& folder, std::vector<std::string>* warnings) {
  ScrPart part{.folder = folder, .filemaps = {}, .headers = {}, .states = {}};
  const auto names = disk.List(folder + "/.scr");
  if (absl::IsNotFound(names.status())) return part;
  if (absl::IsPermissionDenied(names.status())) {
    warnings->push_back(fmt::format("passed over: {}", MessageOf(names.status())));
    return part;
  }
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    const std::string path = folder + "/.scr/" + name;
    if (const auto rank = NumberAfter(name, "filemap_"); rank && *rank <= scr::kIntMax) {
      part.filemaps[static_cast<Rank>(*rank)] = path;
    } else if (const auto redset = scr::ParseRedsetName(name)) {
      CAIRN_RETURN_IF_ERROR(ReadRecord(disk, path, *redset, part, *warnings));
    }
  }
  return part;
}

std::optional<std::string> PlaceInPart(const ScrDataset& dataset, const std::string& folder, const std::string& path) {
  for (const std::string& recorded : dataset.recorded) {
    if (path.starts_with(recorded + "/")) return folder + path.substr(recorded.size());
  }
  const std::string marker = fmt::format("/{}{}/", kDatasetStem, dataset.id);
  const std::size_t at = path.find(marker);
  if (at == std::string::npos) return std::nullopt;
  return folder + path.substr(at + marker.size() - 1);
}

}  // namespace cairn
