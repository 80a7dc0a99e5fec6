#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/fti/execution.h"
#include "storage/file/fti/infer.h"
#include "storage/file/fti/ini.h"
#include "storage/file/fti/opened.h"
#include "storage/file/fti/scan.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kExecutionsTold = 8;
constexpr std::size_t kReasonsTold = 4;

absl::StatusOr<Ini> ReadIni(Disk& disk, const std::string& path, Warnings& warnings) {
  CAIRN_ASSIGN_OR_RETURN(const std::string text, ReadWhole(disk, path, Ini::kBytesMax));
  CAIRN_ASSIGN_OR_RETURN(Ini ini, Ini::Parse(path, text));
  for (const std::size_t line : ini.passed_over()) {
    warnings.Add(fmt::format("{}: line {} is neither section nor key, passed over", path, line));
  }
  return ini;
}

// A number of the configuration, unless an option says another.
absl::Status Fill(const Ini& config, std::string_view key, std::int64_t min, std::optional<std::uint32_t>& number) {
  if (number.has_value()) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const std::optional<std::int64_t> value, config.FindNumber("basic", key, min, kRanksMax));
  if (value.has_value()) number = static_cast<std::uint32_t>(*value);
  return absl::OkStatus();
}

Level LevelOf(LevelFolder folder) {
  switch (folder) {
    case LevelFolder::kLocal:
      return Level::kLocal;
    case LevelFolder::kPartner:
      return Level::kPartner;
    case LevelFolder::kEncoded:
      return Level::kEncoded;
    case LevelFolder::kGlobal:
    case LevelFolder::kReplica:
      break;
    case LevelFolder::kDifferential:
      return Level::kDifferential;
  }
  return Level::kGlobal;
}

// The hosts of Topology.fti: keys 0, 1, …
std::uint32_t HostsOf(const Ini& topology) {
  std::set<std::string_view> keys;
  for (const Ini::Section& section : topology.sections()) {
    if (section.name != "topology") continue;
    for (const Ini::Entry& entry : section.entries) keys.insert(entry.key);
  }
  std::uint32_t hosts = 0;
  while (keys.contains(std::to_string(hosts))) ++hosts;
  return hosts;
}

class Finder {
 public:
  Finder(Disk& disk, const Search& search) : disk_(disk), search_(search) {}

  absl::StatusOr<Execution> Run() {
    told_ = {.node_size = search_.node_size,
             .group_size = search_.group_size,
             .ranks = search_.ranks,
             .nodes = std::nullopt,
             .heads = search_.heads};
    CAIRN_RETURN_IF_ERROR(ReadConfiguration());
    CAIRN_ASSIGN_OR_RETURN(found_, Scan(disk_, search_.roots, warnings_));
    CAIRN_RETURN_IF_ERROR(ChooseExecution());
    CountNodes();
    CAIRN_RETURN_IF_ERROR(CheckTold(told_));
    DropRanksBeyond();
    for (const FoundFile& file : found_.files) AddFile(file);
    AddDamaged();
    CAIRN_RETURN_IF_ERROR(DropForeign());
    Execution execution = {.id = id_, .topology = {}, .checkpoints = Ordered(), .warnings = {}};
    const Seen seen = WhatIsSeen();
    CAIRN_ASSIGN_OR_RETURN(execution.topology, InferTopology(disk_, told_, seen, execution.checkpoints));
    CAIRN_RETURN_IF_ERROR(CheckRanksAreKnown(execution, seen));
    execution.warnings = warnings_.Take();
    return execution;
  }

