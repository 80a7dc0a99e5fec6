// What a node's ranks keep for their sets, made and put in force, made anew, and refused.
#include "storage/job/protect/keep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "storage/file/transfer/transfer.h"
#include "storage/place/cache/dataset_folder.h"
#include "tests/storage/job/protect/nodes.h"

namespace cairn {
namespace {

using ::testing::IsEmpty;
using testing::Node;
using testing::Nodes;
using testing::XorOf;

constexpr scr::Scheme kSchemes[] = {scr::Scheme::kPartner, scr::Scheme::kXor, scr::Scheme::kRs};
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

absl::StatusOr<kept::Record> RecordOf(Nodes& nodes, Node& node) {
  return ReadRedundancyRecord(node.disk, node.folder, TestRun(), nodes.DescriptorOf(node));
}

TEST(KeepTest, TheRecordNamesWhatIsThere) {
  for (const scr::Scheme scheme : kSchemes) {
    Nodes nodes({{0, 1}, {2, 3}, {4, 5}});
    const std::vector<kept::Set> sets = nodes.Sets(scheme);
    ASSERT_EQ(sets.size(), 2u);
    ASSERT_OK(nodes.Protect(sets));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      ASSERT_OK_AND_ASSIGN(const kept::Record record, RecordOf(nodes, nodes.node(i)));
      ASSERT_EQ(record.files_size(), 4);
      for (const kept::File& file : record.files()) {
        EXPECT_OK(VerifyFile(nodes.node(i).disk, RecordsFolder(nodes.node(i).folder) + "/" + file.file().name(),
                             file.file()));
        EXPECT_TRUE(AreSame(file.set(), sets[file.rank() % 2]));
      }
    }
  }
}

TEST(KeepTest, FilesOfDataAreWrittenOverWhatIsSpareAndTheRestOfThatGoes) {
  Nodes nodes({{0, 1}, {2, 3}, {4, 5}});
  Node& node = nodes.node(1);
  KeepWish wish = nodes.WishToKeep(node, nodes.Sets(scr::Scheme::kPartner));
  std::vector<std::uint64_t> inodes;
  for (const char* path : {"/ssd/a", "/ssd/b", "/ssd/c"}) {
    ASSERT_OK(ReplaceFile(node.disk, path, std::string(5000, 'x')));
    ASSERT_OK_AND_ASSIGN(const FileInfo info, node.disk.Info(path));
    inodes.push_back(info.inode);
    wish.spares.push_back({.path = path, .bytes = info.bytes});
  }
  ASSERT_OK_AND_ASSIGN(const kept::Record record, MakeKept(wish, nodes.throttle, nodes.progress));
  std::vector<std::uint64_t> of_data;
  for (const kept::File& file : record.files()) {
    const std::string path = RecordsFolder(node.folder) + "/" + file.file().name();
    EXPECT_OK(VerifyFile(node.disk, path, file.file()));
    ASSERT_OK_AND_ASSIGN(const FileInfo info, node.disk.Info(path));
    if (!file.of_filemap()) of_data.push_back(info.inode);
  }
  EXPECT_THAT(of_data, ::testing::UnorderedElementsAre(inodes[0], inodes[1]));
  for (const SpareFile& spare : wish.spares) {
    EXPECT_EQ(node.disk.Info(spare.path).status().code(), absl::StatusCode::kNotFound) << spare.path;
  }
}

TEST(KeepTest, NothingIsWrittenBeyondTheRoomThatWasReserved) {
  for (const scr::Scheme scheme : kSchemes) {
    Nodes nodes({{0, 1}, {2, 3}, {4, 5}});
    Node& node = nodes.node(2);
    KeepWish wish = nodes.WishToKeep(node, nodes.Sets(scheme));
    ASSERT_OK_AND_ASSIGN(const kept::Record whole, MakeKept(wish, nodes.throttle, nodes.progress));
    std::uint64_t payload = 0;
    for (const kept::File& file : whole.files()) {
      if (!file.of_filemap()) payload += file.file().bytes() - file.header_bytes();
    }
    wish.bytes_max = payload;
    EXPECT_OK(MakeKept(wish, nodes.throttle, nodes.progress).status());
    for (const std::uint64_t less : {payload - 1, payload / 2, std::uint64_t{0}}) {
      wish.bytes_max = less;
      EXPECT_STATUS(absl::StatusCode::kResourceExhausted, MakeKept(wish, nodes.throttle, nodes.progress),
                    "is to keep for others");
    }
  }
}

TEST(KeepTest, ItIsFoundAgainAfterARestart) {
  Nodes nodes = testing::SixNodes();
  ASSERT_OK(nodes.Protect(nodes.Sets(scr::Scheme::kRs)));
  Node& node = nodes.node(3);
  ASSERT_OK_AND_ASSIGN(const kept::Record before, RecordOf(nodes, node));
  node.disk.Restart(1);
  ASSERT_OK_AND_ASSIGN(const auto folder,
                       CacheFolder::Open(node.disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_THAT(load.warnings, IsEmpty());
  EXPECT_EQ(load.whole.at(testing::kNodesDataset).redundancy.SerializeAsString(), before.SerializeAsString());
}

TEST(KeepTest, WhatTheSameSetHasOfDataIsKeptAsItIs) {
  Nodes nodes = testing::SixNodes();
  const std::vector<kept::Set> sets = nodes.Sets(scr::Scheme::kXor);
  ASSERT_OK(nodes.Protect(sets));
  Node& node = nodes.node(1);
  ASSERT_OK_AND_ASSIGN(const kept::Record before, RecordOf(nodes, node));
  const std::string records = RecordsFolder(node.folder) + "/";
  ASSERT_OK_AND_ASSIGN(const FileInfo data, node.disk.Info(records + before.files(0).file().name()));
  ASSERT_OK_AND_ASSIGN(const FileInfo maps, node.disk.Info(records + before.files(1).file().name()));
  ASSERT_OK(nodes.Protect(node, sets));
  ASSERT_OK_AND_ASSIGN(const FileInfo data_now, node.disk.Info(records + before.files(0).file().name()));
  ASSERT_OK_AND_ASSIGN(const FileInfo maps_now, node.disk.Info(records + before.files(1).file().name()));
  EXPECT_EQ(data_now.inode, data.inode);
  EXPECT_NE(maps_now.inode, maps.inode);
  // Unless it is not there any more.
  ASSERT_OK(node.disk.Remove(records + before.files(0).file().name()));
  ASSERT_OK(nodes.Protect(node, sets));
  ASSERT_OK_AND_ASSIGN(const kept::Record after, RecordOf(nodes, node));
  EXPECT_EQ(after.files(0).SerializeAsString(), before.files(0).SerializeAsString());
}

// The sets of a rank in the record, each of which is there byte for byte.
std::vector<kept::Set> SetsThere(Node& node, const kept::Record& record, Rank rank) {
  for (const kept::File& file : record.files()) {
    EXPECT_OK(VerifyFile(node.disk, RecordsFolder(node.folder) + "/" + file.file().name(), file.file()));
  }
  auto sets = SetsByRank(record);
  return sets[rank];
}

// Two sets whose files have the same names and sizes: at no instant a record names one with the other's checksums, or
// not all of the first.
TEST(KeepTest, WhateverTheInstantTheSetThatWasThereIsWhole) {
  const kept::Set one = XorOf({0, 2, 3}), other = XorOf({0, 2, 5});
  std::uint64_t operations = 0;
  for (std::uint64_t n = 0; n == 0 || n <= operations; ++n) {
    SCOPED_TRACE(fmt::format("power fails at operation {} of {}", n, operations));
    Nodes nodes = testing::SixNodes();
    ASSERT_OK(nodes.Protect(nodes.node(0), {one}));
    Node& node = nodes.node(0);
    const std::uint64_t before = node.disk.operations();
    if (n > 0) node.disk.CrashAt(n);
    EXPECT_EQ(nodes.Protect(node, {other}).ok(), n == 0);
    if (n == 0) operations = node.disk.operations() - before;
    node.disk.Restart(n);
    ASSERT_OK_AND_ASSIGN(const auto folder,
                         CacheFolder::Open(node.disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    for (const std::string& warning : load.warnings) ADD_FAILURE() << "a crash is no damage: " << warning;
    ASSERT_TRUE(load.whole.contains(testing::kNodesDataset));
    const auto sets = SetsThere(node, load.whole.at(testing::kNodesDataset).redundancy, 0);
    ASSERT_FALSE(sets.empty());
    EXPECT_TRUE(AreSame(sets.back(), one));
    EXPECT_TRUE(AreSame(sets.front(), n == 0 ? other : sets.size() > 1 ? other : one));
    if (HasFailure()) return;
  }
}

// So it is after errors of the disk, in what it says at that moment.
TEST(KeepTest, WhateverFailsTheSetThatWasThereIsWhole) {
  const kept::Set one = XorOf({0, 2, 3}), other = XorOf({0, 2, 5});
  for (const FakeOp op : {FakeOp::kOpen, FakeOp::kWrite, FakeOp::kSync, FakeOp::kRename, FakeOp::kSyncDirectory}) {
    for (std::uint64_t nth = 1; nth < 12; ++nth) {
      SCOPED_TRACE(fmt::format("operation {}, number {}", static_cast<int>(op), nth));
      Nodes nodes = testing::SixNodes();
      Node& node = nodes.node(0);
      ASSERT_OK(nodes.Protect(node, {one}));
      node.disk.FailOn({.op = op, .path_part = ".scr", .nth = nth});
      MakeKept(nodes.WishToKeep(node, {other}), nodes.throttle, nodes.progress).status().IgnoreError();
      node.disk.ClearFaults();
      ASSERT_OK_AND_ASSIGN(const kept::Record record, RecordOf(nodes, node));
      const auto sets = SetsThere(node, record, 0);
      ASSERT_EQ(sets.size(), 1u);
      EXPECT_TRUE(AreSame(sets[0], one));
      if (HasFailure()) return;
    }
  }
}

TEST(KeepTest, WhatThereIsForOtherSetsStaysBehindTheNewOne) {
  Nodes nodes = testing::SixNodes();
  Node& node = nodes.node(0);
  const std::vector<kept::Set> sets = {XorOf({0, 1, 2}), XorOf({0, 1, 3}), XorOf({0, 1, 4}), XorOf({0, 1, 5}),
                                       XorOf({0, 2, 3})};
  const auto there = [&](const std::vector<std::size_t>& wanted) {
    ASSERT_OK_AND_ASSIGN(const kept::Record record, RecordOf(nodes, node));
    const std::vector<kept::Set> found = SetsThere(node, record, 0);
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(AreSame(found[i], sets[wanted[i]])) << i;
    EXPECT_FALSE(IsOlderName(record.files(0).file().name()));
  };
  ASSERT_OK(nodes.Protect(node, {sets[0]}));
  ASSERT_OK(nodes.Protect(node, {sets[1]}));
  there({1, 0});
  ASSERT_OK(nodes.Protect(node, {sets[0]}));  // once more
  there({0, 1});
  ASSERT_OK(nodes.Protect(node, {sets[2]}));
  ASSERT_OK(nodes.Protect(node, {sets[3]}));
  there({3, 2, 0, 1});
  ASSERT_OK(nodes.Protect(node, {sets[4]}));  // one too many: the first, and the newest ones stay
  there({4, 3, 2, 1});
  ASSERT_OK_AND_ASSIGN(const kept::Record record, RecordOf(nodes, node));
  ASSERT_OK(node.cache->Protect(nodes.DescriptorOf(node), WithoutOlder(record, {sets[4]})));
  there({4});
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, node.disk.List(RecordsFolder(node.folder)));
  EXPECT_EQ(std::ranges::count_if(names, IsOlderName), 0);
}

TEST(KeepTest, WithoutHardLinksItIsCopied) {
  Nodes nodes = testing::SixNodes();
  Node& node = nodes.node(0);
  ASSERT_OK(nodes.Protect(node, {XorOf({0, 2, 3})}));
  node.disk.FailOn({.op = FakeOp::kLink, .times = 1000, .status = absl::FailedPreconditionError("no hard links")});
  ASSERT_OK(nodes.Protect(node, {XorOf({0, 2, 5})}));
  node.disk.Restart(1);
  ASSERT_OK_AND_ASSIGN(const kept::Record record, RecordOf(nodes, node));
  EXPECT_EQ(SetsThere(node, record, 0).size(), 2u);
}

TEST(KeepTest, WhatItTakesIsAsMuchAsWasSaid) {
  for (const scr::Scheme scheme : kSchemes) {
    Nodes nodes = testing::SixNodes();
    const std::vector<kept::Set> sets = nodes.Sets(scheme);
    ASSERT_OK(nodes.Protect(sets));
    std::map<Rank, std::uint64_t> bytes;
    std::uint64_t all = 0;
    for (Rank rank = 0; rank < 6; ++rank) {
      for (const std::string& path : {nodes.PathOf(rank), nodes.NodeOf(rank).folder + fmt::format("/rank_{}.cat", rank),
                                      FilemapPath(nodes.NodeOf(rank).folder, rank)}) {
        ASSERT_OK_AND_ASSIGN(const FileInfo info, nodes.NodeOf(rank).disk.Info(path));
        bytes[rank] += info.bytes;
        all += info.bytes;
      }
    }
    for (Rank rank = 0; rank < 6; ++rank) {
      ASSERT_OK_AND_ASSIGN(const kept::Record record, RecordOf(nodes, nodes.NodeOf(rank)));
      const std::uint64_t said = KeptBytesOf(sets[0], bytes, rank);
      EXPECT_GE(said, KeptBytes(record)) << "rank " << rank;
      EXPECT_LE(said, KeptBytes(record) + (64 << 10)) << "rank " << rank;
    }
  }
}

TEST(KeepTest, HowMuchItTakesDoesNotOverflow) {
  kept::Set set = XorOf({0, 1});
  EXPECT_GT(KeptBytesOf(set, {{0, UINT64_MAX}, {1, UINT64_MAX}}, 0), UINT64_MAX / 2);
  set.set_scheme(kept::RS);
  set.set_checksums(2);
  EXPECT_GT(KeptBytesOf(set, {}, 0), 0u) << "no set";
  set.add_ranks(2);
  EXPECT_EQ(KeptBytesOf(set, {{1, UINT64_MAX - 10}}, 0), UINT64_MAX);
  set.set_scheme(kept::PARTNER);
  set.set_replicas(2);
  EXPECT_EQ(KeptBytesOf(set, {{1, UINT64_MAX - 10}, {2, 100}}, 0), UINT64_MAX);
}

TEST(KeepTest, WhatIsNoSetOrNowhereIsRefused) {
  Nodes nodes = testing::SixNodes();
  Node& node = nodes.node(0);
  const auto refused = [&](const KeepWish& wish, std::string_view part) {
    EXPECT_STATUS(kInvalidArgument, MakeKept(wish, nodes.throttle, nodes.progress), part);
  };
  refused(nodes.WishToKeep(node, {XorOf({0, 6})}), "ranks: 6");
  refused(nodes.WishToKeep(node, {XorOf({0, 1}), XorOf({0, 2})}), "two redundancy sets");
  KeepWish wish = nodes.WishToKeep(node, {XorOf({0, 3})});
  wish.elsewhere.erase(3);
  refused(wish, "neither here nor elsewhere");
  EXPECT_STATUS(absl::StatusCode::kNotFound, RecordOf(nodes, node), "redundancy.cairn");
}

TEST(KeepTest, AMembersDamagedFileIsNamedAndTheRecordBeforeHolds) {
  Nodes nodes = testing::SixNodes();
  Node& node = nodes.node(0);
  ASSERT_OK(nodes.Protect(node, {XorOf({0, 1})}));
  ASSERT_OK_AND_ASSIGN(const kept::Record before, RecordOf(nodes, node));
  nodes.node(3).disk.FlipBit(nodes.PathOf(3), 8 * 1000);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, nodes.Protect(node, {XorOf({0, 3, 5})}), nodes.PathOf(3));
  ASSERT_OK_AND_ASSIGN(const kept::Record after, RecordOf(nodes, node));
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
  nodes.progress.stop = true;
  EXPECT_STATUS(absl::StatusCode::kCancelled, nodes.Protect(node, {XorOf({0, 2, 5})}), "");
}

TEST(KeepTest, WithoutASetNothingIsKept) {
  Nodes nodes = testing::SixNodes();
  ASSERT_OK_AND_ASSIGN(const kept::Record record,
                       MakeKept(nodes.WishToKeep(nodes.node(0), {XorOf({1, 2})}), nodes.throttle, nodes.progress));
  EXPECT_EQ(record.files_size(), 0);
  EXPECT_EQ(nodes.progress.bytes_done, 0u);
}

}  // namespace
}  // namespace cairn
