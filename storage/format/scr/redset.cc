#include "storage/format/scr/redset.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn::scr {
namespace {

constexpr std::uint64_t kEncoded = 2;

std::string DescriptorName(RedsetKind kind, const SetDescriptor& set) {
  return FileNameOf({.kind = kind, .what = RedsetName::What::kDescriptor, .rank = set.world_rank});
}

std::string HeaderName(RedsetKind kind, const SetDescriptor& set) {
  return FileNameOf(HeaderNameOf(kind, set));
}

bool HasParity(Scheme scheme) {
  return scheme == Scheme::kXor || scheme == Scheme::kRs;
}

kvtree::Tree MakeSetDescriptor(const SetDescriptor& set) {
  kvtree::Tree tree;
  tree.SetBool("ENABLED", true);
  tree.Set("TYPE", NameOf(set.scheme));
  tree.Set("GROUPS", std::uint64_t{set.groups});
  tree.Set("GROUP", std::uint64_t{set.group});
  tree.Set("RANKS", std::uint64_t{set.ranks});
  tree.Set("RANK", std::uint64_t{set.rank});
  tree.Set("WRANKS", std::uint64_t{set.world_ranks});
  tree.Set("WRANK", std::uint64_t{set.world_rank});
  if (set.scheme == Scheme::kPartner) tree.Set("REPLICAS", std::uint64_t{set.replicas});
  if (set.scheme == Scheme::kRs) tree.Set("CKSUM", std::uint64_t{set.checksums});
  return tree;
}

void PutMember(const SetMember& member, kvtree::Tree& tree) {
  tree.At("DESC") = MakeSetDescriptor(member.descriptor);
  tree.Set("FILES", std::uint64_t{member.files.size()});
  kvtree::Tree& list = tree.At("FILE");
  for (std::size_t i = 0; i < member.files.size(); ++i) {
    PutStat(member.files[i].second, list.At(std::to_string(i)).At(member.files[i].first));
  }
}

// Of the owner and its left neighbours.
kvtree::Tree MakeDescriptors(const RedundancyHeader& header) {
  kvtree::Tree tree;
  const SetDescriptor& own = header.members.at(header.rank).descriptor;
  for (std::uint32_t i = 0; i <= LeftNeighbours(own); ++i) {
    const SetDescriptor& set = header.members.at((own.rank + own.ranks - i) % own.ranks).descriptor;
    tree.At(std::to_string(set.world_rank)).At("DESC") = MakeSetDescriptor(set);
  }
  tree.Sort();
  return tree;
}

kvtree::Tree MakeHeader(const RedundancyHeader& header) {
  kvtree::Tree tree;
  tree.Set("RANK", std::uint64_t{header.rank});
  for (const auto& [rank, member] : header.members) PutMember(member, tree.At("DESC").At(std::to_string(rank)));
  if (HasParity(header.scheme())) {
    kvtree::Tree& group = tree.At("GROUP");
    group.Set("RANKS", std::uint64_t{header.world_ranks.size()});
    for (const auto& [rank, world] : header.world_ranks) {
      group.At("RANK").Set(std::to_string(rank), std::uint64_t{world});
    }
    tree.Set("CHUNK", header.chunk_bytes);
  }
  tree.Sort();
  return tree;
}

}  // namespace

SetDescriptor SingleSet(Rank rank, std::uint32_t nranks) {
  CAIRN_CHECK(rank < nranks);
  return {.scheme = Scheme::kSingle,
          .groups = nranks,
          .group = rank,
          .ranks = 1,
          .rank = 0,
          .world_ranks = nranks,
          .world_rank = rank};
}

RedundancyHeader SingleHeader(Rank rank, std::uint32_t nranks, std::vector<RedsetFile> files) {
  RedundancyHeader header;
  header.members[0] = {.descriptor = SingleSet(rank, nranks), .files = std::move(files)};
  return header;
}

RedundancyHeader HeaderOf(const std::vector<SetMember>& set, std::uint32_t rank) {
  CAIRN_CHECK(rank < set.size());
  const SetDescriptor& own = set[rank].descriptor;
  RedundancyHeader header;
  header.rank = rank;
  for (std::uint32_t i = 0; i <= LeftNeighbours(own); ++i) {
    const std::uint32_t member = (rank + own.ranks - i) % own.ranks;
    header.members[member] = set[member];
  }
  if (!HasParity(own.scheme)) return header;
  std::uint64_t longest = 0;
  for (std::uint32_t member = 0; member < set.size(); ++member) {
    header.world_ranks[member] = set[member].descriptor.world_rank;
    longest = std::max(longest, set[member].bytes());
  }
  // So many chunks of a file there are: the others hold checksums.
  const std::uint64_t chunks = own.ranks - (own.scheme == Scheme::kXor ? 1 : own.checksums);
  header.chunk_bytes = std::max<std::uint64_t>(longest / chunks + (longest % chunks != 0 ? 1 : 0), 1);
  return header;
}

std::vector<NamedTree> MakeRankRecords(RedsetKind kind, const RedundancyHeader& header) {
  const SetDescriptor& set = header.members.at(header.rank).descriptor;
  std::vector<NamedTree> records;
  records.emplace_back(DescriptorName(kind, set), MakeDescriptors(header));
  records.emplace_back(HeaderName(kind, set), MakeHeader(header));
  return records;
}

NamedTree MakeOwnership(RedsetKind kind, const std::string& directory, const std::vector<OwnedFiles>& ranks) {
  kvtree::Tree tree;
  kvtree::Tree& list = tree.At("RANK");
  for (const OwnedFiles& owned : ranks) {
    kvtree::Tree& rank = list.At(std::to_string(owned.set.world_rank));
    kvtree::Tree& files = rank.At("FILE");
    // A new key goes to the front: from behind, the list keeps its order.
    files.At(directory + "/" + HeaderName(kind, owned.set));
    files.At(directory + "/" + DescriptorName(kind, owned.set));
    for (auto file = owned.files.rbegin(); file != owned.files.rend(); ++file) files.At(*file);
    rank.Set("FILES", std::uint64_t{files.size()});
  }
  return {FileNameOf({.kind = kind, .what = RedsetName::What::kOwnership}), std::move(tree)};
}

NamedTree MakeEncodeState(RedsetKind kind) {
  kvtree::Tree tree;
  tree.Set("STATE", kEncoded);
  return {FileNameOf({.kind = kind, .what = RedsetName::What::kEncodeState}), std::move(tree)};
}

}  // namespace cairn::scr
