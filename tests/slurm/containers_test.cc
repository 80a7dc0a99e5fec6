// Jobs that have a /tmp and a /dev/shm of their own (job_container/tmpfs).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  // How a job ends that follows another one on its node. Slurm 22.05 sometimes does not find the namespace that it has
  // made for such a job, and ends it before the script begins: then it is submitted once more.
  std::string StateOfNext(const std::string& script) {
    std::string state;
    for (int tries = 0; tries < 2; ++tries) {
      jobs_.push_back(site().Submit("alice", "-N1 -n2 -w n2 " + Script(script)));
      state = site().AwaitState(jobs_.back(), {"COMPLETED", "FAILED"});
      if (site().OutputOf("alice", jobs_.back()).find("container_p_join: open failed") == std::string::npos) break;
      EXPECT_TRUE(site().AwaitIdle(2));
    }
    return state;
  }
};

TEST_F(ContainersTest, AJobWithATmpOfItsOwnReachesTheDaemonAndGoesOn) {
  ASSERT_TRUE(kWithContainers);
  const std::string name = "/tmp" + site().folder().substr(site().folder().rfind('/'));
  site().AsRoot(2, "touch " + name + ".node");
  const std::string script = Script("export CAIRN_PREFIX=" + PrefixOf() + "\nls " + name + ".node /dev/shm\ntouch " +
                                    name + ".job\nsrun solver --log " + LogOf() + " --steps 100000");
  jobs_.push_back(site().Submit("alice", "-N1 -n2 -w n2 " + script));
  ASSERT_TRUE(AwaitEvent(LogOf(), "captured", 10));
  EXPECT_THAT(site().OutputOf("alice", jobs_.back()), HasSubstr("cannot access '" + name + ".node'"));
  EXPECT_NE(site().AsRoot(2, "ls " + name + ".job").exit_code, 0);
  site().AsRoot(2, "rm " + name + ".node");
  site().As("alice", "scancel " + std::to_string(jobs_.back()));
  EXPECT_EQ(site().AwaitState(jobs_.back(), {"CANCELLED"}), "CANCELLED");
  EXPECT_TRUE(site().AwaitIdle(2));
  const std::uint64_t newest = NewestCaptured(LogOf());
  EXPECT_EQ(StateOfNext("export CAIRN_PREFIX=" + PrefixOf() + "\nsrun solver --log " + LogOf() + " --steps " +
                        std::to_string(newest + 2)),
            "COMPLETED");
  const auto resumed = EventsNamed(LogOf(), "resumed");
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_GE(resumed[0].numbers.at(0), newest);
  Show("alice", jobs_.back(), {2});
}

}  // namespace
}  // namespace cairn::testing