 private:
  // What the last ranks left may be lost with their node, or with their place in each node: nodes alone tell no number
  // of ranks. Groups tell that somebody is missing: by their size, or by the copies and code files that go around them.
  absl::Status CheckRanksAreKnown(const Execution& execution, const Seen& seen) {
    const bool node_size_known = told_.node_size || seen.NodeSizeIsClear();
    if (told_.ranks || (told_.nodes && node_size_known)) return absl::OkStatus();
    const std::uint32_t ranks = execution.topology.ranks;
    const bool grouped = std::any_of(execution.checkpoints.begin(), execution.checkpoints.end(), IsGrouped);
    if (!grouped && told_.nodes) {
      return FailedPrecondition(
          "nothing tells how many ranks there were: Topology.fti tells nodes only ({}), and none from rank {} on has "
          "left "
          "a file. Say --node-size, or, if that is all, --ranks {}; else look for FTI's configuration",
          *told_.nodes, seen.ranks, seen.ranks);
    }
    if (!grouped && !(told_.group_size && node_size_known)) {
      return FailedPrecondition(
          "nothing tells how many ranks there were: none from {} on has left a file. If that is all, say --ranks {}; "
          "else look for FTI's configuration or Topology.fti in its metadata directory",
          ranks, ranks);
    }
    if (told_.nodes) return absl::OkStatus();
    warnings_.Add(
        fmt::format("the number of ranks is not told: {}, since none of a greater one has left a file", ranks));
    return absl::OkStatus();
  }

  absl::Status ReadConfiguration() {
    id_ = search_.execution;
    if (search_.config.empty()) return absl::OkStatus();
    CAIRN_ASSIGN_OR_RETURN(const Ini config, ReadIni(disk_, search_.config, warnings_));
    CAIRN_RETURN_IF_ERROR(Fill(config, "node_size", 1, told_.node_size));
    CAIRN_RETURN_IF_ERROR(Fill(config, "group_size", 0, told_.group_size));
    if (told_.group_size == 0u && !search_.group_size) told_.group_size = 1;  // as FTI takes it
    std::optional<std::uint32_t> heads;
    CAIRN_RETURN_IF_ERROR(Fill(config, "head", 0, heads));
    if (heads.has_value() && !told_.heads) told_.heads = *heads > 0;
    if (const Ini::Entry* const id = config.Find("restart", "exec_id"); id != nullptr && id_.empty()) id_ = id->value;
    if (const Ini::Entry* const folder = config.Find("basic", "meta_dir"); folder != nullptr) {
      // Relative paths start where the run did, which often is where the configuration lies.
      metadata_ = folder->value.starts_with('/') ? folder->value : ParentOf(search_.config) + "/" + folder->value;
    }
    return absl::OkStatus();
  }

  absl::Status ChooseExecution() {
    std::set<std::string> ids;
    for (const FoundFile& file : found_.files) ids.insert(file.execution);
    if (ids.empty()) return NotFound("no checkpoint files of FTI below {}", fmt::join(search_.roots, ", "));
    if (id_.empty() && ids.size() == 1) id_ = *ids.begin();
    if (ids.contains(id_)) {
      std::erase_if(found_.files, [this](const FoundFile& file) { return file.execution != id_; });
      return absl::OkStatus();
    }
    std::vector<std::string> some(ids.begin(), ids.end());
    if (some.size() > kExecutionsTold) some.resize(kExecutionsTold);
    if (id_.empty()) {
      return FailedPrecondition("{} executions ({}{}): say --execution", ids.size(), fmt::join(some, ", "),
                                ids.size() > some.size() ? ", …" : "");
    }
    return NotFound("no checkpoint files of the execution {}, but of {}", id_, fmt::join(some, ", "));
  }

  // From Topology.fti, below the roots or where the configuration has it.
  void CountNodes() {
    std::vector<std::string> paths;
    for (const auto& [execution, path] : found_.topologies) {
      if (execution == id_) paths.push_back(path);
    }
    if (paths.empty() && !metadata_.empty()) paths.push_back(metadata_ + "/" + id_ + "/Topology.fti");
    for (const std::string& path : paths) {
      if (!told_.nodes) CountNodesIn(path);
    }
  }

