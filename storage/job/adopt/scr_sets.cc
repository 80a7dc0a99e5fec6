#include "storage/job/adopt/scr_sets.h"

#include "storage/base/path.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

bool IsOfSet(const ScrSet& set, const scr::RedundancyHeader& header) {
  const scr::SetDescriptor& a = set.descriptor;
  const scr::SetDescriptor& b = header.members.at(header.rank).descriptor;
  return a.scheme == b.scheme && a.groups == b.groups && a.ranks == b.ranks && a.replicas == b.replicas &&
         a.checksums == b.checksums && set.chunk_bytes == header.chunk_bytes;
}

bool AreSameFiles(const std::vector<scr::RedsetFile>& a, const std::vector<scr::RedsetFile>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& other) {
    return one.first == other.first && one.second.bytes == other.second.bytes;
  });
}

// Does it say the same of the members as those before?
bool Agrees(const ScrSet& set, const scr::RedundancyHeader& header) {
  for (const auto& [rank, member] : header.members) {
    const ScrSetMember& known = set.members[rank];
    if (known.rank && *known.rank != member.descriptor.world_rank) return false;
    if (known.files && !AreSameFiles(*known.files, member.files)) return false;
  }
  for (const auto& [rank, world] : header.world_ranks) {
    if (set.members[rank].rank && *set.members[rank].rank != world) return false;
  }
  return true;
}

// Which member of which group a rank of the job is.
using Owners = std::map<Rank, std::pair<std::uint32_t, std::uint32_t>>;

// A rank is one member of one set.
bool ClaimsRank(const scr::RedundancyHeader& header, std::uint32_t group, Owners& owners) {
  std::map<std::uint32_t, Rank> ranks = header.world_ranks;
  for (const auto& [member, entry] : header.members) ranks[member] = entry.descriptor.world_rank;
  for (const auto& [member, rank] : ranks) {
    const auto owner = owners.find(rank);
    if (owner != owners.end() && owner->second != std::pair(group, member)) return false;
  }
  for (const auto& [member, rank] : ranks) owners[rank] = {group, member};
  return true;
}

void Add(const ScrHeader& header, ScrSet& set) {
  for (const auto& [rank, member] : header.header.members) {
    set.members[rank].rank = member.descriptor.world_rank;
    set.members[rank].files = member.files;
  }
  for (const auto& [rank, world] : header.header.world_ranks) set.members[rank].rank = world;
  set.members[header.header.rank].header = &header;
}

}  // namespace

std::string ScrSet::Name() const {
  std::string ranks;
  for (const ScrSetMember& member : members) {
    if (member.rank) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", *member.rank);
  }
  return fmt::format("{} set of ranks {}", scr::NameOf(descriptor.scheme), ranks);
}

std::vector<Rank> ScrSet::RebuiltByScr() const {
  constexpr std::size_t kMembersInHeader = 2;  // the owner and its left neighbour
  std::vector<Rank> rebuilt;
  if (descriptor.scheme != scr::Scheme::kXor) return rebuilt;
  for (const ScrSetMember& member : members) {
    if (member.header != nullptr && member.header->header.members.size() > kMembersInHeader) {
      rebuilt.push_back(*member.rank);
    }
  }
  return rebuilt;
}

std::map<std::uint32_t, ScrSet> MakeSets(const std::vector<const ScrPart*>& parts, scr::RedsetKind kind,
                                         std::uint32_t ranks, std::vector<std::string>* warnings) {
  std::map<std::uint32_t, ScrSet> sets;
  Owners owners;
  for (const ScrPart* part : parts) {
    const auto headers = part->headers.find(kind);
    if (headers == part->headers.end()) continue;
    for (const auto& [world, header] : headers->second) {
      const scr::SetDescriptor& own = header.header.members.at(header.header.rank).descriptor;
      if (own.scheme == scr::Scheme::kSingle) continue;
      if (own.world_ranks != ranks || own.ranks > redundancy::kMembersMax) {
        warnings->push_back(fmt::format("passed over: {}: of a job of {} ranks, the dataset has {}", header.path,
                                        own.world_ranks, ranks));
        continue;
      }
      const auto [found, made] = sets.try_emplace(own.group);
      ScrSet& set = found->second;
      if (made) {
        set.descriptor = own;
        set.chunk_bytes = header.header.chunk_bytes;
        set.members.resize(own.ranks);
      }
      if (!IsOfSet(set, header.header) || !Agrees(set, header.header) ||
          !ClaimsRank(header.header, own.group, owners)) {
        warnings->push_back(fmt::format("passed over: {}: it contradicts others of its set", header.path));
      } else if (set.members[header.header.rank].header == nullptr) {
        Add(header, set);
      }
    }
  }
  return sets;
}

