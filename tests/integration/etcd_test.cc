// Two nodes, each with a daemon and a cache of its own, one prefix, and a real etcd that decides which of them was
// first. The embedded way, where the prefix decides, is what all other tests run with.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "client/cairn.h"
#include "tests/integration/harness.h"
#include "tests/support/etcd.h"

namespace cairn::testing {
namespace {

using ::testing::HasSubstr;

// One rank of a launch of its own.
class Rank {
 public:
  Rank(const Harness& node, std::string prefix, std::string launch)
      : address_(node.address()), prefix_(std::move(prefix)), launch_(std::move(launch)) {}
  ~Rank() { Close(); }
  Rank(const Rank&) = delete;

  int Open(std::uint32_t deadline_ms = 60'000, bool takeover = false) {
    cairn_options options = CAIRN_OPTIONS_INIT;
    options.address = address_.c_str();
    options.prefix = prefix_.c_str();
    options.launch = launch_.c_str();
    options.nranks = 1;
    options.deadline_ms = deadline_ms;
    options.takeover = takeover ? 1 : 0;
    const int code = cairn_open(&options, &session_);
    if (code != CAIRN_OK) error_ = cairn_error(nullptr);
    return code;
  }
  void Close() {
    if (session_ == nullptr) return;
    cairn_close(session_);  // its daemon may be dead
    session_ = nullptr;
  }
  const std::string& error() const { return error_; }

