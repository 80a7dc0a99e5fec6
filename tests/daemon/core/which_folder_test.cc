// Which folder is the one that is redundant itself, and when a next launch looks into it: README.md of daemon/core, "A
// folder that is redundant itself".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/status.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundant_tier_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WhichFolderTest : public RedundantTierFixture, public ::testing::WithParamInterface<int> {
 protected:
  WhichFolderTest() : RedundantTierFixture(GetParam()) {}
};

INSTANTIATE_TEST_SUITE_P(Nodes, WhichFolderTest, ::testing::Values(1, 3));

// --- Its file system is not mounted: the place of the mount is a folder of this node's own disk ---

TEST_P(WhichFolderTest, AFolderOnTheDeviceOfTheRootIsNotUsedUnlessTheSiteSaysSo) {
  ASSERT_OK(nodes.prefix.MakeDirectory("/plain", 0755));
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.path = "/plain";
  RedundancyTest::Start("single");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Local(5);
  nodes.Pass(std::chrono::seconds(30));
  EXPECT_FALSE(IsRedundant(id));
  EXPECT_THAT(nodes[0].Warnings(),
              HasSubstr("/plain: is on the device of /, and protects from nothing; is it mounted?"));
  EXPECT_THAT(*nodes.prefix.List("/plain"), IsEmpty());
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.apart = false;
  nodes.StartAll();
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
}

TEST_P(WhichFolderTest, OnceUsedAnEmptyOneIsNotTakenForIt) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId id = Redundant(5);
  ASSERT_OK(nodes.prefix.Rename(kRoot, "/away"));
  ASSERT_NO_FATAL_FAILURE(MountAt(kRoot));  // another file system has the place of the mount
  DatasetId next = Local(6);
  const auto expect_unused = [&] {
    nodes.Pass(std::chrono::seconds(30));
    EXPECT_FALSE(IsRedundant(next));
    EXPECT_THAT(nodes[0].Warnings(), HasSubstr("lacks the mark of the folder that this run has used"));
    EXPECT_THAT(*nodes.prefix.List(kRoot), IsEmpty());
  };
  expect_unused();
  EXPECT_TRUE(IsRedundant(id)) << "it is where it was";
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  nodes.StartAll();  // and know nothing of it
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("what is in /burst (redundant.path) is not known")) << "not: nothing";
  next = Local(7);
  expect_unused();
  ASSERT_OK(nodes.prefix.Remove(kRoot));
  ASSERT_OK(nodes.prefix.Rename("/away", kRoot));
  EXPECT_SAYS(clients[0]->Wait(next, local::REDUNDANT), local::OK, "");
  LoseAllCaches();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(next, 7, local::TIER_REDUNDANT);
}

// Another one is used when its user has taken the note away; or always, where each job has a new one.
TEST_P(WhichFolderTest, ANewOneIsUsedIfSomebodySaysSo) {
  Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId older = Redundant(5);
  ASSERT_OK(nodes.prefix.Rename(kRoot, "/away"));
  ASSERT_NO_FATAL_FAILURE(MountAt(kRoot));
  const DatasetId id = Local(6);
  nodes.Pass(std::chrono::seconds(30));
  ASSERT_FALSE(IsRedundant(id));
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, nodes.prefix.List("/pfs/run/.cairn"));
  for (const std::string& name : names) {
    if (!name.starts_with("redundant.")) continue;
    EXPECT_THAT(nodes[0].Warnings(), HasSubstr("noted in /pfs/run/.cairn/" + name));
    ASSERT_OK(nodes.prefix.Remove("/pfs/run/.cairn/" + name));
  }
  EXPECT_SAYS(clients[0]->Wait(id, local::REDUNDANT), local::OK, "");
  EXPECT_THAT(nodes[0].Warnings(),
              HasSubstr("dataset " + std::to_string(older) + " (step 5) is not in /burst (redundant.path) any more"));
  ASSERT_OK(nodes.prefix.Rename(kRoot, "/away.2"));
  ASSERT_NO_FATAL_FAILURE(MountAt(kRoot));
  clients.clear();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].Kill();
  for (int i = 0; i < nodes.count(); ++i) nodes[i].config.redundant.marked = false;
  nodes.StartAll();
  nodes.Pass(std::chrono::minutes(1));
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.2"));
  Redundant(7);
}

// --- What comes there while the next launch begins on another node ---

class NextHomeTest : public RedundantTierFixture {
 protected:
  NextHomeTest() : RedundantTierFixture(2) {}
};

TEST_F(NextHomeTest, WhatIsJustComingThereIsWaitedFor) {
  Start();
  for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = 0;
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const DatasetId older = Redundant(4);
  nodes[0].Hang(std::string(kRoot) + " (redundant.path)");
  const DatasetId id = Local(5);
  nodes.files.served.erase(nodes[0].address());  // from its cache nobody gets it
  Close();
  for (Rank rank = 0; rank < kMany; ++rank) moved_to[rank] = 1;
  FakeClient next(nodes[1]);
  local::Request open;
  open.mutable_open()->set_prefix(SimulatedNodes::kPrefix);
  open.mutable_open()->set_nranks(kMany);
  open.mutable_open()->set_launch_key("job.2");
  const std::uint64_t call = next.Send(open);
  nodes.Pass(std::chrono::seconds(15));
  EXPECT_FALSE(next.HasReply(call)) << "dataset " << id << " would not be found, and " << older << " be chosen";
  nodes[0].Hang("");
  ASSERT_TRUE(nodes.AdvanceUntil([&] { return next.HasReply(call); }));
  next.Drop();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.3"));
  ExpectBack(id, 5, local::TIER_REDUNDANT);
}

}  // namespace
}  // namespace cairn
