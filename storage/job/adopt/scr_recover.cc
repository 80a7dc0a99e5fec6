#include "storage/job/adopt/scr_recover.h"

#include <algorithm>
#include <utility>

#include "proto/frame.h"
#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"

namespace cairn {
namespace {

using scr::EncodeState;
using scr::RedsetKind;

std::string ListOf(const std::map<Rank, std::string>& ranks) {
  constexpr std::size_t kMost = 8;
  std::string text;
  std::size_t count = 0;
  for (const auto& [rank, why] : ranks) {
    if (++count > kMost) return text + fmt::format("; and {} more", ranks.size() - kMost);
    text += fmt::format("{}rank {}: {}", text.empty() ? "" : "; ", rank, why);
  }
  return text;
}

absl::StatusOr<std::uint32_t> Crc32Of(Disk& disk, const std::string& path, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
  std::vector<std::byte> block(std::min(bytes, kCrcBlockBytes));
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < bytes; at += block.size()) {
    const std::span<std::byte> piece(block.data(), std::min<std::uint64_t>(block.size(), bytes - at));
    CAIRN_RETURN_IF_ERROR(file->ReadAt(at, piece));
    crc = Crc32(piece, crc);
  }
  return crc;
}

absl::StatusOr<scr::Filemap> ReadFilemap(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, ReadTree(disk, path));
  auto filemap = scr::GetFilemap(tree);
  return filemap.ok() ? std::move(filemap) : Annotate(filemap.status(), path);
}

// As far as the file itself tells, once it is found whole.
ScrFile FileOf(const std::string& path, const scr::Meta& meta) {
  ScrFile file{.path = path, .meta = meta};
  if (meta.crc32) file.verified_by = catalogue::CHECKSUM;
  if (meta.bytes == 0) file.verified_by = catalogue::NOT_NOTED;
  return file;
}

bool IsVerified(const ScrRankFiles& files) {
  return std::all_of(files.begin(), files.end(),
                     [](const auto& file) { return file.second.verified_by != catalogue::NOTHING; });
}

// "rank 1", "ranks 0, 2, …"
std::string RanksText(const std::vector<Rank>& ranks) {
  constexpr std::size_t kMost = 8;
  const auto shown = ranks.begin() + static_cast<std::ptrdiff_t>(std::min(ranks.size(), kMost));
  return fmt::format("rank{} {}{}", ranks.size() == 1 ? "" : "s", fmt::join(ranks.begin(), shown, ", "),
                     ranks.size() > kMost ? ", …" : "");
}

bool SaysLost(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsPermissionDenied(status);
}

// The number of ranks of the job, as the records of the parts have it.
std::uint32_t RanksOf(const std::vector<ScrPart>& parts) {
  for (const ScrPart& part : parts) {
    for (const auto& [kind, headers] : part.headers) {
      if (headers.empty()) continue;
      const scr::RedundancyHeader& header = headers.begin()->second.header;
      return header.members.at(header.rank).descriptor.world_ranks;
    }
  }
  return 0;
}

}  // namespace

ScrRecovery::ScrRecovery(Disk& disk, const ScrDataset& dataset, std::string scratch)
    : disk_(disk), dataset_(dataset), scratch_(std::move(scratch)) {}

absl::StatusOr<std::unique_ptr<ScrRecovery>> ScrRecovery::Open(Disk& disk, const ScrDataset& dataset,
                                                               std::string scratch) {
  std::unique_ptr<ScrRecovery> recovery(new ScrRecovery(disk, dataset, std::move(scratch)));
  absl::Status done = recovery->ReadParts();
  if (done.ok()) done = recovery->FindFilemaps();
  if (done.ok()) done = recovery->RebuildFilemaps();
  if (done.ok()) return recovery;
  if (!absl::IsDataLoss(done) || recovery->warnings_.empty()) return done;
  // What was passed over is why it is not there.
  constexpr std::size_t kMost = 4;
  std::vector<std::string> why = recovery->TakeWarnings();
  if (why.size() > kMost) why.resize(kMost);
  return DataLoss("{} ({})", MessageOf(done), fmt::join(why, "; "));
}

std::vector<std::string> ScrRecovery::TakeWarnings() {
  return std::exchange(warnings_, {});
}

// --- Records ---

