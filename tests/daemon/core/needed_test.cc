// What a daemon says of its work, by which the supervisor of many users knows whether it may end it: RunStatus.at_work,
// only_here.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/redundant_tier_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class NeededTest : public RedundantTierFixture {
 protected:
  NeededTest() : RedundantTierFixture(3) {}
  std::uint32_t AtWork(int node) { return StatusOf(node).at_work(); }
  std::uint32_t OnlyHere(int node) { return StatusOf(node).only_here(); }
  // They have gone, and what was under way has ended.
  void End() {
    Close();
    nodes.Pass(std::chrono::seconds(30));
  }

 private:
  admin::RunStatus StatusOf(int node) {
    const admin::StatusReply status = nodes[node].Status();
    EXPECT_EQ(status.runs_size(), 1);
    return status.runs_size() == 1 ? status.runs(0) : admin::RunStatus();
  }
};

TEST_F(NeededTest, WhatIsOnThePrefixIsNotNeededHere) {
  RedundancyTest::Start("partner");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  Redundant(5);
  const DatasetId newest = Redundant(6);
  ASSERT_NO_FATAL_FAILURE(End());
  for (int node = 0; node < nodes.count(); ++node) {
    EXPECT_EQ(OnlyHere(node), 2u) << node;
    EXPECT_EQ(AtWork(node), 0u) << node;
  }
  ASSERT_EQ(nodes[0].Flush(newest).code(), local::OK);
  nodes.Pass(std::chrono::seconds(30));
  for (int node = 0; node < nodes.count(); ++node) {
    EXPECT_EQ(OnlyHere(node), 0u) << node << ": the older one is of no use to a restart";
    EXPECT_EQ(AtWork(node), 0u) << node;
  }
}

TEST_F(NeededTest, WhatIsInTheFolderThatIsRedundantItselfIsNotNeededHere) {
  RedundantTierFixture::Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  Redundant(5);
  ASSERT_NO_FATAL_FAILURE(End());
  for (int node = 0; node < nodes.count(); ++node) EXPECT_EQ(OnlyHere(node), 0u) << node;
}

TEST_F(NeededTest, WhatIsYetToBecomeRedundantIsWorkThoughNobodyIsThere) {
  RedundancyTest::Start("partner");
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  const auto served = nodes.files.served;
  nodes.files.served.erase(nodes[2].address());  // nobody can read its files
  const DatasetId id = Checkpoint(5);
  for (const auto& client : clients) ASSERT_SAYS(client->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_NO_FATAL_FAILURE(End());
  EXPECT_EQ(AtWork(0), 1u) << "it is tried again";
  nodes.files.served = served;
  nodes.Pass(std::chrono::minutes(10));
  for (int node = 0; node < nodes.count(); ++node) EXPECT_EQ(AtWork(node), 0u) << node;
  EXPECT_NE(FindFile(nodes[0], id, "redundancy.cairn"), "");
}

// Of a copy that hangs in the folder the daemon lets go, and tries again.
TEST_F(NeededTest, WhatIsBeingBroughtToTheFolderIsWork) {
  RedundantTierFixture::Start();
  ASSERT_NO_FATAL_FAILURE(OpenMany("job.1"));
  Redundant(4);
  nodes[1].Hang(std::string(kRoot) + " (redundant.path)");
  const DatasetId id = Checkpoint(5);
  for (const auto& client : clients) ASSERT_SAYS(client->Wait(id, local::LOCAL), local::OK, "");
  Close();
  nodes.Pass(std::chrono::seconds(1));
  EXPECT_GE(AtWork(0), 1u);
  EXPECT_GE(AtWork(1), 1u) << "a node that only follows";
  nodes[1].Hang("");
  nodes.Pass(std::chrono::minutes(10));
  for (int node = 0; node < nodes.count(); ++node) EXPECT_EQ(AtWork(node), 0u) << node;
  EXPECT_TRUE(IsThere(id));
}

}  // namespace
}  // namespace cairn