  // On the prefix when it returns.
  void Checkpoint(std::uint64_t step) {
    value_ = step;
    ASSERT_EQ(cairn_protect(session_, 1, &value_, 1, CAIRN_UINT64), CAIRN_OK) << cairn_error(session_);
    std::uint64_t dataset = 0;
    ASSERT_EQ(cairn_checkpoint(session_, step, &dataset), CAIRN_OK) << cairn_error(session_);
    ASSERT_EQ(cairn_wait(session_, dataset, CAIRN_LEVEL_PREFIX, 60'000), CAIRN_OK) << cairn_error(session_);
  }
  // From where a restart goes on; 0: from the beginning.
  std::uint64_t Resume() {
    EXPECT_EQ(cairn_protect(session_, 1, &value_, 1, CAIRN_UINT64), CAIRN_OK) << cairn_error(session_);
    std::uint64_t step = 0;
    const int code = cairn_resume(session_, &step);
    EXPECT_THAT(code, ::testing::AnyOf(CAIRN_OK, CAIRN_NOT_FOUND)) << cairn_error(session_);
    if (code != CAIRN_OK) return 0;
    EXPECT_EQ(value_, step);
    return step;
  }

 private:
  const std::string address_, prefix_, launch_;
  cairn_session* session_ = nullptr;
  std::uint64_t value_ = 0;
  std::string error_;
};

class EtcdTest : public ::testing::Test {
 protected:
  void Start(std::size_t members = 1) {
    etcd_ = Etcd::Start({.members = members});
    ASSERT_NE(etcd_, nullptr);
    for (Harness& node : nodes_) {
      ASSERT_TRUE(
          node.StartDaemon({"--arbiter-kind", "etcd", "--arbiter-endpoints", endpoints(), "--lease-term", "2s"}));
    }
  }
  std::string endpoints() const { return fmt::format("{}", fmt::join(etcd_->endpoints(), ",")); }
  std::string prefix() const { return nodes_[0].prefix(); }
  std::unique_ptr<Rank> At(std::size_t node, const std::string& launch) const {
    return std::make_unique<Rank>(nodes_[node], prefix(), launch);
  }
  Ending Cairn(std::vector<std::string> arguments) const {
    Process::Options options = nodes_[0].Client("client/cli/cairn", std::move(arguments));
    options.environment["CAIRN_CONFIG"] = nodes_[0].folder() + "/cairnd.toml";
    return RunProcess(options);
  }

  std::unique_ptr<Etcd> etcd_;
  std::array<Harness, 2> nodes_;
};

TEST_F(EtcdTest, OfTwoThatRaceForALaunchOneHasItAndTheOtherIsBusy) {
  Start();
  constexpr int kRounds = 5;
  for (int round = 1; round <= kRounds; ++round) {
    const auto a = At(0, fmt::format("a{}", round)), b = At(1, fmt::format("b{}", round));
    auto opening = std::async(std::launch::async, [&] { return a->Open(); });
    const int of_b = b->Open(), of_a = opening.get();
    EXPECT_TRUE((of_a == CAIRN_OK) != (of_b == CAIRN_OK)) << of_a << " " << a->error() << "\n"
                                                          << of_b << " " << b->error();
    const auto& first = of_a == CAIRN_OK ? a : b;
    EXPECT_THAT(std::vector<int>({of_a, of_b}), ::testing::Contains(CAIRN_BUSY));
    EXPECT_EQ(first->Resume(), static_cast<std::uint64_t>(round - 1));
    first->Checkpoint(static_cast<std::uint64_t>(round));
    first->Close();
  }
  const Ending shown = Cairn({"run", "show", prefix()});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.output, HasSubstr(fmt::format("launch    {} on", kRounds)));
  EXPECT_THAT(shown.output, HasSubstr("arbiter   etcd (" + endpoints()));
}

TEST_F(EtcdTest, AMemberThatDiesIsNotNoticed) {
  Start(3);
  const auto first = At(0, "a");
  ASSERT_EQ(first->Open(), CAIRN_OK) << first->error();
  first->Checkpoint(1);
  etcd_->Kill(etcd_->Leader());
  first->Checkpoint(2);
  nodes_[0].KillDaemon();  // its lease runs out
  const auto second = At(1, "b");
  ASSERT_EQ(second->Open(), CAIRN_OK) << second->error();
  EXPECT_EQ(second->Resume(), 2u);
}

// What works works on; who begins waits, and hears for what.
TEST_F(EtcdTest, WithoutAnyOnlyLaunchesWait) {
  Start();
  const auto first = At(0, "a");
  ASSERT_EQ(first->Open(), CAIRN_OK) << first->error();
  first->Checkpoint(1);
  etcd_->Kill(0);
  first->Checkpoint(2);
  const auto second = At(1, "b");
  EXPECT_NE(second->Open(3000, /*takeover=*/true), CAIRN_OK);
  EXPECT_THAT(second->error(), HasSubstr("127.0.0.1"));
  etcd_->StartAgain(0);
  EXPECT_EQ(second->Open(60'000, /*takeover=*/true), CAIRN_OK) << second->error();
  EXPECT_EQ(second->Resume(), 2u);
}

TEST_F(EtcdTest, DoctorAsksIt) {
  Start();
  nodes_[0].WriteSettings(fmt::format("[arbiter]\nkind = \"etcd\"\nendpoints = \"{}\"\n", endpoints()));
  EXPECT_THAT(Cairn({"doctor"}).output, HasSubstr("works    arbiter: etcd answers at " + endpoints()));
  etcd_->Kill(0);
  const Ending without = Cairn({"doctor"});
  EXPECT_EQ(without.exit_code, 1);
  EXPECT_THAT(without.output, HasSubstr("MISSING  arbiter: etcd: no answer within"));
}

TEST_F(EtcdTest, ADaemonOnTheDefaultsIsRefusedUntilTheRunIsChanged) {
  Start();
  {
    const auto first = At(0, "a");
    ASSERT_EQ(first->Open(), CAIRN_OK) << first->error();
    first->Checkpoint(1);
  }
  EXPECT_EQ(nodes_[0].StopDaemon().exit_code, 0);
  EXPECT_EQ(nodes_[1].StopDaemon().exit_code, 0);
  ASSERT_TRUE(nodes_[1].StartDaemon());
  const auto second = At(1, "b");
  EXPECT_EQ(second->Open(), CAIRN_FAILED_PRECONDITION);
  EXPECT_THAT(second->error(), HasSubstr("`cairn run arbiter " + prefix()));
  nodes_[0].WriteSettings(fmt::format("[arbiter]\nendpoints = \"{}\"\n", endpoints()));
  const Ending changed = Cairn({"run", "arbiter", prefix(), "prefix"});
  EXPECT_EQ(changed.exit_code, 0) << changed.output;
  EXPECT_THAT(changed.output, HasSubstr("the arbiter is prefix from now on"));
  EXPECT_EQ(second->Open(), CAIRN_OK) << second->error();
  EXPECT_EQ(second->Resume(), 1u);
}

}  // namespace
}  // namespace cairn::testing
