// Scheme SINGLE's records, as SCR makes them.
#include "storage/format/scr/redset.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

TEST(RedsetTest, NamesSayRankSetAndMember) {
  const auto data = MakeSingleRank(RedsetKind::kData, 3, 16, {});
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(data[0].first, "reddesc.er.3.redset");
  EXPECT_EQ(data[1].first, "reddesc.er.3.single.grp_4_of_16.mem_1_of_1.redset");
  const auto maps = MakeSingleRank(RedsetKind::kFilemaps, 3, 16, {});
  EXPECT_EQ(maps[0].first, "reddescmap.er.3.redset");
  EXPECT_EQ(maps[1].first, "reddescmap.er.3.single.grp_4_of_16.mem_1_of_1.redset");
  EXPECT_EQ(MakeOwnership(RedsetKind::kData, "/d/.scr", 16, {}).first, "reddesc.er.shuffile");
  EXPECT_EQ(MakeOwnership(RedsetKind::kFilemaps, "/d/.scr", 16, {}).first, "reddescmap.er.shuffile");
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
  const auto [name, tree] = MakeOwnership(RedsetKind::kFilemaps, "/d/.scr", 4,
                                          {{.rank = 1, .files = {"/d/.scr/filemap_1"}}, {.rank = 3, .files = {}}});
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

// What SCR's own header says of its files, in its order.
absl::StatusOr<std::vector<RedsetFile>> FilesOf(const Tree& header) {
  const Tree* list = header.FindPath({"DESC", "0", "FILE"});
  std::vector<RedsetFile> files;
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const Tree* file = list->Find(std::to_string(i));
    if (file == nullptr) break;
    absl::StatusOr<Meta> meta = GetMeta(file->elements().front().second);
    if (!meta.ok()) return meta.status();
    files.emplace_back(file->elements().front().first, *std::move(meta));
  }
  return files;
}

// Makes all the records of one rank and kind anew and compares them with SCR's, byte for byte.
void ExpectAsScr(const std::map<std::string, std::string>& records, const std::string& folder, RedsetKind kind,
                 Rank rank, std::uint32_t nranks) {
  const std::string header_path = folder + MakeSingleRank(kind, rank, nranks, {})[1].first;
  ASSERT_TRUE(records.contains(header_path)) << header_path;
  const auto header = kvtree::Decode(header_path, records.at(header_path));
  ASSERT_TRUE(header.ok()) << header.status();
  const auto files = FilesOf(*header);
  ASSERT_TRUE(files.ok()) << files.status();

  std::vector<NamedTree> made = MakeSingleRank(kind, rank, nranks, *files);
  const std::string directory = "/mnt/ssd" + folder.substr(folder.find("/alice"));
  OwnedFiles owned{.rank = rank, .files = {}};
  for (const auto& [path, meta] : *files) owned.files.push_back(path);
  made.push_back(MakeOwnership(kind, directory.substr(0, directory.size() - 1), nranks, {owned}));
  made.push_back(MakeEncodeState(kind));
  for (const auto& [name, tree] : made) {
    ASSERT_TRUE(records.contains(folder + name)) << folder << name;
    EXPECT_EQ(kvtree::Encode(tree), records.at(folder + name)) << folder << name;
  }
}

TEST(RedsetVectorTest, RecordsAreTheBytesThatScrWrote) {
  std::map<std::string, std::string> records;
  const auto vectors = testing::ScrVectors("", "single_np2");
  for (const testing::ScrVector& vector : vectors) records[vector.path] = vector.bytes;
  if (records.empty()) return;
  for (Rank rank = 0; rank < 2; ++rank) {
    for (int dataset = 1; dataset <= 3; ++dataset) {
      const std::string folder = "single_np2/nodes/node" + std::to_string(rank) + "/alice/scr.4242/scr.dataset." +
                                 std::to_string(dataset) + "/.scr/";
      ExpectAsScr(records, folder, RedsetKind::kData, rank, 2);
      ExpectAsScr(records, folder, RedsetKind::kFilemaps, rank, 2);
    }
  }
}

}  // namespace
}  // namespace cairn::scr
