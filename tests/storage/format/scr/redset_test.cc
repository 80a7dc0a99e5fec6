// The records of redundancy sets, made as SCR makes them.
#include "storage/format/scr/redset.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

std::vector<NamedTree> MakeSingleRank(RedsetKind kind, Rank rank, std::uint32_t nranks, std::vector<RedsetFile> files) {
  return MakeRankRecords(kind, SingleHeader(rank, nranks, std::move(files)));
}

TEST(RedsetTest, NamesSayRankSetAndMember) {
  const auto data = MakeSingleRank(RedsetKind::kData, 3, 16, {});
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0].first, "reddesc.er.3.redset");
  EXPECT_EQ(data[1].first, "reddesc.er.3.single.grp_4_of_16.mem_1_of_1.redset");
  const auto maps = MakeSingleRank(RedsetKind::kFilemaps, 3, 16, {});
  EXPECT_EQ(maps[0].first, "reddescmap.er.3.redset");
  EXPECT_EQ(maps[1].first, "reddescmap.er.3.single.grp_4_of_16.mem_1_of_1.redset");
  EXPECT_EQ(MakeOwnership(RedsetKind::kData, "/d/.scr", {}).first, "reddesc.er.shuffile");
  EXPECT_EQ(MakeOwnership(RedsetKind::kFilemaps, "/d/.scr", {}).first, "reddescmap.er.shuffile");
  EXPECT_EQ(MakeEncodeState(RedsetKind::kData).first, "reddesc.er.er");
  EXPECT_EQ(MakeEncodeState(RedsetKind::kFilemaps).first, "reddescmap.er.er");
}

TEST(RedsetTest, AHeaderListsTheFilesInTheirOrder) {
  Meta meta;
  meta.bytes = 7;
  meta.mode = 0100600;
  std::vector<RedsetFile> files;
  for (int i = 0; i < 12; ++i) files.emplace_back("/d/file_" + std::to_string(i), meta);
  const Tree header = MakeSingleRank(RedsetKind::kData, 0, 1, files)[1].second;
  EXPECT_EQ(header.Get("RANK"), "0");
  EXPECT_EQ(header.FindPath({"DESC", "0"})->Get("FILES"), "12");
  EXPECT_EQ(header.FindPath({"DESC", "0", "FILE", "10", "/d/file_10"})->Get("SIZE"), "7");
  // Keys are sorted as strings.
  EXPECT_EQ(header.FindPath({"DESC", "0", "FILE"})->elements()[2].first, "10");
}

TEST(RedsetTest, ARankWithoutFilesHasAnEmptyList) {
  const Tree header = MakeSingleRank(RedsetKind::kData, 0, 1, {})[1].second;
  EXPECT_EQ(header.FindPath({"DESC", "0"})->Get("FILES"), "0");
  EXPECT_TRUE(header.FindPath({"DESC", "0", "FILE"})->empty());
}

TEST(RedsetTest, TheOwnershipListHoldsEveryRankOfTheNode) {
  const auto [name, tree] =
      MakeOwnership(RedsetKind::kFilemaps, "/d/.scr",
                    {{.set = SingleSet(1, 4), .files = {"/d/.scr/filemap_1"}}, {.set = SingleSet(3, 4), .files = {}}});
  EXPECT_EQ(kvtree::Print(tree),
            "  RANK\n"
            "    3\n      FILES\n        2\n      FILE\n        /d/.scr/reddescmap.er.3.redset\n"
            "        /d/.scr/reddescmap.er.3.single.grp_4_of_4.mem_1_of_1.redset\n"
            "    1\n      FILES\n        3\n      FILE\n        /d/.scr/filemap_1\n"
            "        /d/.scr/reddescmap.er.1.redset\n"
            "        /d/.scr/reddescmap.er.1.single.grp_2_of_4.mem_1_of_1.redset\n");
}

TEST(RedsetTest, TheEncodeStateSaysEncoded) {
  EXPECT_EQ(kvtree::Print(MakeEncodeState(RedsetKind::kData).second), "  STATE\n    2\n");
}

// Where the file is, and what its name says of it. nullopt: it is no such record.
struct Place {
  std::string folder;     // among the vectors, with '/'
  std::string directory;  // as the job saw it
  RedsetName name;
};
std::optional<Place> PlaceOf(const testing::ScrVector& vector) {
  const std::size_t end = vector.path.rfind('/') + 1;
  const auto name = ParseRedsetName(vector.path.substr(end));
  const std::size_t user = vector.path.find("/alice");
  if (!name || user == std::string::npos) return std::nullopt;
  return Place{.folder = vector.path.substr(0, end),
               .directory = "/mnt/ssd" + vector.path.substr(user, end - 1 - user),
               .name = *name};
}

