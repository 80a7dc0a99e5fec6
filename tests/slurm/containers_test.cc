// Jobs that have a /tmp and a /dev/shm of their own (job_container/tmpfs).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/slurm/slurm_fixture.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

const bool kWithContainers = [] {
  OneSite::more = "PrologFlags=Contain\nJobContainerType=job_container/tmpfs\n";
  return true;
}();

class ContainersTest : public SlurmTest {
 protected:
  // Submits the job until `begun` says that its script has begun, at most three times. Slurm 22.05 sometimes does not
  // find the namespace that it has made for a job, and ends it before that.
  bool Begins(const std::string& script, const std::function<bool(int job)>& begun) {
    for (int tries = 0; tries < 3; ++tries) {
      jobs_.push_back(site().Submit("alice", "-N1 -n2 -w n2 " + script));
      if (begun(jobs_.back())) return true;
      const std::string said = site().OutputOf("alice", jobs_.back());
      if (said.find("container_p_join: open failed") == std::string::npos || !site().AwaitIdle(2)) return false;
    }
    return false;
  }
};

TEST_F(ContainersTest, AJobWithATmpOfItsOwnReachesTheDaemonAndGoesOn) {
  ASSERT_TRUE(kWithContainers);
  const std::string name = "/tmp" + site().folder().substr(site().folder().rfind('/'));
  site().AsRoot(2, "touch " + name + ".node");
  const std::string script = Script("export CAIRN_PREFIX=" + PrefixOf() + "\nls " + name + ".node /dev/shm\ntouch " +
                                    name + ".job\nsrun solver --log " + LogOf() + " --steps 100000");
  ASSERT_TRUE(Begins(script, [this](int) { return AwaitEvent(LogOf(), "captured", 10); }));
  EXPECT_THAT(site().OutputOf("alice", jobs_.back()), HasSubstr("cannot access '" + name + ".node'"));
  EXPECT_NE(site().AsRoot(2, "ls " + name + ".job").exit_code, 0);
  site().AsRoot(2, "rm " + name + ".node");
  site().As("alice", "scancel " + std::to_string(jobs_.back()));
  EXPECT_EQ(site().AwaitState(jobs_.back(), {"CANCELLED"}), "CANCELLED");
  EXPECT_TRUE(site().AwaitIdle(2));
  const std::uint64_t newest = NewestCaptured(LogOf());
  const std::string again = Script("export CAIRN_PREFIX=" + PrefixOf() + "\nsrun solver --log " + LogOf() +
                                   " --steps " + std::to_string(newest + 2));
  EXPECT_TRUE(Begins(again, [this](int job) {
    return site().AwaitState(job, {"COMPLETED", "FAILED"}) == "COMPLETED";
  }));
  const auto resumed = EventsNamed(LogOf(), "resumed");
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_GE(resumed[0].numbers.at(0), newest);
  Show("alice", jobs_.back(), {2});
}

}  // namespace
}  // namespace cairn::testing
