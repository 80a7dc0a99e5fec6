// What many users cost, and what each of them gets of the cache.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "storage/base/clock.h"
#include "storage/base/user_name.h"
#include "tests/integration/users_fixture.h"

namespace cairn::testing {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

// Kilobytes of a process that are its own, or its share of what others have, too.
long ShareOfMemory(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  for (std::string word; file >> word;) {
    if (word != "Pss:") continue;
    long kilobytes = 0;
    file >> kilobytes;
    return kilobytes;
  }
  return 0;
}

TEST_F(UsersTest, FiftyUsersAtOnce) {
  constexpr uid_t kFirst = 43'000, kCount = 50;
  const std::string passwd = folder_ + "/passwd";
  std::ofstream users(passwd);
  users << "root:x:0:0:root:/root:/bin/sh\n";
  for (uid_t user = kFirst; user < kFirst + kCount; ++user) {
    users << "u" << user << ":x:" << user << ":" << user << "::/:/bin/sh\n";
    ASSERT_EQ(::mkdir(PrefixOf(user).c_str(), 0700), 0);
    ASSERT_EQ(::chown(PrefixOf(user).c_str(), user, user), 0);
  }
  users.close();
  Start({}, "mount --bind \"$0/passwd\" /etc/passwd");
  const auto begin = SteadyNow();
  const auto ms = [&] { return std::chrono::duration_cast<milliseconds>(SteadyNow() - begin).count(); };
  std::vector<pid_t> clients;
  for (uid_t user = kFirst; user < kFirst + kCount; ++user) {
    clients.push_back(Begin(user, [&, user] { return Work(user, 0, 0, 0); }));
  }
  std::map<int, int> codes;
  std::vector<long> ended;
  for (const pid_t client : clients) {
    ++codes[End(client)];
    ended.push_back(ms());
  }
  EXPECT_EQ(codes[0], static_cast<int>(kCount));
  const auto workers = Workers();
  EXPECT_EQ(workers.size(), kCount);
  long memory = 0;
  for (const auto& [user, worker] : workers) memory += ShareOfMemory(static_cast<pid_t>(worker.pid));
  std::cout << kCount << " users at once, each opens a run for the first time: the first has done so after "
            << *std::ranges::min_element(ended) << " ms, the last after " << *std::ranges::max_element(ended) << " ms; "
            << memory / static_cast<long>(kCount) << " KiB for each worker, " << ShareOfMemory(daemon_->pid())
            << " KiB for the supervisor\n";
  const auto again = SteadyNow();
  EXPECT_EQ(As(kFirst, [&] { return Work(kFirst, 0, 0, 0); }), 0);
  std::cout << "one of them again: " << std::chrono::duration_cast<milliseconds>(SteadyNow() - again).count()
            << " ms\n";
}

// The cache on a file system of its own, of 160 MiB, of which 32 MiB stay free.
class UsersShareTest : public UsersTest {
 protected:
  static constexpr std::uint64_t kMiB = 1 << 20, kReserve = 32 * kMiB, kShare = 64 * kMiB;

  // `others`: what lies there besides, in MiB.
  void StartWithShares(int others, const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--cache-reserve",      "32MiB", "--supervisor-shares", "2",
                                      "--cache-keep",         "1000",  "--flush-every",       "0",
                                      "--ftiff-differential", "false"};
    flags.insert(flags.end(), more.begin(), more.end());
    Start(flags, fmt::format("mkdir -m 755 $0/cache && mount -t tmpfs -o size=160m,mode=755 cache $0/cache && "
                             "head -c {}M /dev/zero > $0/cache/others",
                             others));
  }
  // As the daemon sees it.
  std::uint64_t Free() const {
    struct statvfs info {};
    const std::string cache = fmt::format("/proc/{}/root{}/cache", daemon_->pid(), folder_);
    return ::statvfs(cache.c_str(), &info) == 0 ? std::uint64_t{info.f_bavail} * info.f_frsize : 0;
  }
};

TEST_F(UsersShareTest, AUserWhoFillsTheCacheLeavesTheOtherTheirShareAndTheReserve) {
  StartWithShares(0);
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 24, CAIRN_LEVEL_LOCAL); }), 0);  // three times her share
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_max == kShare; }));
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_used >= kShare - 16 * kMiB; }));
  EXPECT_LE(Workers()[kAlice].counters.cache_bytes_used, kShare);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 0, 7, CAIRN_LEVEL_LOCAL); }), 0);
  EXPECT_TRUE(Within([&] { return Workers()[kBob].counters.cache_bytes_used >= 7 * 8 * kMiB; }))
      << Workers()[kBob].counters.cache_bytes_used;
  EXPECT_GE(Free(), kReserve);
  EXPECT_THAT(ReadLog("run/6/cairnd.log"), Not(HasSubstr("is full")));
  EXPECT_THAT(ReadLog("run/6/cairnd.log"), HasSubstr("64MiB of the cache's file system, of which 32MiB stay free"));
}

TEST_F(UsersShareTest, AUserWithTwoSharesHasTwice) {
  StartWithShares(0, {"--supervisor-shares-of", AccountOf(kAlice)->name + "=2"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 12, CAIRN_LEVEL_LOCAL); }), 0);
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_max == 2 * kShare; }));
  EXPECT_TRUE(Within([&] { return Workers()[kAlice].counters.cache_bytes_used >= 12 * 8 * kMiB; }));
}

TEST_F(UsersShareTest, TheReserveHoldsWhoeverHasTakenTheRest) {
  StartWithShares(104, {"--flush-every", "1"});  // 24 MiB are left above the reserve: less than the share
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 6, CAIRN_LEVEL_PREFIX); }), 0)
      << "by way of the prefix, if need be";
  EXPECT_GE(Free(), kReserve);
  EXPECT_EQ(As(kBob, [&] { return Work(kBob, 0, 6, CAIRN_LEVEL_PREFIX); }), 0);
  EXPECT_GE(Free(), kReserve - kMiB) << "records are small";
}

}  // namespace
}  // namespace cairn::testing