// A node on which SCR was still encoding, or rebuilding, counts as lost; one without a state goes with the others.
absl::Status ScrRecovery::ReadParts() {
  if (!dataset_.entry) return DataLoss("no cache index knows it");
  if (dataset_.entry->descriptor.complete == false) return DataLoss("it was not complete when the job ended");
  std::vector<RedsetKind> kinds = {RedsetKind::kFilemaps};
  if (!dataset_.entry->bypass) kinds.push_back(RedsetKind::kData);
  std::map<RedsetKind, bool> encoded;
  for (const std::string& folder : dataset_.folders) {
    CAIRN_ASSIGN_OR_RETURN(ScrPart part, ReadScrPart(disk_, folder, &warnings_));
    bool believed = true;
    for (const RedsetKind kind : kinds) {
      const auto state = part.states.find(kind);
      if (state == part.states.end()) continue;
      believed &= state->second != EncodeState::kCorrupt;
      encoded[kind] |= state->second == EncodeState::kEncoded;
    }
    if (believed) {
      parts_.push_back(std::move(part));
    } else {
      Warn(fmt::format("passed over: {}: SCR was encoding or rebuilding it when it ended", folder));
    }
  }
  for (const RedsetKind kind : kinds) {
    if (!encoded[kind]) {
      return DataLoss("SCR has not finished encoding its {}", kind == RedsetKind::kData ? "files" : "filemaps");
    }
  }
  return absl::OkStatus();
}

absl::Status ScrRecovery::FindFilemaps() {
  const std::uint32_t told = ranks_ = RanksOf(parts_);
  std::map<Rank, scr::Filemap> found;
  for (const ScrPart& part : parts_) {
    for (const auto& [rank, path] : part.filemaps) {
      if (told != 0 && rank >= told) {
        Warn(fmt::format("passed over: {}: the job had {} ranks", path, told));
        continue;
      }
      homes_[rank].push_back(part.folder);
      if (found.contains(rank)) continue;
      auto filemap = ReadFilemap(disk_, path);
      if (!filemap.ok() && !SaysLost(filemap.status())) return filemap.status();
      if (!filemap.ok()) {
        lost_filemaps_[rank] = std::string(MessageOf(filemap.status()));
        continue;
      }
      lost_filemaps_.erase(rank);
      if (ranks_ == 0 && !filemap->files.empty()) ranks_ = filemap->files.begin()->second.ranks;
      filemap_paths_[rank] = path;
      found[rank] = *std::move(filemap);
    }
    for (const auto& [kind, headers] : part.headers) {
      for (const auto& [rank, header] : headers) {
        std::vector<std::string>& homes = homes_[rank];
        if (std::find(homes.begin(), homes.end(), part.folder) == homes.end()) homes.push_back(part.folder);
      }
    }
  }
  if (ranks_ == 0 || ranks_ > CAIRN_RANKS_MAX) return DataLoss("no record tells how many ranks the job had");
  if (!found.empty() && found.rbegin()->first >= ranks_) {
    return DataLoss("there is a filemap of rank {}, but the job had {}", found.rbegin()->first, ranks_);
  }
  lost_filemaps_.erase(lost_filemaps_.lower_bound(ranks_), lost_filemaps_.end());
  filemaps_.resize(ranks_);
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (const auto filemap = found.find(rank); filemap != found.end()) {
      filemaps_[rank] = std::move(filemap->second);
    } else {
      lost_filemaps_.try_emplace(rank, "no filemap");
    }
  }
  return absl::OkStatus();
}

