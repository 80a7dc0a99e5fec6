// What a worker had only captured when it was killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "storage/base/unique_fd.h"
#include "tests/integration/users_fixture.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

class CrashTest : public UsersTest {
 protected:
  static constexpr std::size_t kWords = 24 << 20;  // 192 MiB: their way to the disk takes some time

  void SetUp() override {
    UsersTest::SetUp();
    if (IsSkipped()) return;
    std::ofstream(folder_ + "/cairnd.toml")
        << "[supervisor]\nuid_min = 2\n[image]\nbytes_max = \"512MiB\"\n[lease]\nterm = \"1s\"\n";
  }

  // Runs as the user, one of `nranks` ranks: opens, restores `expected` (0: there is nothing), and, if `crash` is
  // given, checkpoints the next step, calls it as soon as that is captured, and waits until it is local. 0, or the
  // line.
  int Crash(uid_t user, int rank, int nranks, std::uint64_t expected, const std::function<void()>& crash) const {
    const std::string address = "unix:" + folder_ + "/run/cairnd.sock", prefix = PrefixOf(user);
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address.c_str();
    options.prefix = prefix.c_str();
    options.rank = rank, options.nranks = nranks;
    options.launch = expected == 0 ? "first" : "second";
    options.deadline_ms = 60'000;
    cairn_session* session = nullptr;
    const auto failed = [&](int line) {
      std::cerr << "rank " << rank << ", line " << line << ": " << cairn_error(session) << std::endl;
      return line % 200 + 10;
    };
    if (cairn_open(&options, &session) != CAIRN_OK) return failed(__LINE__);
    std::uint64_t step = 0;
    std::vector<std::uint64_t> field(kWords / nranks);
    cairn_protect_value(session, 1, "step", &step, 1, CAIRN_UINT64);
    cairn_protect(session, 2, field.data(), field.size(), CAIRN_UINT64);
    const int code = cairn_resume(session, nullptr);
    if (code != (expected == 0 ? CAIRN_NOT_FOUND : CAIRN_OK) || step != expected) return failed(__LINE__);
    for (std::size_t i = 0; expected != 0 && i < field.size(); ++i) {
      if (field[i] != i * 3 + step + rank) return failed(__LINE__);
    }
    if (crash) {
      std::uint64_t dataset = 0;
      ++step;
      for (std::size_t i = 0; i < field.size(); ++i) field[i] = i * 3 + step + rank;
      if (cairn_checkpoint(session, step, &dataset) != CAIRN_OK) return failed(__LINE__);
      crash();
      if (cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 60'000) != CAIRN_OK) return failed(__LINE__);
    }
    if (cairn_close(session) != CAIRN_OK) return failed(__LINE__);
    return 0;
  }

  std::string WorkersLog() const { return ReadLog("run/" + std::to_string(kAlice) + "/cairnd.log"); }
};

// The worker is killed by its user the moment that the call has returned.
TEST_F(CrashTest, WhatWasOnlyCapturedOutlivesItsWorker) {
  Start({"--flush-every", "0"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 0, 0); }), 0);  // there is a worker
  const auto worker = static_cast<pid_t>(Workers().at(kAlice).pid);
  EXPECT_EQ(As(kAlice, [&] { return Crash(kAlice, 0, 1, 0, [&] { ::kill(worker, SIGKILL); }); }), 0);
  EXPECT_THAT(WorkersLog(), HasSubstr("(step 1, launch 2), which the last daemon had captured, is taken up"));
  EXPECT_EQ(Workers().at(kAlice).lost, 1u);
  EXPECT_EQ(As(kAlice, [&] { return Crash(kAlice, 0, 1, 1, nullptr); }), 0) << "bit for bit";
}

// All ranks have told each other that they have captured when one of them kills it.
TEST_F(CrashTest, WhatAllRanksHadCapturedIsTakenUpTogether) {
  Start({"--flush-every", "0"});
  EXPECT_EQ(As(kAlice, [&] { return Work(kAlice, 0, 0, 0); }), 0);
  const auto worker = static_cast<pid_t>(Workers().at(kAlice).pid);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  const pid_t other =
      Begin(kAlice, [&] { return Crash(kAlice, 1, 2, 0, [&] { EXPECT_EQ(::write(writer.get(), "x", 1), 1); }); });
  EXPECT_EQ(As(kAlice,
               [&] {
                 return Crash(kAlice, 0, 2, 0, [&] {
                   char byte = 0;
                   EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
                   ::kill(worker, SIGKILL);
                 });
               }),
            0);
  EXPECT_EQ(End(other), 0);
  EXPECT_THAT(WorkersLog(), HasSubstr("is taken up"));
  const pid_t again = Begin(kAlice, [&] { return Crash(kAlice, 1, 2, 1, nullptr); });
  EXPECT_EQ(As(kAlice, [&] { return Crash(kAlice, 0, 2, 1, nullptr); }), 0);
  EXPECT_EQ(End(again), 0);
}

}  // namespace
}  // namespace cairn::testing
