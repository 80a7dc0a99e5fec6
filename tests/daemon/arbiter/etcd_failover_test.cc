// Members that die, stop, or are cut off while arbiters work.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/arbiter/etcd_arbiter.h"
#include "storage/base/path.h"
#include "tests/daemon/arbiter/etcd_fixture.h"
#include "tests/integration/tcp_proxy.h"
#include "tests/support/etcd.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using testing::Etcd;
using testing::TcpProxy;

std::uint64_t Newest(const std::vector<std::string>& names) {
  std::uint64_t newest = 0;
  for (const std::string& name : names) newest = std::max(newest, NumberAfter(name, "launch.").value_or(0));
  return newest;
}

// Makes `count` launches, each the next above all there are, as nodes do. Those it was told are its own.
std::vector<std::string> MakeLaunches(Arbiter& arbiter, const std::string& by, int count) {
  std::vector<std::string> own;
  while (own.size() < static_cast<std::size_t>(count)) {
    const auto names = arbiter.Names();
    if (absl::IsUnavailable(names.status())) continue;
    EXPECT_OK(names);
    if (!names.ok()) return own;
    const std::string name = fmt::format("launch.{}", Newest(*names) + 1);
    const absl::Status made = arbiter.Create(name, by + " " + name);
    if (made.ok()) own.push_back(name);
    // Unavailable: it may be ours or not, the next listing tells.
    if (made.ok() || absl::IsAlreadyExists(made) || absl::IsUnavailable(made)) continue;
    ADD_FAILURE() << made.ToString();
    return own;
  }
  return own;
}

TEST(EtcdThreeTest, LaunchesGoOnWhenTheLeaderIsKilled) {
  constexpr int kNodes = 4, kEach = 12;
  const auto etcd = Etcd::Start({.members = 3});
  ASSERT_NE(etcd, nullptr);
  EtcdRun run(ClientOf(etcd->endpoints()));
  std::atomic<int> half = 0;
  std::vector<std::vector<std::string>> own(kNodes);
  std::vector<std::thread> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.emplace_back([&, i] {
      const auto arbiter = run.Make(ClientOf(etcd->endpoints()));
      own[i] = MakeLaunches(*arbiter, fmt::format("node {}", i), kEach / 2);
      ++half;
      half.notify_all();
      const auto more = MakeLaunches(*arbiter, fmt::format("node {}", i), kEach / 2);
      own[i].insert(own[i].end(), more.begin(), more.end());
    });
  }
  // In the middle: one of them is done with its first half, and goes on.
  half.wait(0);
  etcd->Kill(etcd->Leader());
  for (std::thread& node : nodes) node.join();

  std::map<std::string, int> makers;
  for (int i = 0; i < kNodes; ++i) {
    EXPECT_EQ(own[i].size(), static_cast<std::size_t>(kEach));
    for (const std::string& name : own[i]) {
      EXPECT_TRUE(makers.emplace(name, i).second) << name << " was decided twice";
      EXPECT_EQ(run.RecordOf(name), fmt::format("node {} {}", i, name));
    }
  }
  const auto names = run.Names();
  EXPECT_GE(names.size(), static_cast<std::size_t>(kNodes * kEach));
  EXPECT_EQ(Newest(names), names.size()) << "there is a gap";
}

TEST(EtcdThreeTest, AMemberThatStopsIsPassedOver) {
  const auto etcd = Etcd::Start({.members = 3});
  ASSERT_NE(etcd, nullptr);
  const std::size_t leader = etcd->Leader();
  std::vector<std::string> leader_first = etcd->endpoints();
  std::swap(leader_first[0], leader_first[leader]);
  EtcdRun run(ClientOf(
      EtcdSettings{.endpoints = leader_first, .try_time = milliseconds(500), .call_time = std::chrono::seconds(60)}));
  const auto arbiter = run.Make();
  ASSERT_OK(arbiter->Create("launch.1", "one"));
  ASSERT_OK(arbiter->CreateLease("launch.1.1.lease", "beat 1"));

  etcd->Pause(leader);
  EXPECT_OK(arbiter->Create("launch.2", "two"));
  EXPECT_OK(arbiter->WriteLease("launch.1.1.lease", "beat 2"));
  EXPECT_EQ(*arbiter->ReadLease("launch.1.1.lease", 100), "beat 2");
  EXPECT_THAT(run.Names(), ElementsAre("launch.1", "launch.1.1.lease", "launch.2"));

  // What it had been asked comes too late.
  etcd->Resume(leader);
  EXPECT_OK(run.Make(ClientOf({etcd->endpoint(leader)}))->Create("launch.3", "three"));
  EXPECT_EQ(*run.Make(ClientOf({etcd->endpoint(leader)}))->ReadLease("launch.1.1.lease", 100), "beat 2");
  EXPECT_EQ(run.RecordOf("launch.2"), "two");
}

