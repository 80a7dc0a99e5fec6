#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "storage/base/status.h"
#include "storage/file/fti/code.h"
#include "storage/file/fti/coded_group.h"
#include "storage/file/fti/execution.h"
#include "storage/file/fti/infer.h"
#include "storage/file/fti/names.h"
#include "storage/file/fti/opened.h"
#include "storage/file/fti/scan.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kLostTold = 8;  // ranks; groups

absl::StatusOr<RankFile> Verified(Disk& disk, std::uint32_t rank, const std::string& path, std::int32_t id) {
  CAIRN_ASSIGN_OR_RETURN(OpenedFile opened, OpenRankFile(disk, path, id));
  CAIRN_RETURN_IF_ERROR(VerifyRankFile(opened));
  return RankFile{.rank = rank, .path = path, .rebuilt = false, .metadata = std::move(opened.metadata)};
}

class Recovery {
 public:
  Recovery(Disk& disk, const Topology& topology, const Checkpoint& checkpoint, const std::string& scratch)
      : disk_(disk), topology_(topology), checkpoint_(checkpoint), scratch_(scratch) {}

  absl::StatusOr<Recovered> Run() {
    for (std::uint32_t rank = 0; rank < topology_.ranks; ++rank) {
      if (topology_.writes(rank)) TakeOwn(rank);
    }
    if (checkpoint_.level == Level::kPartner) TakeCopies();
    if (checkpoint_.level == Level::kGlobal) TakeReplicas();
    if (checkpoint_.level == Level::kEncoded) CAIRN_RETURN_IF_ERROR(Rebuild());
    if (!lost_.empty()) return Lost();
    Recovered recovered;
    for (auto& [rank, file] : files_) recovered.files.push_back(std::move(file));
    recovered.warnings = warnings_.Take();
    return recovered;
  }

 private:
  void TakeOwn(std::uint32_t rank) {
    const auto path = checkpoint_.files.find(rank);
    if (path == checkpoint_.files.end()) {
      lost_[rank] = "its file is not there";
      return;
    }
    absl::StatusOr<RankFile> file = Verified(disk_, rank, path->second, checkpoint_.id);
    if (file.ok()) {
      files_.emplace(rank, *std::move(file));
      return;
    }
    lost_[rank] = MessageOf(file.status());
    TakeOthersInstead(rank, path->second);
  }

  // Files of the same name as `path`, which is not whole.
  void TakeOthersInstead(std::uint32_t rank, const std::string& path) {
    const auto [first, last] = checkpoint_.others.equal_range(path);
    for (auto other = first; other != last && lost_.contains(rank); ++other) TakeInstead(rank, other->second);
  }

  // The first of the code files of the same name that is whole; `path` if none is.
  std::string WholeCode(const std::string& path) {
    const auto whole = [this](const std::string& tried) {
      const absl::StatusOr<OpenedCode> code = OpenCodeFile(disk_, tried);
      return code.ok() && VerifyCodeFile(*code).ok();
    };
    const auto [first, last] = checkpoint_.others.equal_range(path);
    if (first == last || whole(path)) return path;
    const auto other = std::find_if(first, last, [&](const auto& entry) { return whole(entry.second); });
    return other == last ? path : other->second;
  }

  // No copy says whose it is: with another ring than that of the run it would be taken for another rank's file. Where
  // a copy's owner still has its own file, the two must be the same.
  std::string WhyRingIsWrong() {
    for (const auto& [holder, path] : checkpoint_.copies) {
      if (holder >= topology_.ranks) continue;
      const auto own = files_.find(topology_.LeftOf(holder));
      if (own == files_.end()) continue;
      const absl::StatusOr<OpenedFile> copy = OpenRankFile(disk_, path, checkpoint_.id);
      if (!copy.ok() || copy->metadata.record_hash == own->second.metadata.record_hash) continue;
      return fmt::format("no copies are taken, since {} is not that of rank {}: nodes or groups were others", path,
                         own->first);
    }
    return "";
  }

  // `path`: a file that is byte for byte that of `rank`.
  void TakeInstead(std::uint32_t rank, const std::string& path) {
    absl::StatusOr<RankFile> file = Verified(disk_, rank, path, checkpoint_.id);
    if (!file.ok()) {
      lost_[rank] += fmt::format("; {}", MessageOf(file.status()));
      return;
    }
    warnings_.Add(fmt::format("rank {}: {}; taken from {}", rank, lost_[rank], path));
    files_.emplace(rank, *std::move(file));
    lost_.erase(rank);
  }

  void TakeCopies() {
    if (lost_.empty()) return;
    if (const std::string why = WhyRingIsWrong(); !why.empty()) {
      for (auto& [rank, lost] : lost_) lost += "; " + why;
      return;
    }
    for (const auto& [holder, path] : checkpoint_.copies) {
      if (holder >= topology_.ranks) continue;
      const std::uint32_t rank = topology_.LeftOf(holder);
      TakeCopy(rank, path);
    }
  }

