// Random histories of daemons that carry links for each other: they send at any time, connections break, nodes are cut
// off for a while, die and come again. At every moment what has come at an end of a link is what was sent at the other,
// in order, without a gap. Once all is quiet, whatever was sent on a link that lives has come; and a link lives unless
// one of its daemons has died, or was cut off for too long.
//
// Every history comes from its seed alone: CAIRN_TEST_SEED=<number> runs that one again. CAIRN_SOAK: 20 000.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/daemon/relay/relaying_nodes.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using EndPtr = RelayingNodes::EndPtr;

class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed),
        cuts_(Draw(2) == 0),
        count_(3 + Draw(10)),
        nodes_(seed, {.fan_in = 1 + Draw(3), .depth_max = 16}) {
    for (std::uint32_t number = 1; number <= count_; ++number) nodes_.Start(number, number == 1);
  }

  void Run() {
    for (int event = 0; event < 150; ++event) {
      Event();
      nodes_.RunFor(milliseconds(Draw(20)));
      ASSERT_NO_FATAL_FAILURE(CheckOrder());
    }
    nodes_.network.UnblockAll();
    nodes_.RunFor(milliseconds(30'000));
    ASSERT_NO_FATAL_FAILURE(CheckOrder());
    ASSERT_NO_FATAL_FAILURE(CheckAllCame());
  }
  std::uint64_t frames() const { return frames_; }

 private:
  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }
  std::uint32_t Follower() { return 2 + static_cast<std::uint32_t>(Draw(count_ - 1)); }
  std::uint32_t Any() { return 1 + static_cast<std::uint32_t>(Draw(count_)); }

  // Null: nothing has come there yet.
  EndPtr HomeEndOf(const EndPtr& end) {
    const auto& all = nodes_[1].at_home;
    const auto found = std::ranges::find_if(all, [&](const EndPtr& one) { return one->name == end->name; });
    return found == all.end() ? nullptr : *found;
  }

  void Event() {
    const std::uint64_t what = Draw(100);
    if (what < 12) return Link(Follower());
    if (what < 82) return Say(Follower());
    if (what < 92) return nodes_.network.BreakLinks(nodes_.AddressOf(Any()), nodes_.AddressOf(Any()));
    if (what < 94) return nodes_.RunFor(milliseconds(Draw(1'500)));
    if (what < 95) return Cut();
    if (what < 97) return Die(Follower());
    if (what < 98) return Die(1);
    EndLink(Follower());
  }
  void Link(std::uint32_t from) {
    if (!nodes_.IsUp(from)) nodes_.Start(from);
    if (!nodes_.IsUp(1)) nodes_.Start(1, true);
    EndPtr& mine = links_[from];
    if (mine == nullptr || mine->closed) mine = nodes_.Dial(from, 1);
  }
  void Say(std::uint32_t from) {
    const auto mine = links_.find(from);
    if (mine == links_.end() || mine->second == nullptr || mine->second->link == nullptr || mine->second->closed)
      return;
    const std::size_t bytes = Draw(20) == 0 ? Draw(Draw(4) == 0 ? 2'900'000 : 300'000) : Draw(200);
    ++frames_;
    const EndPtr at_home = HomeEndOf(mine->second);
    if (at_home != nullptr && at_home->link != nullptr && !at_home->closed && Draw(2) == 0)
      return nodes_.Say(at_home, bytes);
    nodes_.Say(mine->second, bytes);
  }
  void Die(std::uint32_t number) {
    if (!nodes_.IsUp(number)) return;
    if (number == 1) {
      links_.clear();
    } else {
      links_.erase(number);
    }
    const bool silently = Draw(2) == 0;
    nodes_.Kill(number, silently);
    if (silently) {
      nodes_.RunFor(milliseconds(Draw(300)));
      nodes_.TellMissing(number);
    }
    nodes_.Start(number, number == 1);
  }
  // For some time nothing goes one way or the other. So long that links may end.
  void Cut() {
    if (!cuts_) return;
    if (Draw(2) == 0) return nodes_.network.UnblockAll();
    cut_ = true;
    nodes_.network.Block(nodes_.AddressOf(Any()), nodes_.AddressOf(Any()));
  }
  void EndLink(std::uint32_t from) {
    const auto mine = links_.find(from);
    if (mine == links_.end() || mine->second == nullptr || mine->second->link == nullptr) return;
    mine->second->link = nullptr;
    links_.erase(mine);
  }

  static void CheckPrefix(const EndPtr& end) {
    for (std::size_t i = 0; i < end->came.size(); ++i) ASSERT_EQ(end->came[i], i + 1);
  }
  void CheckOrder() {
    for (const auto& [from, end] : links_) ASSERT_NO_FATAL_FAILURE(CheckPrefix(end));
    for (const EndPtr& end : nodes_[1].at_home) ASSERT_NO_FATAL_FAILURE(CheckPrefix(end));
    for (const auto& [from, mine] : links_) {
      const EndPtr at_home = HomeEndOf(mine);
      if (at_home == nullptr) continue;
      ASSERT_LE(at_home->came.size(), mine->sent);
      ASSERT_LE(mine->came.size(), at_home->sent);
    }
  }
  void CheckAllCame() {
    for (const auto& [from, mine] : links_) {
      if (mine->link == nullptr) {
        ASSERT_TRUE(cut_ && mine->failed) << from << ": " << (mine->failed ? mine->failed->ToString() : "no end");
        continue;
      }
      if (mine->closed) {
        const bool of_former_home = mine->link->peer().incarnation != nodes_[1].self.incarnation;
        ASSERT_TRUE(cut_ || of_former_home) << from << ": " << *mine->closed;
        continue;
      }
      if (mine->sent == 0) continue;
      const EndPtr at_home = HomeEndOf(mine);
      ASSERT_NE(at_home, nullptr) << from;
      ASSERT_EQ(at_home->came.size(), mine->sent) << from;
      ASSERT_EQ(mine->came.size(), at_home->sent) << from;
      ASSERT_FALSE(at_home->closed) << from;
    }
  }

  std::mt19937_64 random_;
  const bool cuts_;
  const std::uint64_t count_;
  bool cut_ = false;
  RelayingNodes nodes_;
  std::map<std::uint32_t, EndPtr> links_;  // of followers, the newest each
  std::uint64_t frames_ = 0;
};

TEST(RelayModelTest, NothingIsLostAndNothingComesTwice) {
  const char* const seed = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = seed != nullptr ? std::strtoull(seed, nullptr, 10) : 1;
  const std::uint64_t histories = seed != nullptr ? 1 : std::getenv("CAIRN_SOAK") != nullptr ? 20'000 : 300;
  std::uint64_t frames = 0;
  for (std::uint64_t i = 0; i < histories; ++i) {
    History history(first + i);
    history.Run();
    frames += history.frames();
    if (::testing::Test::HasFatalFailure()) {
      std::printf("CAIRN_TEST_SEED=%llu\n", static_cast<unsigned long long>(first + i));
      return;
    }
  }
  EXPECT_GT(frames, 20 * histories);
}

}  // namespace
}  // namespace cairn