  // Unless the ranks that are told make it another number.
  void CountNodesIn(const std::string& path) {
    const absl::StatusOr<Ini> topology = ReadIni(disk_, path, warnings_);
    if (!topology.ok()) {
      warnings_.Add(fmt::format("passed over: {}", MessageOf(topology.status())));
      return;
    }
    const std::uint32_t nodes = HostsOf(*topology);
    const bool agrees = !told_.ranks || (nodes > 0 && *told_.ranks % nodes == 0 &&
                                         (!told_.node_size || *told_.ranks / nodes == *told_.node_size));
    if (nodes > 0 && agrees) {
      told_.nodes = nodes;
    } else {
      warnings_.Add(fmt::format("{}: {} nodes, passed over", path, nodes));
    }
  }

  void DropRanksBeyond() {
    std::uint64_t ranks = kRanksMax;
    if (told_.ranks) {
      ranks = *told_.ranks;
    } else if (told_.nodes && told_.node_size) {
      ranks = std::uint64_t{*told_.nodes} * *told_.node_size;
    }
    std::erase_if(found_.files, [this, ranks](const FoundFile& file) {
      if (file.name.rank < ranks) return false;
      warnings_.Add(fmt::format("{}: of {} ranks there is none such, passed over", file.path, ranks));
      return true;
    });
  }

  // The id of a differential file is only in the file itself.
  std::optional<std::int32_t> IdOf(const FoundFile& file) {
    if (file.name.kind != FileKind::kDifferential) return file.name.id;
    const absl::StatusOr<OpenedFile> opened = OpenRankFile(disk_, file.path, std::nullopt);
    if (opened.ok() && opened->metadata.header.checkpoint_id >= 0) {
      if (!HoldsId(opened->metadata.letter))
        warnings_.Add(fmt::format("{}: it does not say its id, 0 is taken", file.path));
      return opened->metadata.header.checkpoint_id;
    }
    if (absl::IsDataLoss(opened.status())) damaged_.emplace(file.name.rank, file.path);
    warnings_.Add(
        opened.ok() ? fmt::format("{}: its ckptId is {}, passed over", file.path, opened->metadata.header.checkpoint_id)
                    : fmt::format("passed over: {}", MessageOf(opened.status())));
    return std::nullopt;
  }

  // A damaged differential file is of the checkpoint that the other ranks' are of: it is there, and not whole.
  void AddDamaged() {
    for (auto& [key, checkpoint] : checkpoints_) {
      if (checkpoint.level == Level::kDifferential) checkpoint.files.insert(damaged_.begin(), damaged_.end());
    }
  }

  void AddFile(const FoundFile& file) {
    const std::optional<std::int32_t> id = IdOf(file);
    if (!id) return;
    const Level level = LevelOf(file.folder);
    Checkpoint& checkpoint = checkpoints_[{*id, level}];
    checkpoint.level = level;
    checkpoint.id = *id;
    auto& paths = file.name.kind == FileKind::kCode                                           ? checkpoint.codes
                  : file.name.kind == FileKind::kCopy || file.folder == LevelFolder::kReplica ? checkpoint.copies
                                                                                              : checkpoint.files;
    const auto [place, is_new] = paths.emplace(file.name.rank, file.path);
    if (is_new) return;
    checkpoint.others.emplace(place->second, file.path);
    warnings_.Add(fmt::format("{}: passed over, unless {} is not whole", file.path, place->second));
  }

  bool IsForeign(const Checkpoint& checkpoint) {
    for (const auto* paths : {&checkpoint.files, &checkpoint.copies}) {
      for (const auto& [rank, path] : *paths) {
        if (OpenRankFile(disk_, path, std::nullopt).ok()) return false;
      }
    }
    for (const auto& [rank, path] : checkpoint.codes) {
      if (OpenCodeFile(disk_, path).ok()) return false;
    }
    for (const auto& [first, path] : checkpoint.others) {
      if (OpenRankFile(disk_, path, std::nullopt).ok() || OpenCodeFile(disk_, path).ok()) return false;
    }
    return true;
  }