absl::Status ScrRecovery::RebuildFilemaps() {
  if (lost_filemaps_.empty()) return absl::OkStatus();
  std::vector<const ScrPart*> parts;
  for (const ScrPart& part : parts_) parts.push_back(&part);
  for (const auto& [group, set] : MakeSets(parts, RedsetKind::kFilemaps, ranks_, &warnings_)) {
    std::map<std::uint32_t, std::vector<std::string>> targets;
    bool known = true;
    for (const ScrSetMember& member : set.members) known &= member.rank && member.files && member.files->size() == 1;
    if (!known) continue;
    ScrSetWork work(disk_, set);
    for (std::uint32_t member = 0; member < set.members.size(); ++member) {
      const Rank rank = *set.members[member].rank;
      if (!lost_filemaps_.contains(rank)) {
        const auto info = disk_.Info(filemap_paths_.at(rank));
        if (info.ok() && info->bytes == set.members[member].files->front().second.bytes) {
          work.SetThere(member, {filemap_paths_.at(rank)});
        }
      } else {
        targets[member] = {fmt::format("{}/filemap_{}", scratch_, rank)};
      }
    }
    if (targets.empty()) continue;
    absl::Status done = work.Check();
    if (done.ok()) done = work.Rebuild(targets).status();
    if (!done.ok() && !SaysLost(done)) return done;
    for (const auto& [member, paths] : targets) {
      const Rank rank = *set.members[member].rank;
      auto filemap = done.ok() ? ReadFilemap(disk_, paths.front()) : absl::StatusOr<scr::Filemap>(done);
      if (!filemap.ok() && !SaysLost(filemap.status())) return filemap.status();
      if (!filemap.ok()) {
        lost_filemaps_[rank] += fmt::format("; its {}: {}", set.Name(), MessageOf(filemap.status()));
        continue;
      }
      Warn(fmt::format("rank {}: {}; it was rebuilt from the {}", rank, lost_filemaps_[rank], set.Name()));
      filemaps_[rank] = *std::move(filemap);
      filemap_paths_[rank] = paths.front();
      lost_filemaps_.erase(rank);
    }
  }
  if (lost_filemaps_.empty()) return absl::OkStatus();
  return DataLoss("filemaps of {} of {} ranks are lost: {}", lost_filemaps_.size(), ranks_, ListOf(lost_filemaps_));
}

// --- Files ---

absl::StatusOr<bool> ScrRecovery::IsWhole(const std::string& path, const scr::Meta& meta) {
  const auto info = disk_.Info(path);
  if (!info.ok() && !SaysLost(info.status())) return info.status();
  if (!info.ok() || !info->is_regular() || info->bytes != meta.bytes) return false;
  if (!meta.crc32) return !absl::IsPermissionDenied(disk_.Open(path, {}).status());
  const auto sum = Crc32Of(disk_, path, meta.bytes);
  if (absl::IsPermissionDenied(sum.status())) return false;
  CAIRN_ASSIGN_OR_RETURN(const std::uint32_t crc, sum);
  if (crc != *meta.crc32) Warn(fmt::format("{}: its CRC is {:#x}, recorded is {:#x}", path, crc, *meta.crc32));
  return crc == *meta.crc32;
}

// All of the rank's files, those in the dataset's folder from `folder`; false: not all are there, and why is in lost_.
absl::StatusOr<bool> ScrRecovery::TakeFiles(Rank rank, const std::optional<std::string>& folder,
                                            const Elsewhere& elsewhere) {
  ScrRankFiles files;
  for (const auto& [recorded, meta] : filemaps_[rank].files) {
    std::vector<std::string> places;
    const bool in_cache = PlaceInPart(dataset_, "", recorded).has_value();
    if (in_cache && folder) places.push_back(*PlaceInPart(dataset_, *folder, recorded));
    if (!in_cache) places = elsewhere(rank, recorded);
    std::string found;
    for (const std::string& place : places) {
      CAIRN_ASSIGN_OR_RETURN(const bool whole, IsWhole(place, meta));
      if (whole && found.empty()) found = place;
    }
    if (found.empty()) {
      lost_[rank] = fmt::format("{} is not there as it was, with {} bytes", places.empty() ? recorded : places.front(),
                                meta.bytes);
      return false;
    }
    files[recorded] = FileOf(found, meta);
  }
  lost_.erase(rank);
  files_[rank] = std::move(files);
  return true;
}

absl::Status ScrRecovery::FindFiles(Rank rank, const Elsewhere& elsewhere) {
  for (const auto& [recorded, meta] : filemaps_[rank].files) {
    if (!meta.complete) return DataLoss("rank {}: {} was not complete when the job ended", rank, recorded);
    if (meta.ranks != 0 && meta.ranks != ranks_) {
      return DataLoss("rank {}: {} is of a job of {} ranks, the dataset has {}", rank, recorded, meta.ranks, ranks_);
    }
  }
  for (const std::string& folder : homes_[rank]) {
    CAIRN_ASSIGN_OR_RETURN(const bool taken, TakeFiles(rank, folder, elsewhere));
    if (taken) return absl::OkStatus();
  }
  if (homes_[rank].empty()) return TakeFiles(rank, std::nullopt, elsewhere).status();
  return absl::OkStatus();
}

