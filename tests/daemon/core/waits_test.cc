// Who waits for a change of a run: daemon/core/waits.h.
#include "daemon/core/waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

namespace cairn {
namespace {

class WaitsTest : public ::testing::Test {
 protected:
  // Notes that it was asked, and answers what `done` says then.
  Waits::Watcher Watcher(const std::string& name, const bool& done) {
    return [this, name, &done] {
      told_ += name;
      return done;
    };
  }
  // What has been called since the last time, in order: < before, > after, and watchers by name.
  std::string Told() { return std::exchange(told_, {}); }

  std::string told_;
  Waits waits_{[this] { told_ += "<"; }, [this] { told_ += ">"; }};
};

TEST_F(WaitsTest, WhatIsSoAlreadyIsAnsweredAtOnceAndNeverAskedAgain) {
  const bool done = true;
  waits_.Wait(Watcher("a", done));
  EXPECT_EQ(Told(), "a");
  waits_.Changed();
  EXPECT_EQ(Told(), "<>");
}

TEST_F(WaitsTest, AWatcherIsAskedAfterEveryChangeUntilItIsTrue) {
  bool done = false;
  waits_.Wait(Watcher("a", done));
  waits_.Changed();
  waits_.Changed();
  EXPECT_EQ(Told(), "a<a><a>");
  done = true;
  waits_.Changed();
  waits_.Changed();
  EXPECT_EQ(Told(), "<a><>");
}

TEST_F(WaitsTest, WatchersAreAskedInTheOrderInWhichTheyCame) {
  bool a = false, b = false, c = false;
  waits_.Wait(Watcher("a", a));
  waits_.Wait(Watcher("b", b));
  waits_.Wait(Watcher("c", c));
  Told();
  b = true;
  waits_.Changed();
  EXPECT_EQ(Told(), "<abc>");
  waits_.Changed();
  EXPECT_EQ(Told(), "<ac>");
}

TEST_F(WaitsTest, AskDoesNotConcernThePolicy) {
  const bool done = false;
  waits_.Wait(Watcher("a", done));
  Told();
  waits_.Ask();
  EXPECT_EQ(Told(), "a");
}

TEST_F(WaitsTest, AfterClearNobodyIsAskedButWhoComesLaterIs) {
  const bool done = false;
  waits_.Wait(Watcher("a", done));
  waits_.Clear();
  waits_.Wait(Watcher("b", done));
  Told();
  waits_.Changed();
  EXPECT_EQ(Told(), "<b>");
}

TEST_F(WaitsTest, AWatcherMayCauseAChange) {
  bool a = false;
  waits_.Wait(Watcher("a", a));
  bool b = false;
  waits_.Wait([this, &b] {
    told_ += "b";
    if (!b) return false;
    waits_.Changed();
    return true;
  });
  Told();
  b = true;
  waits_.Changed();
  EXPECT_EQ(Told(), "<ab<>>") << "each is asked once in a round, and none within its own question";
  a = true;
  waits_.Changed();
  EXPECT_EQ(Told(), "<a>");
}

TEST_F(WaitsTest, WhatAWatcherAddsIsAskedByTheNextRound) {
  const bool never = false;
  bool add = false;
  waits_.Wait([&] {
    if (!add) return false;
    waits_.Wait(Watcher("b", never));
    waits_.Changed();
    return true;
  });
  add = true;
  waits_.Changed();
  EXPECT_EQ(Told(), "<b<b>>") << "by the change that came with it, once";
  waits_.Changed();
  EXPECT_EQ(Told(), "<b>");
}

// A call whose client has gone answers true; between two changes such watchers must not pile up.
TEST_F(WaitsTest, WatchersOfExpiredCallsDoNotPileUpWithoutAChange) {
  std::size_t kept = 0, kept_max = 0;
  struct Counted {
    explicit Counted(std::size_t* count) : kept(count) { ++*kept; }
    ~Counted() { --*kept; }
    std::size_t* const kept;
  };
  for (int i = 0; i < 10000; ++i) {
    bool expired = false;
    waits_.Wait(
        [counted = std::make_shared<Counted>(&kept), expired]() mutable { return std::exchange(expired, true); });
    kept_max = std::max(kept_max, kept);
  }
  EXPECT_LE(kept_max, 200u);
  EXPECT_EQ(Told(), "") << "nothing of the run has changed";
  waits_.Clear();
  EXPECT_EQ(kept, 0u);
}

}  // namespace
}  // namespace cairn
