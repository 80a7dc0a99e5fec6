// What CAIRN_LOG has the library tell.
#include <stdlib.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "tests/client/played_session.h"

namespace cairn {
namespace {

class LogTest : public PlayedSessionTest {
 protected:
  ~LogTest() override { unsetenv("CAIRN_LOG"); }

  // Of one checkpoint of nothing, for which the daemon takes its time before the begin and before the commit.
  std::string ToldOfACheckpoint() {
    cairn_session* session = Open([](FakePeer& peer) {
      const local::Request begin = peer.Expect(local::Request::kBegin);
      std::this_thread::sleep_for(std::chrono::milliseconds(60));
      local::Reply begun, committed;
      begun.mutable_begin()->set_dataset(7);
      begun.mutable_begin()->mutable_plan();
      peer.Answer(begin, std::move(begun));
      const local::Request commit = peer.Expect(local::Request::kCommit);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      committed.mutable_committed()->set_dataset(7);
      peer.Answer(commit, std::move(committed));
    });
    testing::internal::CaptureStderr();
    EXPECT_EQ(cairn_checkpoint(session, 5, nullptr), CAIRN_OK);
    const std::string told = testing::internal::GetCapturedStderr();
    daemon_.Join();
    cairn_close(session);
    return told;
  }
};

TEST_F(LogTest, InfoTellsWhereACheckpointsTimeWent) {
  setenv("CAIRN_LOG", "info", 1);
  const std::string told = ToldOfACheckpoint();
  double all = 0, waited = 0, copied = 0, committed = 0;
  const auto at = told.find("dataset 7, step 5: 0 bytes");
  ASSERT_NE(at, told.npos) << told;
  ASSERT_EQ(std::sscanf(told.c_str() + at,
                        "dataset 7, step 5: 0 bytes captured in %lf ms: waited %lf, copied %lf, committed %lf", &all,
                        &waited, &copied, &committed),
            4)
      << told;
  EXPECT_GE(waited, 59);
  EXPECT_GE(committed, 19);
  EXPECT_NEAR(all, waited + copied + committed, 0.01);
}

TEST_F(LogTest, NothingIsToldUnasked) {
  EXPECT_EQ(ToldOfACheckpoint(), "");
}

}  // namespace
}  // namespace cairn
