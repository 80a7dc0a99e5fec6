// Whose a cache is, on disks that fail and lose power.
#include "storage/place/cache/node_identity.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

constexpr char kFolder[] = "/c/ana";
constexpr char kPath[] = "/c/ana/node.cairn";

absl::StatusOr<NodeIdentity> Open(Disk& disk, std::string_view host = "node7", bool take = false) {
  return OpenNode(disk, "/c", "ana", host, take);
}

// REQUIRES: it opens.
std::string IdOf(Disk& disk, std::string_view host = "node7") {
  const auto node = Open(disk, host);
  EXPECT_OK(node);
  if (!node.ok()) return "";
  EXPECT_EQ(node->host, host);
  EXPECT_EQ(node->warnings, Names{});
  return node->id;
}

void Put(Disk& disk, const std::string& path, std::string_view text) {
  ASSERT_OK(ReplaceFile(disk, path, text));
}

class NodeIdentityTest : public ::testing::Test {
 protected:
  FakeDisk disk_;
};

TEST_F(NodeIdentityTest, TheFirstOpenerMakesAnIdThatStays) {
  const std::string id = IdOf(disk_);
  EXPECT_OK(RunId::Parse(id));
  EXPECT_EQ(disk_.Info(kFolder)->mode & 07777, 0700u);
  EXPECT_EQ(disk_.Info(kPath)->mode & 07777, 0600u);
  EXPECT_EQ(disk_.List(kFolder).value(), (Names{"node.cairn"}));
  const auto tree = ReadTree(disk_, kPath);
  EXPECT_EQ(tree->Get("VERSION"), "1");
  EXPECT_EQ(tree->Get("ID"), id);
  EXPECT_EQ(tree->Get("HOST"), "node7");
  EXPECT_EQ(tree->GetUnsigned("INODE").value(), disk_.Info(kFolder)->inode);
  disk_.Restart(1);
  EXPECT_EQ(IdOf(disk_), id);
}

TEST_F(NodeIdentityTest, EachUserAndEachCacheHasAnIdOfItsOwn) {
  std::set<std::string> ids;
  for (const char* cache : {"/c", "/d"}) {
    for (const char* user : {"ana", "ben"}) ids.insert(OpenNode(disk_, cache, user, "node7", false)->id);
  }
  EXPECT_EQ(ids.size(), 4u);
}

TEST_F(NodeIdentityTest, WhatOpensAnIdWritesNothing) {
  IdOf(disk_);
  std::set<FakeOp> used;
  disk_.SetHook([&](FakeOp op, const std::string&) { used.insert(op); });
  IdOf(disk_);
  for (const FakeOp op : {FakeOp::kWrite, FakeOp::kRename, FakeOp::kRenameNew, FakeOp::kLink, FakeOp::kRemove}) {
    EXPECT_FALSE(used.contains(op)) << static_cast<int>(op);
  }
}

TEST_F(NodeIdentityTest, AnotherNodesCacheIsRefusedAndLeftAsItIs) {
  const std::string id = IdOf(disk_);
  const absl::Status refused = Open(disk_, "node8").status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(MessageOf(refused),
            "/c/ana/node.cairn: this cache is node7's (this node is node8): two daemons would repair each other's "
            "datasets where locks are not shared; if node7 is gone or was renamed, start once with --take-cache, or "
            "set cache.node");
  EXPECT_EQ(IdOf(disk_), id);
}

TEST_F(NodeIdentityTest, ACacheThatIsTakenGetsANewIdAndRefusesItsFormerNode) {
  const std::string id = IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(const NodeIdentity taken, Open(disk_, "node8", /*take=*/true));
  EXPECT_NE(taken.id, id);
  EXPECT_EQ(taken.host, "node8");
  ASSERT_EQ(taken.warnings.size(), 1u);
  EXPECT_NE(taken.warnings[0].find("node7"), std::string::npos) << taken.warnings[0];
  EXPECT_EQ(IdOf(disk_, "node8"), taken.id);
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Open(disk_, "node7"), "this cache is node8's");
}

TEST_F(NodeIdentityTest, TakingOnesOwnCacheChangesNothing) {
  const std::string id = IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(const NodeIdentity taken, Open(disk_, "node7", /*take=*/true));
  EXPECT_EQ(taken.id, id);
  EXPECT_EQ(taken.warnings, Names{});
}

