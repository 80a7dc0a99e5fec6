// A daemon's core whose clocks the test turns, and clients that ask whether to stop and whether to checkpoint.
#ifndef CAIRN_TESTS_DAEMON_CORE_STEERING_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_STEERING_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "storage/format/scr/records.h"
#include "storage/place/prefix/halt_file.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {

inline const Memory kMemory = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 100'000))};
inline constexpr std::int64_t kNowS = 2'000'000'000;

inline std::uint64_t SendExit(FakeClient& client, std::uint64_t number, std::uint32_t deadline_ms = 0) {
  local::Request request;
  request.set_deadline_ms(deadline_ms);
  request.mutable_should_exit()->set_number(number);
  return client.Send(std::move(request));
}

inline local::Reply Exit(FakeClient& client, std::uint64_t number, std::uint32_t deadline_ms = 0) {
  return client.Next(SendExit(client, number, deadline_ms));
}

inline local::Reply Need(FakeClient& client, std::uint64_t number) {
  local::Request request;
  request.mutable_need_checkpoint()->set_number(number);
  return client.Ask(std::move(request));
}

inline ClientOptions On(const std::string& host) {
  ClientOptions options;
  options.peer.host = host;
  return options;
}

class SteeringTest : public ::testing::Test {
 protected:
  SteeringTest() {
    harness_.clocks.steady = [this] {
      return std::chrono::steady_clock::time_point(std::chrono::milliseconds(steady_ms_));
    };
    harness_.clocks.wall = [this] {
      return std::chrono::system_clock::time_point(std::chrono::milliseconds(wall_ms_));
    };
  }
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  void Pass(std::chrono::milliseconds time) {
    steady_ms_ += time.count();
    wall_ms_ += time.count();
  }
  // As `cairn halt` does; the daemon sees it at its next look.
  void Halt(const std::function<void(scr::Halt&)>& change) {
    ASSERT_TRUE(ChangeHalt(prefix_disk_, harness_.prefix(), change, std::chrono::seconds(10)).ok());
    Pass(std::chrono::seconds(1));
  }
  scr::Halt Found() {
    const auto halt = ReadHalt(prefix_disk_, harness_.prefix());
    EXPECT_TRUE(halt.ok()) << halt.status();
    return halt.value_or(scr::Halt());
  }
  bool ExitSays(FakeClient& client, std::uint64_t number, const std::string& why = "") {
    const local::Reply reply = Exit(client, number);
    EXPECT_SAYS(reply, local::OK, "");
    EXPECT_TRUE(!reply.should_exit().yes() || reply.should_exit().why().find(why) != std::string::npos)
        << reply.should_exit().why();
    return reply.should_exit().yes();
  }
  bool NeedSays(FakeClient& client, std::uint64_t number) {
    const local::Reply reply = Need(client, number);
    EXPECT_SAYS(reply, local::OK, "");
    EXPECT_EQ(reply.need_checkpoint().yes(), !reply.need_checkpoint().why().empty());
    return reply.need_checkpoint().yes();
  }
  // Holds the application up for `cost`.
  DatasetId CheckpointFor(FakeClient& client, std::uint64_t step, std::chrono::milliseconds cost) {
    EXPECT_SAYS(client.Begin(step, kMemory), local::OK, "");
    EXPECT_TRUE(client.Fill(kMemory));
    Pass(cost);
    const local::Reply done = client.Commit();
    EXPECT_SAYS(done, local::OK, "");
    return done.committed().dataset();
  }
  int Warnings(const std::string& part) {
    const admin::StatusReply status = harness_.Status();
    return static_cast<int>(
        std::count_if(status.warnings().begin(), status.warnings().end(),
                      [&](const std::string& warning) { return warning.find(part) != std::string::npos; }));
  }
  int WholeCheckpoints() {
    int whole = 0;
    for (const admin::DatasetRow& row : harness_.List()) whole += row.level() >= local::LOCAL ? 1 : 0;
    return whole;
  }

  FakeDisk cache_disk_, prefix_disk_;
  CoreHarness harness_{&cache_disk_, &prefix_disk_};
  std::atomic<std::int64_t> steady_ms_{5'000'000}, wall_ms_{kNowS * 1000};
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_STEERING_FIXTURE_H_
