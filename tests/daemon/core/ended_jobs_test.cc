// Whether an older launch is waited for, if the batch system knows its job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/ended_jobs.h"
#include "tests/daemon/core/by_hand.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/launch_over_nodes.h"
#include "tests/daemon/core/simulated_nodes.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;

using EndedJobsTest = LaunchOverNodesTest;

// Its node is gone, with ranks and lease. The lease's term is two minutes.
TEST_F(EndedJobsTest, ALaunchWhoseJobIsOverIsNotWaitedFor) {
  std::vector<std::string> asked;
  bool over = true;
  for (int node : {0, 1}) nodes[node].config.call_ms_default = 600'000;
  const auto opens_after = [&](const std::string& key) {
    for (int node : {0, 1}) {
      if (nodes[node].running()) nodes[node].Kill();
    }
    nodes.job_is_over = [&](const std::string& job) {
      asked.push_back(job);
      return over;
    };
    nodes.StartAll();
    FakeClient first(nodes[0]);
    EXPECT_EQ(CodeOfReply(first.Open({.rank = 0, .nranks = 1, .key = "slurm:7.0.0", .takeover = true})), local::OK);
    nodes[0].Kill();
    first.HostDied();
    const auto begun = nodes.now();
    FakeClient second(nodes[1]);
    const local::Reply opened = second.Open({.rank = 0, .nranks = 1, .key = key});
    EXPECT_EQ(CodeOfReply(opened), local::OK) << opened.status().message();
    EXPECT_EQ(CodeOfReply(second.Close()), local::OK);
    return nodes.now() - begun;
  };
  EXPECT_LT(opens_after("slurm:8.0.0"), std::chrono::seconds(30));
  EXPECT_THAT(asked, ElementsAre("7"));
  EXPECT_GT(opens_after("slurm:7.1.0"), std::chrono::seconds(100)) << "another step of the same job";
  EXPECT_THAT(asked, ElementsAre("7"));
  over = false;
  EXPECT_GT(opens_after("slurm:8.0.0"), std::chrono::seconds(100));
  EXPECT_LE(asked.size(), 15u) << "it is asked at most once in ten seconds";
}

// The answer does not come, as from a program on a file system that hangs.
TEST(EndedJobsPatienceTest, AnAnswerThatDoesNotComeIsNotWaitedForNorAskedForAgain) {
  ByHand by_hand;
  int asked = 0;
  by_hand.job_is_over = [&asked](const std::string&) { return ++asked > 0; };
  EndedJobs jobs(by_hand.context);
  std::vector<bool> told;
  const auto ask = [&] { jobs.Ask("7", [&told](bool over) { told.push_back(over); }); };
  const auto pass = [&](std::chrono::seconds time) {  // on the strand alone
    by_hand.Turn(time);
    while (by_hand.strand.Step()) {
    }
  };
  ask();
  pass(std::chrono::seconds(4));
  EXPECT_THAT(told, ElementsAre());
  pass(std::chrono::seconds(2));
  EXPECT_THAT(told, ElementsAre(false));
  pass(std::chrono::seconds(60));
  ask();
  pass(std::chrono::seconds(0));
  EXPECT_THAT(told, ElementsAre(false, false));
  by_hand.RunAll();
  EXPECT_EQ(asked, 1);
  ask();
  by_hand.RunAll();
  EXPECT_THAT(told, ElementsAre(false, false, true)) << "it has come by now";
}

}  // namespace
}  // namespace cairn
