// `cairn job` as a prolog and an epilog run it, with a daemon that answers as it was told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>

#include "storage/base/clock.h"
#include "tests/client/cli/daemon_fixture.h"
#include "tests/client/cli/run_cairn.h"

namespace cairn {
namespace {

using nlohmann::json;
using testing::CairnRun;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class JobCommandTest : public testing::DaemonFixture {
 protected:
  void SetUp() override {
    DaemonFixture::SetUp();
    core_.status.mutable_runs(0)->set_job("17");
  }
  void Missed(std::uint64_t dataset) {
    admin::OnlyHere& one = *core_.leave.add_only_here();
    one.set_dataset(dataset);
    one.set_step(120);
    one.set_why("the prefix does not answer");
  }
  std::string run() const { return core_.status.runs(0).run(); }
};

TEST_F(JobCommandTest, BeginSaysWhoServesTheUser) {
  ExpectSaid(Run({"job", "begin"}), 0, "cairnd 4711 serves you here; its cache is /ssd/cache");
  EXPECT_EQ(json::parse(Run({"job", "begin", "--json"}).out)["pid"], 4711);
}

TEST_F(JobCommandTest, BeginWithoutADaemonFailsAtOnceAndOneThatIsGoingAwayIsGivenTime) {
  const auto begun = SteadyNow();
  ExpectSaid(testing::RunCairn({"--address", folder_ + "/nobody", "job", "begin", "--timeout", "10min"}), 3,
             "no daemon answers");
  EXPECT_LT(SteadyNow() - begun, std::chrono::seconds(20));
  core_.status.set_quiescing(true);
  ExpectSaid(Run({"job", "begin", "--timeout", "200ms"}), 3, "the daemon is going away");
  EXPECT_GT(core_.status_count, 1);
}

TEST_F(JobCommandTest, EndOrdersWhatWouldBeMissedAndStaysForNothing) {
  Missed(17);
  ExpectSaid(Run({"job", "end", "17"}), 0,
             "/scratch/?[31mheat: dataset 17 (step 120) is not on the prefix yet: the prefix does not answer\n");
  EXPECT_THAT(core_.asked(), ElementsAre("leave " + run() + " to the prefix"));
}

TEST_F(JobCommandTest, EndLeavesOtherJobsRunsAlone) {
  Missed(17);
  ExpectSaid(Run({"job", "end", "18"}), 0, "job 18 has left nothing here that is not on the prefix\n");
  core_.status.mutable_runs(0)->set_job("");
  ExpectSaid(Run({"job", "end", "17"}), 0, "job 17 has left nothing here that is not on the prefix\n");
  EXPECT_THAT(core_.asked(), IsEmpty());
  ExpectSaid(Run({"job", "end", "17;18"}), 2, "is no number of a job");
  ExpectSaid(Run({"job", "end", ""}), 2, "is no number of a job");
}

TEST_F(JobCommandTest, EndSaysWhatIsInTheWayWhenTheTimeIsUp) {
  Missed(14);
  Missed(17);
  const CairnRun ended = Run({"job", "end", "17", "--wait", "--timeout", "50ms"});
  ExpectSaid(ended, 6, "dataset 14 (step 120) is not on the prefix yet: the prefix does not answer");
  ExpectSaid(ended, 6, "dataset 17 (step 120) is not on the prefix yet");
  const json told = json::parse(Run({"job", "end", "17", "--wait", "--timeout", "50ms", "--json"}).out);
  EXPECT_EQ(told["runs"][0]["not_on_prefix"][1]["dataset"], 17);
  EXPECT_EQ(told["runs"][0]["error"], "");
}

TEST_F(JobCommandTest, WhatTheDaemonRefusesIsAnErrorOfThatRun) {
  core_.leave.mutable_status()->set_code(local::UNAVAILABLE);
  core_.leave.mutable_status()->set_message("its home is away");
  ExpectSaid(Run({"job", "end", "17", "--wait", "--timeout", "50ms"}), 3, "heat: its home is away");
  core_.leave.mutable_status()->Clear();
  ExpectSaid(Run({"job", "end", "17", "--wait"}), 0, "has left nothing");
}

}  // namespace
}  // namespace cairn