  void TakeCopy(std::uint32_t rank, const std::string& path) {
    if (lost_.contains(rank)) TakeInstead(rank, path);
    TakeOthersInstead(rank, path);
  }

  void TakeReplicas() {
    for (const auto& [rank, path] : checkpoint_.copies) {
      TakeCopy(rank, path);
    }
  }

  absl::Status Rebuild() {
    if (topology_.group_size > kCodedGroupMax) {
      for (auto& [rank, why] : lost_) {
        why += fmt::format("; not rebuilt: groups of {} nodes, at most {} are encoded", topology_.group_size,
                           kCodedGroupMax);
      }
      return absl::OkStatus();
    }
    std::set<std::uint32_t> groups;  // by their first rank
    for (const auto& [rank, why] : lost_) groups.insert(topology_.GroupOf(rank).front());
    for (const std::uint32_t first : groups) CAIRN_RETURN_IF_ERROR(RebuildIn(topology_.GroupOf(first)));
    return absl::OkStatus();
  }

  // What cannot be rebuilt stays lost; an error is one of writing to `scratch`.
  absl::Status RebuildIn(const std::vector<std::uint32_t>& group) {
    GroupRemains remains = {
        .size = static_cast<std::uint32_t>(group.size()), .id = checkpoint_.id, .files = {}, .codes = {}};
    std::map<std::uint32_t, std::string> targets;
    for (std::uint32_t member = 0; member < remains.size; ++member) {
      const std::uint32_t rank = group[member];
      if (const auto file = files_.find(rank); file != files_.end()) {
        remains.files[member] = file->second.path;
      } else {
        targets[member] = scratch_ + "/" + MakeFileName({.kind = FileKind::kRank, .id = checkpoint_.id, .rank = rank});
      }
      if (const auto code = checkpoint_.codes.find(rank); code != checkpoint_.codes.end()) {
        remains.codes[member] = WholeCode(code->second);
      }
    }
    absl::StatusOr<RebuiltGroup> rebuilt =
        RebuildGroup(disk_, remains, targets,
                     [&](std::uint32_t member, const std::string& path) { return TakeRebuilt(group[member], path); });
    if (rebuilt.ok()) {
      for (const auto& [member, why] : rebuilt->wrong) {
        lost_[group[member]] += fmt::format("; rebuilt, but {}", MessageOf(why));
      }
      for (std::string& warning : rebuilt->warnings) warnings_.Add(std::move(warning));
      return absl::OkStatus();
    }
    if (!absl::IsDataLoss(rebuilt.status())) return rebuilt.status();
    not_rebuilt_.push_back(
        fmt::format("not rebuilt: of the group of ranks {} {}", fmt::join(group, ", "), MessageOf(rebuilt.status())));
    return absl::OkStatus();
  }

  absl::Status TakeRebuilt(std::uint32_t rank, const std::string& path) {
    CAIRN_ASSIGN_OR_RETURN(RankFile file, Verified(disk_, rank, path, checkpoint_.id));
    file.rebuilt = true;
    warnings_.Add(fmt::format("rank {}: {}; rebuilt from its group's code files", rank, lost_[rank]));
    files_.emplace(rank, std::move(file));
    lost_.erase(rank);
    return absl::OkStatus();
  }

  absl::Status Lost() const {
    std::vector<std::string> why;
    for (const auto& [rank, reason] : lost_) why.push_back(fmt::format("rank {}: {}", rank, reason));
    std::string text = fmt::format("{} of {} ranks' files are lost", lost_.size(), lost_.size() + files_.size());
    AppendFirst(why, text);
    AppendFirst(not_rebuilt_, text);
    return DataLoss("{}", text);
  }

  static void AppendFirst(const std::vector<std::string>& lines, std::string& text) {
    for (std::size_t i = 0; i < std::min(lines.size(), kLostTold); ++i) text += "\n" + lines[i];
    if (lines.size() > kLostTold) text += fmt::format("\nand {} more", lines.size() - kLostTold);
  }

  Disk& disk_;
  const Topology& topology_;
  const Checkpoint& checkpoint_;
  const std::string& scratch_;
  std::map<std::uint32_t, RankFile> files_;
  std::map<std::uint32_t, std::string> lost_;  // why
  std::vector<std::string> not_rebuilt_;       // groups, and why
  Warnings warnings_;
};

}  // namespace

absl::StatusOr<Recovered> Recover(Disk& disk, const Topology& topology, const Checkpoint& checkpoint,
                                  const std::string& scratch) {
  CAIRN_RETURN_IF_ERROR(CheckTopology(topology));
  return Recovery(disk, topology, checkpoint, scratch).Run();
}

}  // namespace cairn::fti