// Do the headers tell all that is needed, and the same as the filemaps?
absl::StatusOr<bool> ScrRecovery::IsUsable(const ScrSet& set) {
  for (const ScrSetMember& member : set.members) {
    if (!member.rank || !member.files || *member.rank >= ranks_) return false;
    const std::map<std::string, scr::Meta>& files = filemaps_[*member.rank].files;
    const bool same = files.size() == member.files->size() &&
                      std::all_of(member.files->begin(), member.files->end(), [&](const scr::RedsetFile& file) {
                        const auto found = files.find(file.first);
                        return found != files.end() && found->second.bytes == file.second.bytes;
                      });
    if (!same) {
      Warn(fmt::format("{}: its header and the filemap of rank {} list other files", set.Name(), *member.rank));
      return false;
    }
  }
  const absl::Status fits = ScrSetWork(disk_, set).Check();
  if (!fits.ok()) Warn(fmt::format("{}: {}", set.Name(), MessageOf(fits)));
  return fits.ok();
}

absl::Status ScrRecovery::RebuildMembers(const ScrSet& set, ScrSetWork& work) {
  std::map<std::uint32_t, std::vector<std::string>> targets;
  for (std::uint32_t member = 0; member < set.members.size(); ++member) {
    const Rank rank = *set.members[member].rank;
    if (!lost_.contains(rank)) continue;
    const std::string folder = fmt::format("{}/{}", scratch_, rank);
    CAIRN_RETURN_IF_ERROR(disk_.MakeDirectory(folder, 0700));
    std::vector<std::string>& paths = targets[member];
    for (std::size_t i = 0; i < set.members[member].files->size(); ++i) {
      paths.push_back(fmt::format("{}/{}", folder, i));
    }
  }
  CAIRN_ASSIGN_OR_RETURN(const auto difference, work.Rebuild(targets));
  if (difference) {
    return DataLoss("data or parity are damaged: payload of rank {} at {}", *set.members[difference->member].rank,
                    difference->offset);
  }
  for (const auto& [member, paths] : targets) {
    const Rank rank = *set.members[member].rank;
    ScrRankFiles files;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const std::string& recorded = (*set.members[member].files)[i].first;
      const scr::Meta& meta = filemaps_[rank].files.at(recorded);
      CAIRN_ASSIGN_OR_RETURN(const bool whole, IsWhole(paths[i], meta));
      if (!whole) return DataLoss("what was rebuilt as {} of rank {} is damaged", recorded, rank);
      files[recorded] = FileOf(paths[i], meta);
    }
    // By checksums of their own they are right: so is what they were made of.
    if (IsVerified(files)) work.SetThere(member, paths);
    Warn(
        fmt::format("rank {}: {}; its {} files were rebuilt from the {}", rank, lost_[rank], files.size(), set.Name()));
    rebuilt_ += static_cast<std::uint32_t>(files.size());
    files_[rank] = std::move(files);
    lost_.erase(rank);
  }
  return absl::OkStatus();
}

