#include "storage/format/scr/redset.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "storage/base/check.h"

namespace cairn::scr {
namespace {

constexpr std::uint64_t kEncoded = 2;

std::string_view PrefixOf(RedsetKind kind) {
  return kind == RedsetKind::kData ? "reddesc.er" : "reddescmap.er";
}

std::string DescriptorName(RedsetKind kind, Rank rank) {
  return fmt::format("{}.{}.redset", PrefixOf(kind), rank);
}

std::string HeaderName(RedsetKind kind, Rank rank, std::uint32_t nranks) {
  // Every rank is a set of its own; names count sets and members from 1.
  return fmt::format("{}.{}.single.grp_{}_of_{}.mem_1_of_1.redset", PrefixOf(kind), rank, std::uint64_t{rank} + 1,
                     nranks);
}

kvtree::Tree MakeSetDescriptor(Rank rank, std::uint32_t nranks) {
  kvtree::Tree tree;
  tree.SetBool("ENABLED", true);
  tree.Set("TYPE", "SINGLE");
  tree.Set("GROUPS", std::uint64_t{nranks});
  tree.Set("GROUP", std::uint64_t{rank});
  tree.Set("RANKS", "1");
  tree.Set("RANK", "0");
  tree.Set("WRANKS", std::uint64_t{nranks});
  tree.Set("WRANK", std::uint64_t{rank});
  return tree;
}

kvtree::Tree MakeHeader(Rank rank, std::uint32_t nranks, const std::vector<RedsetFile>& files) {
  kvtree::Tree header;
  header.Set("RANK", "0");
  kvtree::Tree& own = header.At("DESC").At("0");
  own.At("DESC") = MakeSetDescriptor(rank, nranks);
  own.Set("FILES", std::uint64_t{files.size()});
  kvtree::Tree& list = own.At("FILE");
  for (std::size_t i = 0; i < files.size(); ++i) {
    PutStat(files[i].second, list.At(std::to_string(i)).At(files[i].first));
  }
  header.Sort();
  return header;
}

}  // namespace

std::vector<NamedTree> MakeSingleRank(RedsetKind kind, Rank rank, std::uint32_t nranks,
                                      const std::vector<RedsetFile>& files) {
  CAIRN_CHECK(rank < nranks);
  kvtree::Tree descriptor;
  descriptor.At(std::to_string(rank)).At("DESC") = MakeSetDescriptor(rank, nranks);
  descriptor.Sort();
  std::vector<NamedTree> records;
  records.emplace_back(DescriptorName(kind, rank), std::move(descriptor));
  records.emplace_back(HeaderName(kind, rank, nranks), MakeHeader(rank, nranks, files));
  return records;
}

NamedTree MakeOwnership(RedsetKind kind, const std::string& directory, std::uint32_t nranks,
                        const std::vector<OwnedFiles>& ranks) {
  kvtree::Tree tree;
  kvtree::Tree& list = tree.At("RANK");
  for (const OwnedFiles& owned : ranks) {
    kvtree::Tree& rank = list.At(std::to_string(owned.rank));
    kvtree::Tree& files = rank.At("FILE");
    // A new key goes to the front: from behind, the list keeps its order.
    files.At(directory + "/" + HeaderName(kind, owned.rank, nranks));
    files.At(directory + "/" + DescriptorName(kind, owned.rank));
    for (auto file = owned.files.rbegin(); file != owned.files.rend(); ++file) files.At(*file);
    rank.Set("FILES", std::uint64_t{files.size()});
  }
  return {fmt::format("{}.shuffile", PrefixOf(kind)), std::move(tree)};
}

NamedTree MakeEncodeState(RedsetKind kind) {
  kvtree::Tree tree;
  tree.Set("STATE", kEncoded);
  return {fmt::format("{}.er", PrefixOf(kind)), std::move(tree)};
}

}  // namespace cairn::scr