ScrSetWork::ScrSetWork(Disk& disk, const ScrSet& set) : disk_(disk), from_(set) {
  set_.scheme = set.descriptor.scheme;
  set_.replicas = set.descriptor.replicas;
  set_.checksums = set.descriptor.checksums;
  set_.chunk_bytes = set.chunk_bytes;
  for (const ScrSetMember& member : set.members) {
    CAIRN_CHECK(member.files.has_value());
    redundancy::Member now;
    for (const auto& [path, meta] : *member.files) now.bytes += meta.bytes;
    if (member.header != nullptr) {
      const ScrHeader& header = *member.header;
      const auto file = std::make_shared<redundancy::LogicalFile>(
          disk, std::vector<redundancy::Part>{
                    {.path = header.path, .bytes = header.payload_bytes, .offset = header.header_bytes}});
      now.payload = [file](std::uint64_t offset, std::span<std::byte> target) { return file->Read(offset, target); };
    }
    set_.members.push_back(std::move(now));
  }
}

std::vector<redundancy::Part> ScrSetWork::PartsOf(std::uint32_t member, const std::vector<std::string>& paths) const {
  const std::vector<scr::RedsetFile>& files = *from_.members.at(member).files;
  CAIRN_CHECK(files.size() == paths.size());
  std::vector<redundancy::Part> parts;
  for (std::size_t i = 0; i < files.size(); ++i) parts.push_back({.path = paths[i], .bytes = files[i].second.bytes});
  return parts;
}

void ScrSetWork::SetThere(std::uint32_t member, const std::vector<std::string>& paths) {
  const auto file = std::make_shared<redundancy::LogicalFile>(disk_, PartsOf(member, paths));
  set_.members[member].data = [file](std::uint64_t offset, std::span<std::byte> target) {
    return file->Read(offset, target);
  };
}

void ScrSetWork::SetLost(std::uint32_t member, bool payload_too) {
  set_.members[member].data = {};
  if (payload_too) set_.members[member].payload = {};
}

std::vector<Rank> ScrSetWork::Lost() const {
  std::vector<Rank> lost;
  for (std::size_t member = 0; member < set_.members.size(); ++member) {
    const bool there = set_.members[member].data && set_.members[member].payload;
    if (!there && from_.members[member].rank) lost.push_back(*from_.members[member].rank);
  }
  return lost;
}

std::vector<std::vector<bool>> ScrSetWork::Compared() const {
  const std::vector<redundancy::Ranges> unchecked = redundancy::Unchecked(set_);
  std::vector<std::vector<bool>> compared(unchecked.size());
  for (std::size_t member = 0; member < unchecked.size(); ++member) {
    auto range = unchecked[member].begin();
    std::uint64_t begin = 0;
    for (const auto& [path, meta] : *from_.members[member].files) {
      const std::uint64_t end = begin + meta.bytes;
      while (range != unchecked[member].end() && range->end <= begin) ++range;
      compared[member].push_back(begin == end || range == unchecked[member].end() || range->begin >= end);
      begin = end;
    }
  }
  return compared;
}

absl::Status ScrSetWork::Check() const {
  CAIRN_RETURN_IF_ERROR(redundancy::Check(set_));
  for (std::uint32_t member = 0; member < set_.members.size(); ++member) {
    const ScrHeader* const header = from_.members[member].header;
    const std::uint64_t bytes = redundancy::PayloadBytes(set_, member);
    if (header != nullptr && header->payload_bytes != bytes) {
      return DataLoss("{}: {} bytes behind the header, expected {}", header->path, header->payload_bytes, bytes);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<redundancy::Difference>> ScrSetWork::Rebuild(
    const std::map<std::uint32_t, std::vector<std::string>>& paths) const {
  std::map<std::uint32_t, redundancy::Targets> targets;
  std::vector<std::shared_ptr<redundancy::LogicalFile>> files;
  std::uint64_t bytes = 0;
  for (const auto& [member, to] : paths) {
    const auto file = std::make_shared<redundancy::LogicalFile>(disk_, PartsOf(member, to));
    bytes += std::min(file->bytes(), std::uint64_t{1} << 62);
    targets[member].data = [file](std::uint64_t offset, std::span<const std::byte> from) {
      return file->Write(offset, from);
    };
    files.push_back(file);
  }
  for (const auto& [member, to] : paths) {
    if (to.empty()) continue;
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t free_bytes, disk_.FreeBytes(ParentOf(to.front())));
    if (bytes > free_bytes) {
      return ResourceExhausted("{}: {} bytes are to be rebuilt, {} are free", ParentOf(to.front()), bytes, free_bytes);
    }
  }
  for (const auto& file : files) CAIRN_RETURN_IF_ERROR(file->Create(0600));
  return redundancy::Rebuild(set_, targets);
}

}  // namespace cairn