// Verifies the set and makes good what is lost in it; an error is only that of the disk, or of damage that cannot be
// made good: what remains lost is in lost_.
absl::Status ScrRecovery::CheckSet(const ScrSet& set) {
  CAIRN_ASSIGN_OR_RETURN(const bool usable, IsUsable(set));
  if (!usable) {
    why_unverified_.push_back(fmt::format("the {} cannot be used", set.Name()));
    return absl::OkStatus();
  }
  ScrSetWork work(disk_, set);
  bool lost = false, crc_known = true;
  for (std::uint32_t member = 0; member < set.members.size(); ++member) {
    const Rank rank = *set.members[member].rank;
    lost |= lost_.contains(rank);
    if (lost_.contains(rank)) continue;
    std::vector<std::string> paths;
    for (const auto& [recorded, stat] : *set.members[member].files) {
      paths.push_back(files_[rank].at(recorded).path);
      crc_known &= files_[rank].at(recorded).meta.crc32.has_value();
    }
    work.SetThere(member, paths);
  }
  CAIRN_ASSIGN_OR_RETURN(const auto difference, work.Verify());
  if (difference) {
    const std::string what = fmt::format("{}: payload of rank {} at {} does not agree with the data", set.Name(),
                                         *set.members[difference->member].rank, difference->offset);
    if (crc_known && !lost) {
      Warn(what + "; the data are whole by their CRCs");
      return absl::OkStatus();
    }
    CAIRN_ASSIGN_OR_RETURN(const auto damaged, work.FindDamaged());
    if (!damaged) return DataLoss("{}: data or parity are damaged", what);
    lost_[*set.members[*damaged].rank] = what + ", so that its files or its parity are damaged";
    work.SetLost(*damaged, /*payload_too=*/true);
    lost = true;
  }
  const std::vector<Rank> lacking = work.Lost();
  if (lost) CAIRN_RETURN_IF_ERROR(Annotate(RebuildMembers(set, work), set.Name()));
  NoteCompared(set, work, lacking);
  return absl::OkStatus();
}

// The set agrees with itself. `lost`: the ranks that lacked files or redundancy data.
void ScrRecovery::NoteCompared(const ScrSet& set, const ScrSetWork& work, const std::vector<Rank>& lost) {
  const bool copies = set.descriptor.scheme == scr::Scheme::kPartner;
  const std::vector<std::vector<bool>> compared = work.Compared();
  bool all = true;
  for (std::size_t member = 0; member < set.members.size(); ++member) {
    ScrRankFiles& files = files_[*set.members[member].rank];
    for (std::size_t i = 0; i < compared[member].size(); ++i) {
      ScrFile& file = files.at((*set.members[member].files)[i].first);
      if (file.verified_by != catalogue::NOTHING) continue;
      if (compared[member][i]) file.verified_by = copies ? catalogue::COPY : catalogue::PARITY;
      all &= compared[member][i];
    }
  }
  if (!all) {
    why_unverified_.push_back(fmt::format("the {} has nothing left over to compare with, since {} lacked data or {}",
                                          set.Name(), RanksText(lost), copies ? "copies" : "parity"));
  }
  if (const std::vector<Rank> ranks = set.RebuiltByScr(); !ranks.empty()) {
    Warn(fmt::format("{}: SCR itself had rebuilt {} from it: parity says that nothing has changed since", set.Name(),
                     RanksText(ranks)));
  }
}

void ScrRecovery::NoteThoseInNoSet(const std::set<Rank>& in_sets) {
  std::vector<Rank> ranks;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    if (!in_sets.contains(rank) && !IsVerified(files_[rank])) ranks.push_back(rank);
  }
  if (!ranks.empty()) why_unverified_.push_back(fmt::format("there are no redundancy data of {}", RanksText(ranks)));
}

absl::StatusOr<std::vector<ScrRankFiles>> ScrRecovery::RecoverFiles(const Elsewhere& elsewhere) {
  files_.assign(ranks_, {});
  for (Rank rank = 0; rank < ranks_; ++rank) CAIRN_RETURN_IF_ERROR(FindFiles(rank, elsewhere));
  std::vector<const ScrPart*> parts;
  for (const ScrPart& part : parts_) parts.push_back(&part);
  std::set<Rank> in_sets;
  absl::Status damage;
  for (const auto& [group, set] : MakeSets(parts, RedsetKind::kData, ranks_, &warnings_)) {
    for (const ScrSetMember& member : set.members) {
      if (member.rank) in_sets.insert(*member.rank);
    }
    const absl::Status checked = CheckSet(set);
    if (checked.ok()) continue;
    if (!absl::IsDataLoss(checked)) return checked;
    if (damage.ok()) damage = checked;
    for (const ScrSetMember& member : set.members) {
      if (member.rank && lost_.contains(*member.rank)) lost_[*member.rank] += fmt::format("; {}", MessageOf(checked));
    }
  }
  if (!lost_.empty()) {
    return DataLoss("files of {} of {} ranks are lost: {}", lost_.size(), ranks_, ListOf(lost_));
  }
  CAIRN_RETURN_IF_ERROR(damage);
  NoteThoseInNoSet(in_sets);
  return std::move(files_);
}

}  // namespace cairn
