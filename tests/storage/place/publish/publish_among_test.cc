// The commit protocol with others in between: crashes, and other processes at work on the same prefix.
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "storage/base/launch_mark.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/publish/publishing.h"
#include "tests/support/fake_disk.h"
#include "tests/support/sparser.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class PublishAmongTest : public ::testing::TestWithParam<User> {};

INSTANTIATE_TEST_SUITE_P(Users, PublishAmongTest, ::testing::ValuesIn(kUsers),
                         [](const auto& info) { return NameOf(info.param); });

// The power fails at each operation in turn: the prefix has the older whole, or the newer, for who may write and for
// who only reads, and at no instant neither; at none does the index show bytes that are not its dataset's.
TEST_P(PublishAmongTest, ACrashAnywhereLeavesTheOlderOrTheNewer) {
  const User user = GetParam();
  int older = 0, newer = 0, waiting = 0;
  bool done = false;
  for (std::uint64_t n = 1; !done; n += kSparser) {
    for (const std::uint64_t seed : {n, n + 1000, n + 2000}) {
      SCOPED_TRACE(fmt::format("crash at operation {}, seed {}", n, seed));
      Publishing site;
      ASSERT_OK(site.Flush(OutputOf(site.run(), 1)));
      const Output output = OutputOf(site.run(), 2);
      site.pfs.SyncAll();
      site.pfs.CrashAt(n);
      done = site.Publish(user, output).ok() && !site.pfs.crashed();
      const bool answered = done;
      site.pfs.Restart(seed);
      site.ExpectWhole(site.CompleteInIndex());
      waiting += site.ExpectAReaderFindsOneWhole();
      site.bypass.reset();
      site.Open();
      ASSERT_NE(site.prefix, nullptr);
      const Ids there = site.Committed();
      site.ExpectWhole(there);
      EXPECT_EQ(site.CompleteInIndex(), there);
      EXPECT_TRUE(!answered || there == Ids{2}) << "said to be there";
      ASSERT_EQ(there.size(), 1u) << "one of the two, at each instant";
      (there == Ids{1} ? older : newer) += 1;
      site.Finish(user, output);
      const Ids after = site.Committed();
      site.ExpectWhole(after);
      if (user == User::kBypass) {
        EXPECT_EQ(after, there);
        EXPECT_TRUE(there == Ids{2} || !site.IsThere("ckpt.2"));
      } else {
        EXPECT_EQ(after, user == User::kAdopt && there != Ids{2} ? Ids{3} : Ids{2});
      }
      EXPECT_FALSE(site.IsThere(".scr/place.2.cairn"));
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(older, 30 / kSparser);
  EXPECT_GT(newer, 30 / kSparser);
  EXPECT_GT(waiting, 10 / kSparser) << "the newer was read where its files wait";
}

// What remains after a crash is finished by a process that crashes, too.
TEST_P(PublishAmongTest, ASecondCrashWhileTheFirstIsMendedLeavesTheOlderOrTheNewer) {
  const User user = GetParam();
  int twice = 0;
  bool done = false;
  for (std::uint64_t n = 1; !done; n += 7 * kSparser) {
    for (std::uint64_t m = 1 + n % 5;; m += 5) {
      SCOPED_TRACE(fmt::format("crash at operation {}, then at {}", n, m));
      Publishing site;
      ASSERT_OK(site.Flush(OutputOf(site.run(), 1)));
      site.pfs.SyncAll();
      site.pfs.CrashAt(n);
      done = site.Publish(user, OutputOf(site.run(), 2)).ok() && !site.pfs.crashed();
      site.pfs.Restart(n);
      site.bypass.reset();
      site.pfs.CrashAt(m);
      const auto mending = Prefix::Open(site.pfs, kShownPath);
      if (mending.ok()) (*mending)->Committed().status().IgnoreError();  // the power fails
      const bool crashed = site.pfs.crashed();
      site.pfs.Restart(n + m);
      site.ExpectWhole(site.CompleteInIndex());
      site.ExpectAReaderFindsOneWhole();
      site.Open();
      ASSERT_NE(site.prefix, nullptr);
      const Ids there = site.Committed();
      site.ExpectWhole(there);
      ASSERT_EQ(there.size(), 1u);
      if (HasFailure()) return;
      if (!crashed) break;
      ++twice;
    }
  }
  EXPECT_GT(twice, 100 / kSparser);
}

// --- Other processes ---

// Users whose steps another process comes between. (Scavenge's are those of the flush.)
constexpr User kAmong[] = {User::kFlush, User::kBypass, User::kAdopt};

class AmongOthers : public Publishing {
 public:
  AmongOthers() {
    // One thread is all the processes, and so has the mutexes of all. Those that processes share by a record's path are
    // others where the prefix has another path.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    EXPECT_OK(pfs.Symlink(ParentOf(kShownPath), "/mnt"));
    EXPECT_OK(Flush(OutputOf(run(), 1)));
    // Whoever is interrupted goes on only afterwards: there is nothing to wait for.
    auto opened = Prefix::Open(pfs, "/mnt/" + BaseOf(kShownPath), {.pause = [](std::chrono::milliseconds) {}});
    EXPECT_OK(opened);
    other = *std::move(opened);
  }
  // `deed` comes before the n-th operation on the prefix from now, if there are so many.
  void Before(std::uint64_t n, std::function<void()> deed) {
    left_ = n;
    pfs.SetHook([this, deed = std::move(deed)](FakeOp, const std::string&) {
      if (left_ == 0 || --left_ > 0) return;  // its own operations count no more
      deed();
    });
  }
  bool over() const { return left_ > 0; }  // the deed did not come
  Ids CommittedBy(Prefix& by) {
    const auto committed = by.Committed();
    EXPECT_OK(committed);
    Ids ids;
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.push_back(id);
    return ids;
  }

  std::unique_ptr<Prefix> other;  // another process'

 private:
  std::uint64_t left_ = 0;
};

class AmongTest : public ::testing::TestWithParam<User> {};

INSTANTIATE_TEST_SUITE_P(Users, AmongTest, ::testing::ValuesIn(kAmong),
                         [](const auto& info) { return NameOf(info.param); });

// A look finishes what it finds committed, while its maker is still at it.
TEST_P(AmongTest, ALookOfAnotherAtAnyInstantFindsOneWholeAndDoesNoHarm) {
  int older = 0, newer = 0;
  for (std::uint64_t n = 1, over = 0; over == 0; n += kSparser) {
    SCOPED_TRACE(n);
    AmongOthers site;
    site.Before(n, [&] {
      site.ExpectAReaderFindsOneWhole();
      const Ids there = site.CommittedBy(*site.other);
      ASSERT_EQ(there.size(), 1u);
      site.ExpectWhole(there);
      (there == Ids{1} ? older : newer) += 1;
    });
    ASSERT_OK(site.Publish(GetParam(), OutputOf(site.run(), 2)));
    over = site.over() ? 1 : 0;
    EXPECT_EQ(site.Committed(), Ids{2});
    EXPECT_EQ(site.CompleteInIndex(), Ids{2});
    site.ExpectWhole({2});
    EXPECT_FALSE(site.IsThere("out/1") || site.IsThere(".scr/place.2.cairn"));
    if (HasFailure()) return;
  }
  EXPECT_GT(older, 10 / kSparser);
  EXPECT_GT(newer, 10 / kSparser);
}

// One takes the newer away at some instant: what is committed afterwards is whole, and the older is not lost for what
// was never committed.
TEST_P(AmongTest, ARemovalAtAnyInstantWinsAndTheOlderStaysOrHadGivenWay) {
  int stayed = 0, gone = 0;
  for (std::uint64_t n = 1, over = 0; over == 0; n += kSparser) {
    SCOPED_TRACE(n);
    AmongOthers site;
    const Output output = OutputOf(site.run(), 2);
    bool counted = false;
    site.Before(n, [&] {
      const auto there = Prefix::OpenReadOnly(site.pfs, kShownPath);
      ASSERT_OK(there);
      const Ids listed = site.CommittedBy(**there);
      counted = std::find(listed.begin(), listed.end(), 2u) != listed.end();
      EXPECT_OK(site.other->Remove(2, output.catalogues));
    });
    const absl::Status status = site.Publish(GetParam(), output);
    over = site.over() ? 1 : 0;
    if (over != 0) break;
    const Ids there = site.Committed();
    site.ExpectWhole(there);
    EXPECT_TRUE(there.empty() || there == Ids{1}) << status;
    EXPECT_TRUE(counted || there == Ids{1}) << "lost for nothing: " << status;
    (there.empty() ? gone : stayed) += 1;
    EXPECT_FALSE(site.IsThere(".scr/place.2.cairn"));
    if (HasFailure()) return;
  }
  EXPECT_GT(stayed, 10 / kSparser);
  EXPECT_GT(gone, 5 / kSparser);
}

// Another process publishes a dataset that has the name, too: one with a higher number, or a lower.
TEST_P(AmongTest, TwoThatTakeTheNameAtOnceLeaveTheNewerWhole) {
  for (const auto& [own, others] : {std::pair<DatasetId, DatasetId>(2, 3), std::pair<DatasetId, DatasetId>(3, 2)}) {
    for (std::uint64_t n = 1, over = 0; over == 0; n += kSparser) {
      SCOPED_TRACE(fmt::format("{} in the middle of {}, before operation {}", others, own, n));
      AmongOthers site;
      absl::Status other;
      site.Before(n, [&, id = others] { other = site.Flush(OutputOf(site.run(), id), *site.other); });
      const absl::Status status = site.Publish(GetParam(), OutputOf(site.run(), own));
      over = site.over() ? 1 : 0;
      if (over != 0) break;
      EXPECT_OK(own == 3 ? status : other);
      const absl::Status& late = own == 3 ? other : status;
      EXPECT_TRUE(late.ok() || absl::IsAborted(late)) << late;
      EXPECT_EQ(site.Committed(), Ids{3});
      EXPECT_EQ(site.CompleteInIndex(), Ids{3});
      site.ExpectWhole({3});
      if (HasFailure()) return;
    }
  }
}

NewLaunch LaunchOf(const std::string& key) {
  NewLaunch launch;
  launch.key = key;
  launch.nranks = 2;
  return launch;
}

// A newer launch is made while a dataset of the older one is committed. What the new launch finds at its first look,
// and may choose, stays: the fenced committer takes nobody's name.
TEST(PublishFencedTest, ALaunchThatComesBetweenKeepsWhatItMayHaveChosen) {
  int older = 0, newer = 0, held = 0;
  for (const User user : {User::kFlush, User::kBypass}) {
    for (std::uint64_t n = 1, over = 0; over == 0; n += kSparser) {
      SCOPED_TRACE(fmt::format("{} {}", NameOf(user), n));
      AmongOthers site;
      const auto first = site.prefix->MakeLaunch(LaunchOf("first"));
      ASSERT_OK(first);
      Output output = OutputOf(site.run(), 2);
      output.descriptor.launch = site.committer = first->id;
      output.descriptor.mark = LaunchMark(first->secret);
      for (catalogue::Catalogue& catalogue : output.catalogues) catalogue.set_launch(first->id);
      Ids chosen;
      site.Before(n, [&] {
        ASSERT_OK(site.other->MakeLaunch(LaunchOf("second")));
        chosen = site.CommittedBy(*site.other);
        site.ExpectWhole(chosen);
      });
      const absl::Status status = site.Publish(user, output);
      over = site.over() ? 1 : 0;
      if (over != 0) break;
      ASSERT_EQ(chosen.size(), 1u);
      EXPECT_EQ(site.Committed(), chosen) << status;
      site.ExpectWhole(chosen);
      EXPECT_EQ(status.ok(), chosen == Ids{2}) << status;
      (chosen == Ids{1} ? older : newer) += 1;
      ASSERT_OK_AND_ASSIGN(const PrefixContents contents, site.prefix->Contents());
      if (!contents.fenced.contains(2)) continue;
      // It is whole where it waits, and the user's will brings it to its names.
      ++held;
      const auto catalogues = site.prefix->Catalogues(2);
      ASSERT_OK(catalogues);
      ASSERT_OK_AND_ASSIGN(const WaitingFiles waiting, site.prefix->Waiting(*catalogues));
      EXPECT_EQ(waiting.size(), 2u);
      EXPECT_EQ(*AddToIndex(site.pfs, kShownPath, "ckpt.2"), 2u);
      EXPECT_EQ(site.Committed(), Ids{2});
      site.ExpectWhole({2});
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(older, 30 / kSparser);
  EXPECT_GT(newer, 30 / kSparser);
  EXPECT_GE(held, kSparser > 1 ? 0 : 1);
}

}  // namespace
}  // namespace cairn