TEST_F(NodeIdentityTest, ACopiedCacheGetsANewIdOnce) {
  const std::string id = IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk_, kPath, 1 << 20));
  ASSERT_OK(MakeDirectories(disk_, "/copy/ana"));
  Put(disk_, "/copy/ana/node.cairn", bytes);
  ASSERT_OK_AND_ASSIGN(const NodeIdentity copy, OpenNode(disk_, "/copy", "ana", "node7", false));
  EXPECT_NE(copy.id, id);
  ASSERT_EQ(copy.warnings.size(), 1u);
  EXPECT_NE(copy.warnings[0].find("inode"), std::string::npos) << copy.warnings[0];
  ASSERT_OK_AND_ASSIGN(const NodeIdentity again, OpenNode(disk_, "/copy", "ana", "node7", false));
  EXPECT_EQ(again.id, copy.id);
  EXPECT_EQ(again.warnings, Names{});
  EXPECT_EQ(IdOf(disk_), id) << "the original is what it was";
}

TEST_F(NodeIdentityTest, ACopyOnAnotherNodeIsRefusedUntilItIsTaken) {
  IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk_, kPath, 1 << 20));
  ASSERT_OK(MakeDirectories(disk_, "/copy/ana"));
  Put(disk_, "/copy/ana/node.cairn", bytes);
  EXPECT_STATUS(StatusCode::kFailedPrecondition, OpenNode(disk_, "/copy", "ana", "node8", false), "node7's");
  EXPECT_OK(OpenNode(disk_, "/copy", "ana", "node8", true));
  EXPECT_EQ(OpenNode(disk_, "/copy", "ana", "node8", false)->warnings, Names{});
}

TEST_F(NodeIdentityTest, AnyBitFlipGoesAsideAndTheCacheGetsANewId) {
  const std::string id = IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(const std::string whole, ReadWhole(disk_, kPath, 1 << 20));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    FakeDisk disk;
    ASSERT_OK(MakeDirectories(disk, kFolder));
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    Put(disk, kPath, bytes);
    ASSERT_OK_AND_ASSIGN(const NodeIdentity node, Open(disk));
    ASSERT_NE(node.id, id) << "bit " << bit;
    ASSERT_EQ(node.warnings.size(), 1u);
    ASSERT_NE(node.warnings[0].find("node.cairn.damaged.1"), std::string::npos) << node.warnings[0];
    ASSERT_EQ(ReadWhole(disk, std::string(kPath) + ".damaged.1", 1 << 20).value(), bytes);
    ASSERT_EQ(IdOf(disk), node.id);
  }
}

TEST_F(NodeIdentityTest, FieldsThatMakeNoSenseAreDamage) {
  IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree good, ReadTree(disk_, kPath));
  const std::vector<std::pair<const char*, std::string>> bad = {{"VERSION", "one"},
                                                                {"ID", "0123"},
                                                                {"ID", ""},
                                                                {"HOST", ""},
                                                                {"HOST", "node7\nnode8"},
                                                                {"HOST", std::string(65, 'h')},
                                                                {"INODE", "-1"},
                                                                {"INODE", ""}};
  for (const auto& [key, value] : bad) {
    kvtree::Tree tree = good;
    tree.Set(key, value);
    ASSERT_OK(ReplaceTree(disk_, kPath, tree));
    ASSERT_OK_AND_ASSIGN(const NodeIdentity node, Open(disk_));
    ASSERT_EQ(node.warnings.size(), 1u) << key << " " << value;
    EXPECT_NE(node.warnings[0].find(key), std::string::npos) << node.warnings[0];
    EXPECT_EQ(node.warnings[0].find('\n'), std::string::npos) << node.warnings[0];
    EXPECT_EQ(IdOf(disk_), node.id);
  }
  for (const char* key : {"VERSION", "ID", "HOST", "INODE"}) {
    kvtree::Tree tree = good;
    tree.Erase(key);
    ASSERT_OK(ReplaceTree(disk_, kPath, tree));
    EXPECT_EQ(Open(disk_)->warnings.size(), 1u) << "without " << key;
  }
}

TEST_F(NodeIdentityTest, ARecordOfANewerVersionIsRefusedAndKept) {
  IdOf(disk_);
  ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTree(disk_, kPath));
  tree.Set("VERSION", "2");
  ASSERT_OK(ReplaceTree(disk_, kPath, tree));
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Open(disk_, "node8", /*take=*/true), "VERSION 2");
  EXPECT_TRUE(ReadTree(disk_, kPath)->SameAs(tree));
}

