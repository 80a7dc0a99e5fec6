#include "storage/job/drain/scan.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/names.h"
#include "storage/place/names.h"

namespace cairn::drain {
namespace {

constexpr std::size_t kDepthMax = 128;
constexpr std::string_view kOwnStem = ".cairn-drain-";
constexpr std::string_view kBpIndex = "md.idx", kScrRecords = ".scr", kScrJobStem = "scr.";

std::string Joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

std::vector<std::string_view> PartsOf(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// --- What is there ---

class Walk {
 public:
  Walk(Tree& source, const std::optional<Place>& target, Scan& scan) : source_(source), target_(target), scan_(scan) {}

  absl::Status Folder(const std::string& path, std::size_t depth) {
    auto entries = source_.List(path);
    if (!entries.ok()) {
      if (path.empty()) return entries.status();
      if (absl::IsNotFound(entries.status())) return absl::OkStatus();
      // The file system's own, and closed to users: nothing that waits for all files waits for it.
      std::vector<Told>& told = path == "lost+found" ? scan_.left_out : scan_.failed;
      told.push_back({path, std::string(MessageOf(entries.status()))});
      return absl::OkStatus();
    }
    for (TreeEntry& entry : *entries) CAIRN_RETURN_IF_ERROR(Entry(path, entry, depth));
    return absl::OkStatus();
  }

 private:
  absl::Status Entry(const std::string& folder, TreeEntry& entry, std::size_t depth) {
    const std::string path = Joined(folder, entry.name);
    const bool aside = entry.name.starts_with(kAsidePrefix) && entry.name.size() > kAsidePrefix.size();
    if (aside && (entry.info.is_regular() || entry.info.is_symlink())) {
      scan_.aside.push_back(path);
      return absl::OkStatus();
    }
    if (entry.info.is_directory()) return SubFolder(path, entry, depth);
    if (!entry.info.is_regular() && !entry.info.is_symlink()) {
      scan_.left_out.push_back({path, "a device, a pipe or a socket"});
      return absl::OkStatus();
    }
    const Item::Kind kind = entry.info.is_regular() ? Item::Kind::kFile : Item::Kind::kSymlink;
    scan_.items.push_back({.path = path, .info = entry.info, .kind = kind, .sets = {}, .unfinished = {}});
    return absl::OkStatus();
  }

  absl::Status SubFolder(const std::string& path, const TreeEntry& entry, std::size_t depth) {
    if (IsOwnFolder(path)) {
      scan_.left_out.push_back({path, "the journal of a drain to this folder"});
      return absl::OkStatus();
    }
    if (target_ == PlaceOf(entry.info)) {
      scan_.left_out.push_back({path, "the target of this drain, by another mount"});
      return absl::OkStatus();
    }
    if (depth == kDepthMax) {
      scan_.failed.push_back({path, fmt::format("more than {} folders deep", kDepthMax)});
      return absl::OkStatus();
    }
    if (!device_) {
      CAIRN_ASSIGN_OR_RETURN(const FileInfo root, source_.Info(""));
      device_ = root.device;
    }
    if (entry.info.device != *device_) {
      scan_.left_out.push_back({path, "another file system is mounted there"});
      return absl::OkStatus();
    }
    scan_.folders.push_back({.path = path, .info = entry.info});
    return Folder(path, depth + 1);
  }

  Tree& source_;
  const std::optional<Place> target_;
  Scan& scan_;
  std::optional<std::uint64_t> device_;
};

// Of a file's names the first one is copied.
void FindHardLinks(Scan& scan) {
  std::map<std::uint64_t, std::size_t> first;
  for (std::size_t at = 0; at < scan.items.size(); ++at) {
    Item& item = scan.items[at];
    if (item.kind != Item::Kind::kFile || item.info.links < 2) continue;
    const auto [found, added] = first.emplace(item.info.inode, at);
    if (!added) item.leader = static_cast<std::int64_t>(found->second);
  }
}

// --- What belongs together ---

class Sets {
 public:
  explicit Sets(Scan& scan) : scan_(scan) {}

  void Find() {
    for (const Item& item : scan_.items) FindSetsOf(item);
    for (Item& item : scan_.items) Place(item);
  }

 private:
  std::size_t Add(Set::Kind kind, std::string name, std::string folder) {
    const auto [found, added] = known_.try_emplace({kind, name}, scan_.sets.size());
    if (added) {
      scan_.sets.push_back({.kind = kind, .name = std::move(name), .folder = std::move(folder)});
    } else {
      scan_.sets[found->second].folder = std::move(folder);
    }
    return found->second;
  }

  void FindSetsOf(const Item& item) {
    const std::string folder = FolderOf(item.path);
    const std::string name = BaseOf("/" + item.path);
    if (name == kBpIndex) bp5_[folder] = Add(Set::Kind::kBp5, folder, folder);
    const std::vector<std::string_view> parts = PartsOf(item.path);
    if (parts.size() >= 3 && fti::ParseLevelFolder(parts[parts.size() - 2]) && fti::ParseFileName(name)) {
      const std::string execution(parts[parts.size() - 3]);
      executions_[execution] = Add(Set::Kind::kFti, execution, "");
    }
    std::string way;
    for (std::size_t at = 0; at + 1 < parts.size(); ++at) {
      if (at > 0 && DatasetOfRecords(parts[at]) && IsJob(parts[at - 1])) {
        jobs_[std::string(parts[at - 1])] = Add(Set::Kind::kScrCache, std::string(parts[at - 1]), way);
      }
      const bool in_cache = at > 0 && DatasetOfRecords(parts[at - 1]);
      if (parts[at] == kScrRecords && !in_cache) prefixes_[way] = Add(Set::Kind::kScrPrefix, way, way);
      way = Joined(way, std::string(parts[at]));
    }
  }

  static bool IsJob(std::string_view name) {
    return name.starts_with(kScrJobStem) && name.size() > kScrJobStem.size() && !DatasetOfRecords(name);
  }

  void Place(Item& item) {
    const std::vector<std::string_view> parts = PartsOf(item.path);
    PlaceInFti(item, parts);
    PlaceInCache(item, parts);
    PlaceInPrefix(item, parts);
    PlaceInBp5(item, parts);
  }

  void Belongs(Item& item, std::size_t set, Wave wave) {
    item.sets.push_back(set);
    item.wave = std::max(item.wave, wave);
  }

  // Everything of FTI's that is no checkpoint file tells of them: topology, sectors, configuration.
  void PlaceInFti(Item& item, const std::vector<std::string_view>& parts) {
    if (executions_.empty()) return;
    const std::string_view name = parts.back();
    if (name == "config.fti") {
      for (const auto& [execution, set] : executions_) Belongs(item, set, Wave::kIndex);
      return;
    }
    for (std::size_t at = 0; at + 1 < parts.size(); ++at) {
      const auto execution = executions_.find(std::string(parts[at]));
      if (execution == executions_.end()) continue;
      Belongs(item, execution->second, fti::ParseFileName(name) ? Wave::kData : Wave::kIndex);
      const std::string_view below = parts[at + 1];
      if (at + 2 < parts.size() && (below == "tmp" || below == "stage")) {
        item.unfinished = "FTI has not finished this checkpoint: it gives the folder another name then";
      } else if (const auto level = fti::ParseLevelFolder(below); level && *level != fti::LevelFolder::kDifferential) {
        item.finished = true;  // FTI renames the folder when all files in it are closed
      }
      return;
    }
  }

  void PlaceInCache(Item& item, const std::vector<std::string_view>& parts) {
    for (std::size_t at = 0; at + 1 < parts.size(); ++at) {
      const auto job = jobs_.find(std::string(parts[at]));
      if (job == jobs_.end()) continue;
      const bool record = parts.size() > at + 3 && parts[at + 2] == kScrRecords;
      const bool index = parts.size() == at + 2;
      Belongs(item, job->second, index ? Wave::kIndex : record ? Wave::kRecords : Wave::kData);
      return;
    }
  }

  void PlaceInPrefix(Item& item, const std::vector<std::string_view>& parts) {
    std::string way;
    for (std::size_t at = 0; at < parts.size(); ++at) {
      if (const auto prefix = prefixes_.find(way); prefix != prefixes_.end()) {
        const bool records = parts[at] == kScrRecords;
        const bool index = records && parts.size() == at + 2;
        Belongs(item, prefix->second, index ? Wave::kIndex : records ? Wave::kRecords : Wave::kData);
      }
      way = Joined(way, std::string(parts[at]));
    }
  }

  void PlaceInBp5(Item& item, const std::vector<std::string_view>& parts) {
    std::string way;
    for (std::size_t at = 0; at < parts.size(); ++at) {
      if (const auto bp5 = bp5_.find(way); bp5 != bp5_.end()) {
        const std::string_view name = parts.back();
        const bool direct = parts.size() == at + 1;
        const bool metadata = direct && (name == "md.0" || name == "mmd.0");
        Belongs(item, bp5->second,
                direct && name == kBpIndex ? Wave::kBp5Index
                : metadata                 ? Wave::kRecords
                                           : Wave::kData);
      }
      way = Joined(way, std::string(parts[at]));
    }
  }

  Scan& scan_;
  std::map<std::pair<Set::Kind, std::string>, std::size_t> known_;
  std::map<std::string, std::size_t> bp5_, executions_, jobs_, prefixes_;
};

}  // namespace

std::string NameOf(const Set& set) {
  switch (set.kind) {
    case Set::Kind::kFti:
      return fmt::format("FTI's execution {}", set.name);
    case Set::Kind::kScrCache:
      return fmt::format("SCR's cache {}", set.name);
    case Set::Kind::kScrPrefix:
      return fmt::format("SCR's prefix {}", set.name.empty() ? "." : set.name);
    case Set::Kind::kBp5:
      return fmt::format("the BP5 directory {}", set.name.empty() ? "." : set.name);
  }
  return "";
}

std::string FolderOf(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string OwnFolder() {
  return fmt::format("{}{}", kOwnStem, ::geteuid());
}

bool IsOwnFolder(std::string_view path) {
  return path.size() > kOwnStem.size() && path.starts_with(kOwnStem) &&
         path.find_first_not_of("0123456789", kOwnStem.size()) == path.npos;
}

bool IsMarker(std::string_view name, const std::string& marker) {
  if (marker.empty()) return false;
  if (!marker.starts_with('*')) return name == marker;
  const std::string_view end = std::string_view(marker).substr(1);
  return name.size() > end.size() && name.ends_with(end);
}

absl::StatusOr<Scan> ScanTree(Tree& source, const std::string& marker, const std::optional<Place>& target) {
  Scan scan;
  Walk walk(source, target, scan);
  CAIRN_RETURN_IF_ERROR(walk.Folder("", 0));
  std::ranges::sort(scan.items, {}, &Item::path);
  FindHardLinks(scan);
  Sets(scan).Find();
  for (Item& item : scan.items) {
    if (IsMarker(BaseOf("/" + item.path), marker)) item.wave = Wave::kMarker;
  }
  // A further name goes with the first one, or later.
  for (Item& item : scan.items) {
    if (item.leader < 0) continue;
    item.wave = std::max(item.wave, scan.items[static_cast<std::size_t>(item.leader)].wave);
  }
  return scan;
}

}  // namespace cairn::drain