// From what SCR's own header says all the records of its rank are made anew, and compared byte for byte. The ownership
// list only where the node has one rank: otherwise the order of ranks in it is that of SCR's hash.
TEST(RedsetVectorTest, RecordsOfEachSchemeAreTheBytesThatScrWrote) {
  std::map<std::string, std::string> records;
  std::map<std::pair<std::string, RedsetKind>, int> ranks;  // by folder
  const auto vectors = testing::ScrVectors("");
  for (const testing::ScrVector& vector : vectors) {
    records[vector.path] = vector.bytes;
    const auto place = PlaceOf(vector);
    if (place && place->name.what == RedsetName::What::kHeader) ++ranks[{place->folder, place->name.kind}];
  }
  std::map<Scheme, int> compared;
  for (const testing::ScrVector& vector : vectors) {
    const auto place = PlaceOf(vector);
    if (!place || place->name.what != RedsetName::What::kHeader) continue;
    SCOPED_TRACE(vector.path);
    std::uint64_t declared = 0;
    const auto tree = kvtree::Decode(vector.path, vector.bytes, &declared);
    ASSERT_TRUE(tree.ok()) << tree.status();
    const auto header = GetRedundancyHeader(*tree);
    ASSERT_TRUE(header.ok()) << header.status();
    const RedsetKind kind = place->name.kind;

    const std::vector<NamedTree> made = MakeRankRecords(kind, *header);
    EXPECT_EQ(place->folder + made[1].first, vector.path);
    EXPECT_EQ(kvtree::Encode(made[1].second), vector.bytes.substr(0, declared));
    const auto descriptor = records.find(place->folder + made[0].first);
    if (descriptor == records.end()) continue;  // a drain has rebuilt the header, and does not make the other records
    EXPECT_EQ(kvtree::Encode(made[0].second), descriptor->second);
    ++compared[header->scheme()];
    if (ranks[{place->folder, kind}] > 1) continue;

    const SetMember& own = header->members.at(header->rank);
    OwnedFiles owned{.set = own.descriptor, .files = {}};
    for (const auto& [path, meta] : own.files) owned.files.push_back(path);
    for (const auto& [name, list] : {MakeOwnership(kind, place->directory, {owned}), MakeEncodeState(kind)}) {
      ASSERT_TRUE(records.contains(place->folder + name)) << name;
      EXPECT_EQ(kvtree::Encode(list), records.at(place->folder + name)) << name;
    }
  }
  if (vectors.empty()) return;
  for (const Scheme scheme : {Scheme::kSingle, Scheme::kPartner, Scheme::kXor, Scheme::kRs}) {
    EXPECT_GE(compared[scheme], 6) << NameOf(scheme);
  }
}

// The files of all members, each as its own header has them, make each header.
TEST(RedsetVectorTest, HeadersFollowFromTheMembersFiles) {
  std::map<std::string, std::map<std::uint32_t, RedundancyHeader>> sets;
  for (const testing::ScrVector& vector : testing::ScrVectors("redundancy file")) {
    if (vector.scenario.find("after_rebuild") != std::string::npos) continue;  // with one member too many
    const auto place = PlaceOf(vector);
    if (!place) continue;
    const auto tree = kvtree::Decode(vector.path, vector.bytes);
    ASSERT_TRUE(tree.ok()) << tree.status();
    const auto header = GetRedundancyHeader(*tree);
    ASSERT_TRUE(header.ok()) << vector.path << ": " << header.status();
    const std::size_t dataset = vector.path.find("scr.dataset.");
    const std::string set = vector.scenario + vector.path.substr(dataset, vector.path.find('/', dataset) - dataset) +
                            std::to_string(place->name.group) + std::to_string(static_cast<int>(place->name.kind));
    sets[set].emplace(header->rank, *header);
  }
  std::map<Scheme, int> compared;
  for (const auto& [name, headers] : sets) {
    std::vector<SetMember> members;
    for (const auto& [rank, header] : headers) members.push_back(header.members.at(rank));
    if (members.size() != members.front().descriptor.ranks) continue;  // a node is lost
    for (const auto& [rank, header] : headers) {
      const RedundancyHeader made = HeaderOf(members, rank);
      EXPECT_EQ(kvtree::Encode(MakeRankRecords(RedsetKind::kData, made)[1].second),
                kvtree::Encode(MakeRankRecords(RedsetKind::kData, header)[1].second))
          << name << ", rank " << rank;
      ++compared[header.scheme()];
    }
  }
  if (sets.empty()) return;
  for (const Scheme scheme : {Scheme::kSingle, Scheme::kPartner, Scheme::kXor, Scheme::kRs}) {
    EXPECT_GE(compared[scheme], 6) << NameOf(scheme);
  }
}

}  // namespace
}  // namespace cairn::scr