  // The other I/O modes of FTI name their files alike.
  absl::Status DropForeign() {
    std::string metadata;
    for (const auto& [execution, path] : found_.other_modes) {
      if (execution == id_ && metadata.empty()) metadata = fmt::format(", and {} is of such a one", path);
    }
    std::string first;
    std::erase_if(checkpoints_, [&](const auto& entry) {
      const Checkpoint& checkpoint = entry.second;
      if (!IsForeign(checkpoint)) return false;
      std::string text = fmt::format(
          "checkpoint {} ({}): none of its files is whole FTI-FF (ckpt_io = 3): they are damaged, or of another I/O "
          "mode "
          "(1, POSIX, names them alike{})",
          checkpoint.id, NameOf(checkpoint.level), metadata);
      if (first.empty()) first = text;
      warnings_.Add(std::move(text));
      return true;
    });
    if (!checkpoints_.empty()) return absl::OkStatus();
    if (!first.empty()) return NotFound("execution {}: {}", id_, first);
    std::vector<std::string> why = warnings_.Take();
    const std::size_t count = why.size();
    why.resize(std::min(count, kReasonsTold));
    return NotFound("execution {}: no checkpoint files that can be used: {}{}", id_, fmt::join(why, "; "),
                    count > why.size() ? "; …" : "");
  }

  // Of equal ids: a success removes all of its own level and below (section 8), so what is left of a lower level is
  // not older than a higher one's. Differential ones, which remove nothing, come before either.
  std::vector<Checkpoint> Ordered() {
    std::vector<Checkpoint> ordered;
    for (auto& [key, checkpoint] : checkpoints_) ordered.push_back(std::move(checkpoint));
    std::sort(ordered.begin(), ordered.end(), [](const Checkpoint& a, const Checkpoint& b) {
      const auto key = [](const Checkpoint& of) { return std::pair(-of.id, of.level != Level::kDifferential); };
      return std::tuple(key(a), a.level) < std::tuple(key(b), b.level);
    });
    return ordered;
  }

  Seen WhatIsSeen() {
    Seen seen;
    for (const FoundFile& file : found_.files) {
      const std::uint32_t rank = file.name.rank;
      seen.ranks = std::max(seen.ranks, rank + 1);
      seen.has_files.resize(seen.ranks);
      seen.has_files[rank] = true;
      if (!file.node) continue;
      seen.nodes = std::max(seen.nodes, *file.node + 1);
      seen.places.emplace_back(*file.node, rank);
    }
    if (!PlacesFit(seen)) {
      warnings_.Add(
          "folders node<k> are taken for hosts of that name: as FTI's nodes they do not fit the ranks in them");
      seen.nodes = 0;
      seen.places.clear();
    }
    return seen;
  }

  // Folders gathered from hosts may be named like FTI's nodes, but number them otherwise.
  bool PlacesFit(const Seen& seen) const {
    std::optional<std::uint64_t> nodes = told_.nodes, node_size = told_.node_size;
    if (told_.ranks && nodes && !node_size) node_size = *told_.ranks / *nodes;
    if (told_.ranks && node_size && !nodes) nodes = *told_.ranks / *node_size;
    const auto [least, most] = seen.NodeSizes();
    if (least > most || (nodes && seen.nodes > *nodes)) return false;
    return !node_size || (least <= *node_size && *node_size <= most);
  }

  Disk& disk_;
  const Search& search_;
  Warnings warnings_;
  Told told_;
  Found found_;
  std::string id_;
  std::string metadata_;  // folder, as the configuration has it; empty: it does not say
  std::map<std::pair<std::int32_t, Level>, Checkpoint> checkpoints_;
  std::map<std::uint32_t, std::string> damaged_;  // differential files by rank, whose id nobody can read
};

}  // namespace

absl::StatusOr<Execution> Find(Disk& disk, const Search& search) {
  return Finder(disk, search).Run();
}

}  // namespace cairn::fti