TEST(EtcdThreeTest, WithoutAMajorityItIsUnavailableWithOneAgainItGoesOn) {
  const auto etcd = Etcd::Start({.members = 3});
  ASSERT_NE(etcd, nullptr);
  EtcdRun run(ClientOf(etcd->endpoints()));
  const auto hasty = run.Make(ClientOf(
      EtcdSettings{.endpoints = etcd->endpoints(), .try_time = milliseconds(300), .call_time = milliseconds(1'500)}));
  etcd->Kill(0);
  etcd->Kill(1);
  EXPECT_STATUS(StatusCode::kUnavailable, hasty->Create("launch.1", "one"), "no answer within 1500 ms");
  EXPECT_STATUS(StatusCode::kUnavailable, hasty->Names(), "no answer");
  EXPECT_EQ(run.RecordOf("launch.1"), "NOT_FOUND");

  etcd->StartAgain(0);
  EXPECT_OK(run.Make()->Create("launch.2", "two"));

  etcd->Kill(0);
  etcd->Kill(2);
  EXPECT_STATUS(StatusCode::kUnavailable, hasty->Create("launch.1", "one"), "no answer");
  EXPECT_STATUS(StatusCode::kUnavailable, hasty->WriteLease("launch.1.1.lease", "one"), "no answer");
}

// The connection ends in the middle: before the request has come through, or after, when only the answer is lost. Then
// the next try finds what the first has made, and that is ours.
class LostAnswerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    etcd_ = Etcd::Start().release();
    ASSERT_NE(etcd_, nullptr);
  }
  static void TearDownTestSuite() { delete etcd_; }

  // A client that comes to etcd by a proxy, and only if that fails by another way.
  std::shared_ptr<EtcdClient> By(const TcpProxy& proxy) {
    return ClientOf({fmt::format("http://127.0.0.1:{}", proxy.port()), etcd_->endpoint(0)});
  }
  // True: the connection was cut before it had done its work.
  bool Cut(TcpProxy::Cut cut, const std::function<void(Arbiter&)>& work) {
    const auto proxy = TcpProxy::Start(etcd_->port(0));
    proxy->CutNext({cut});
    work(*run.Make(By(*proxy)));
    return proxy->cuts_made() > 0;
  }
  void CutEverywhere(TcpProxy::Cut::Direction direction) {
    int cuts = 0;
    for (std::uint64_t bytes = 1; bytes <= kBytes; bytes += 3) {
      const TcpProxy::Cut cut = {.direction = direction, .bytes = bytes, .shut = true};
      const std::string name = fmt::format("launch.{}.{}", static_cast<int>(direction), bytes);
      cuts += Cut(cut, [&](Arbiter& arbiter) { EXPECT_OK(arbiter.Create(name, "ours")) << bytes; });
      EXPECT_EQ(run.RecordOf(name), "ours");
      cuts += Cut(cut, [&](Arbiter& arbiter) { EXPECT_OK(arbiter.CreateLease(name + ".lease", "ours")) << bytes; });
    }
    EXPECT_GT(cuts, 50);
    EXPECT_FALSE(Cut({.direction = direction, .bytes = kBytes, .shut = true}, [&](Arbiter& arbiter) {
      EXPECT_OK(arbiter.Create("launch.1", "ours"));
    })) << "not all of a connection was tried";
  }

  static constexpr std::uint64_t kBytes = 1'000;  // more than a client and etcd send each other for one record

  EtcdRun run{ClientOf(etcd_->endpoints())};

  inline static Etcd* etcd_ = nullptr;
};

TEST_F(LostAnswerTest, DoesNotLookAsIfAnotherHadBeenFirst) {
  CutEverywhere(TcpProxy::Cut::Direction::kToClient);
}

TEST_F(LostAnswerTest, NorDoesALostRequest) {
  CutEverywhere(TcpProxy::Cut::Direction::kToDaemon);
}

}  // namespace
}  // namespace cairn
