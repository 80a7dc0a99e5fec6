#include "client/cli/all_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "storage/base/status.h"
#include "tests/support/strangers_socket.h"

namespace cairn::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Sent(std::uint32_t rows, const WorkerStatus& row) {
  const SupervisorStatus head{.magic = kStatusMagic,
                              .row_bytes = sizeof(WorkerStatus),
                              .rows = rows,
                              .pid = 7,
                              .uptime_ms = 61'000,
                              .workers = 1,
                              .workers_max = 5};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  for (std::uint32_t i = 0; i < rows; ++i) bytes.append(reinterpret_cast<const char*>(&row), sizeof row);
  return bytes;
}

TEST(AllUsersTest, WhatIsCutOrChangedIsNotUnderstood) {
  const std::string whole = Sent(2, {});
  ASSERT_TRUE(ParseAllUsers(whole).ok());
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(ParseAllUsers(whole.substr(0, n)).status().code(), absl::StatusCode::kDataLoss) << n;
  }
  EXPECT_FALSE(ParseAllUsers(whole + "x").ok());
  for (std::size_t n = 0; n < 12; ++n) {
    std::string flipped = whole;
    flipped[n] = static_cast<char>(flipped[n] ^ 0x40);
    EXPECT_FALSE(ParseAllUsers(flipped).ok()) << n;
  }
}

// A supervisor that was not restarted yet since the command is a newer one.
TEST(AllUsersTest, AnOlderSupervisorCountsNoDrains) {
  constexpr std::size_t kOlder = sizeof(WorkerStatus) - 3 * sizeof(std::uint64_t);
  WorkerStatus row{};
  row.lost = 9;
  row.counters.image_bytes_max = 5;
  row.counters.drains = 1;
  std::string sent = Sent(0, {});
  const std::uint32_t row_bytes = kOlder, rows = 2;
  std::memcpy(sent.data() + offsetof(SupervisorStatus, row_bytes), &row_bytes, sizeof row_bytes);
  std::memcpy(sent.data() + offsetof(SupervisorStatus, rows), &rows, sizeof rows);
  for (int i = 0; i < 2; ++i) sent.append(reinterpret_cast<const char*>(&row), kOlder);
  const auto all = ParseAllUsers(sent);
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->workers.size(), 2u);
  EXPECT_EQ(all->workers[1].lost, 9u);
  EXPECT_EQ(all->workers[1].counters.image_bytes_max, 5u);
  EXPECT_EQ(all->workers[1].counters.drains, 0u);
  EXPECT_FALSE(ParseAllUsers(sent + "x").ok());
}

TEST(AllUsersTest, AnyNumbersOfAWorkerCanBeShown) {
  WorkerStatus row;
  std::memset(&row, 0xff, sizeof row);
  const auto all = ParseAllUsers(Sent(1, row));
  ASSERT_TRUE(all.ok());
  EXPECT_THAT(DescribeAllUsers(*all), HasSubstr("18446744073709551615"));
  EXPECT_THAT(Dump(ToJson(*all)), HasSubstr("18446744073709551615"));
}

TEST(AllUsersTest, StatesHaveNames) {
  WorkerStatus row{};
  const auto state = [&] { return DescribeAllUsers(*ParseAllUsers(Sent(1, row))); };
  EXPECT_THAT(state(), HasSubstr("none"));
  row.waiting = 1;
  EXPECT_THAT(state(), HasSubstr("waits"));
  row.pause_ms = 1;
  EXPECT_THAT(state(), HasSubstr("pauses"));
  row.pid = 9;
  EXPECT_THAT(state(), HasSubstr("starts"));
  row.counters.ready = 1;
  EXPECT_THAT(state(), HasSubstr("idle"));
  row.counters.busy = 1;
  EXPECT_THAT(state(), HasSubstr("works"));
  row.ending = 1;
  EXPECT_THAT(state(), HasSubstr("ends"));
  EXPECT_THAT(state(), HasSubstr("cairnd of all users, pid 7, up 1 m 1 s; 1 of at most 5 workers"));
}

TEST(AllUsersTest, DrainsAreNumbersAndThoseThatFailAreTold) {
  WorkerStatus row{};
  row.counters.drains = 3;
  row.counters.drain_bytes_left = 77;
  EXPECT_THAT(DescribeAllUsers(*ParseAllUsers(Sent(1, row))), HasSubstr("DRAINS"));
  EXPECT_THAT(DescribeAllUsers(*ParseAllUsers(Sent(1, row))), Not(HasSubstr("failing")));
  row.counters.drains_failing = 2;
  const auto all = ParseAllUsers(Sent(1, row));
  EXPECT_THAT(DescribeAllUsers(*all), HasSubstr("  3 (2 failing)  "));
  const Json worker = ToJson(*all)["workers"][0];
  EXPECT_EQ(worker["drains"], 3);
  EXPECT_EQ(worker["drains_failing"], 2);
  EXPECT_EQ(worker["drain_bytes_left"], 77);
}

TEST(AllUsersTest, AStrangerIsNotBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  const testing::StrangersSocket stranger;
  EXPECT_EQ(AskSupervisor(stranger.path()).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(AskSupervisor("/nowhere/cairnd-status.sock").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(StatusSocketBeside("/run/cairn/cairnd-grpc.sock"), "/run/cairn/cairnd-status.sock");
}

}  // namespace
}  // namespace cairn::cli