TEST_F(NodeIdentityTest, OfTwoNodesThatMakeItAtTheSameTimeOneIsRefused) {
  // The other one comes right before our record gets its name.
  std::string others;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (!others.empty() || path != kPath || op != FakeOp::kLink) return;
    others = "coming";
    const auto node = Open(disk_, "node8");
    others = node.ok() ? node->id : node.status().ToString();
  });
  EXPECT_STATUS(StatusCode::kFailedPrecondition, Open(disk_, "node7"), "this cache is node8's");
  EXPECT_EQ(IdOf(disk_, "node8"), others);
}

// The power fails at each operation of `act`. What it answered must be what later ones find; what they find stays.
void CrashEverywhere(const std::function<void(FakeDisk&)>& prepare,
                     const std::function<absl::StatusOr<NodeIdentity>(FakeDisk&)>& act) {
  bool interrupted = true;
  for (std::uint64_t n = 1; interrupted; ++n) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {}, seed {}", n, seed));
      FakeDisk disk;
      prepare(disk);
      disk.SyncAll();
      disk.CrashAt(n);
      const auto first = act(disk);
      interrupted = disk.crashed();
      disk.Restart(seed);
      ASSERT_OK_AND_ASSIGN(const NodeIdentity second, act(disk));
      if (first.ok()) {
        EXPECT_EQ(second.id, first->id) << "what was told is durable";
      }
      disk.Restart(seed);
      EXPECT_EQ(IdOf(disk, second.host), second.id);
    }
  }
}

TEST(NodeIdentityCrashTest, AnIdThatWasToldSurvives) {
  CrashEverywhere([](FakeDisk&) {}, [](FakeDisk& disk) { return Open(disk); });
}

TEST(NodeIdentityCrashTest, ATakenCacheIsTheOldOrTheNewNodes) {
  CrashEverywhere([](FakeDisk& disk) { IdOf(disk); }, [](FakeDisk& disk) { return Open(disk, "node8", true); });
}

TEST(NodeIdentityCrashTest, ADamagedRecordIsReplaced) {
  CrashEverywhere(
      [](FakeDisk& disk) {
        ASSERT_OK(MakeDirectories(disk, kFolder));
        Put(disk, kPath, "damaged");
      },
      [](FakeDisk& disk) { return Open(disk); });
}

TEST_F(NodeIdentityTest, FailuresAreAnswersNotNewIds) {
  const std::string id = IdOf(disk_);
  for (const FakeOp op : {FakeOp::kOpen, FakeOp::kRead, FakeOp::kFileInfo, FakeOp::kInfo}) {
    disk_.FailOn({.op = op, .status = absl::UnavailableError("EIO")});
    EXPECT_STATUS(StatusCode::kUnavailable, Open(disk_), "EIO");
    disk_.ClearFaults();
  }
  EXPECT_EQ(IdOf(disk_), id);
}

TEST_F(NodeIdentityTest, WhatCannotBeACacheAUserOrANodeIsRefused) {
  const auto open = [&](const char* cache, std::string_view user, std::string_view host) {
    return OpenNode(disk_, cache, user, host, false).status().code();
  };
  EXPECT_EQ(open("c", "ana", "node7"), StatusCode::kInvalidArgument);
  for (const char* user : {"", ".", "..", "a/b"}) EXPECT_EQ(open("/c", user, "node7"), StatusCode::kInvalidArgument);
  for (const std::string& host : {std::string(), std::string("a\nb"), std::string(65, 'h')}) {
    EXPECT_EQ(open("/c", "ana", host), StatusCode::kInvalidArgument) << host;
  }
  EXPECT_EQ(open("/c", "ana", std::string(64, 'h')), StatusCode::kOk);
}

TEST_F(NodeIdentityTest, AFolderThatIsALinkIsRefused) {
  ASSERT_OK(MakeDirectories(disk_, "/elsewhere"));
  ASSERT_OK(MakeDirectories(disk_, "/c"));
  ASSERT_OK(disk_.Symlink("/elsewhere", kFolder));
  EXPECT_STATUS(StatusCode::kPermissionDenied, Open(disk_), "/c/ana: is no directory");
}

}  // namespace
}  // namespace cairn
