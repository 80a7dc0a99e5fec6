// Launches, commits and removals in the real code, paused before any operation that others could notice. Of two
// processes the first runs to its i-th pause, then the second to its j-th, perhaps a third from its beginning to its
// end; then the first comes to its end, then the second. That is tried for all i and j, the other way round, with one
// of them dying at its pause, and with the power failing then. The short form leaves out most pairs of i and j, but no
// i and no j; CAIRN_SOAK has all, and some of those with pauses before every operation.
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/storage/place/prefix/fence_actors.h"
#include "tests/support/fiber.h"
#include "tests/support/sparser.h"

namespace cairn::fenced {
namespace {

enum class Fault { kNone, kFirstDies, kPowerFails };

struct Scenario {
  Deed first, second;
  std::vector<Deed> meanwhile = {};   // one after the other, while both pause
  std::vector<Deed> afterwards = {};  // the same, when both have ended and the power is back
};

struct Schedule {
  int i = 0, j = 0;
  Fault fault = Fault::kNone;
  bool every_operation = false;
  std::uint64_t seed = 0;  // of what the power takes along
};

// A process in a fiber.
class Process {
 public:
  Process(World& world, const Deed& deed) : deed_(deed), node_(world.AddNode()) {
    if (deed.opened) node_.Open(true);
    if (!deed.cold) node_.Warm();
    fiber_ = std::make_unique<Fiber>([this, &world] { deed_.act(world, node_); });
  }
  // False: it is at its end, or was before.
  bool Step() {
    if (!fiber_->at_end()) fiber_->Resume();
    return !fiber_->at_end();
  }
  bool StepTimes(int times) {
    for (; times > 0; --times) {
      if (!Step()) return false;
    }
    return !fiber_->at_end();
  }
  void Finish() {
    while (Step()) continue;
  }
  void Die() {
    node_.disk().Die();
    Finish();
  }

 private:
  const Deed deed_;
  Node& node_;
  std::unique_ptr<Fiber> fiber_;
};

struct Ran {
  Told told;
  bool paused_first = false, paused_second = false;  // else it had come to its end by then
};

Ran Play(const Image& image, const Scenario& scenario, const Schedule& schedule, std::vector<std::string>* log) {
  World world(&image);
  world.every_operation = schedule.every_operation;
  world.pauses_at_syncs = schedule.fault == Fault::kPowerFails;
  std::vector<std::unique_ptr<Process>> others;
  Process first(world, scenario.first), second(world, scenario.second);
  // Their nodes have been reading before.
  for (const Deed& deed : scenario.meanwhile) others.push_back(std::make_unique<Process>(world, deed));
  world.log = log;
  const auto mark = [log](const char* who) {
    if (log != nullptr) log->push_back(fmt::format("--- {}", who));
  };
  mark("the first");
  Ran ran;
  ran.paused_first = first.StepTimes(schedule.i);
  mark("the second");
  ran.paused_second = second.StepTimes(schedule.j);
  for (const auto& other : others) {
    mark("another");
    other->Finish();
  }
  world.faults = schedule.fault != Fault::kNone;
  mark("the first");
  if (schedule.fault == Fault::kFirstDies) first.Die();
  if (schedule.fault == Fault::kPowerFails) world.server.CrashAt(1);
  first.Finish();
  mark("the second");
  second.Finish();
  if (schedule.fault == Fault::kPowerFails) world.server.Restart(schedule.seed);
  world.faults = false;
  for (const Deed& deed : scenario.afterwards) {
    mark("afterwards");
    Process(world, deed).Finish();
  }
  mark("at last");
  world.Judge();
  ran.told = world.told;
  return ran;
}

std::string Show(const Scenario& scenario, const Schedule& schedule) {
  const char* const faults[] = {"", ", the first dies", ", the power fails"};
  std::string text =
      fmt::format("{} to {}, {} to {}", scenario.first.name, schedule.i, scenario.second.name, schedule.j);
  for (const Deed& deed : scenario.meanwhile) text += ", then " + deed.name;
  return text + faults[static_cast<int>(schedule.fault)];
}

constexpr int kSeeds = 4;
const std::vector<Fault> kAllFaults = {Fault::kNone, Fault::kFirstDies, Fault::kPowerFails};

class FenceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // One thread is all the processes, and so has the mutexes of all.
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  }
  void TearDown() override {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    fmt::print(
        "{} schedules in {:.1f} s: {} commits counted, {} were fenced, {} removals, {} void, {} launches refused\n",
        sum_.schedules, seconds.count(), sum_.counts, sum_.fenced, sum_.removed, sum_.kept, sum_.refused);
  }

  void TryAll(const Image& image, const Scenario& scenario, const std::vector<Fault>& faults = {Fault::kNone}) {
    ASSERT_EQ(image.told().broken, std::vector<std::string>());
    Scenario turned = scenario;
    std::swap(turned.first, turned.second);
    for (const Fault fault : faults) {
      const bool soak = std::getenv("CAIRN_SOAK") != nullptr;
      const int stride = soak ? 1 : kSparser * (fault == Fault::kFirstDies ? 12 : 6);
      seeds_ = soak && fault == Fault::kPowerFails ? kSeeds : 1;
      for (const Scenario* order : std::initializer_list<const Scenario*>{&scenario, &turned}) {
        ASSERT_NO_FATAL_FAILURE(TryOrder(image, *order, {.fault = fault}, stride));
        if (soak) {
          ASSERT_NO_FATAL_FAILURE(TryOrder(image, *order, {.fault = fault, .every_operation = true}, 11));
        }
        if (scenario.first.name == scenario.second.name) break;
      }
    }
  }

  // All i and all j, as many pairs as one in `stride`.
  void TryOrder(const Image& image, const Scenario& scenario, Schedule schedule, int stride) {
    bool more = true;
    for (schedule.i = 0; more; ++schedule.i) {
      bool inner = true;
      for (schedule.j = schedule.i % stride; inner; schedule.j += stride) {
        const Ran ran = Try(image, scenario, schedule, seeds_);
        more = ran.paused_first;
        inner = ran.paused_second;
        if (HasFatalFailure()) return;
      }
      // The second was told all: whatever the power takes along, that must stay.
      if (schedule.fault == Fault::kPowerFails) Try(image, scenario, schedule, kSeeds);
      if (HasFatalFailure()) return;
    }
  }
  Ran Try(const Image& image, const Scenario& scenario, Schedule& schedule, int seeds) {
    Ran ran;
    for (; seeds > 0 && ran.told.broken.empty(); --seeds) {
      ++schedule.seed;
      ran = Play(image, scenario, schedule, nullptr);
      sum_.Add({.schedules = 1});
      sum_.Add(ran.told.tally);
    }
    if (!ran.told.broken.empty()) Fail(image, scenario, schedule);
    return ran;
  }
  // The same again: nothing in it is left to chance.
  void Fail(const Image& image, const Scenario& scenario, const Schedule& schedule) {
    std::vector<std::string> log;
    const Ran again = Play(image, scenario, schedule, &log);
    FAIL() << Show(scenario, schedule) << "\n"
           << fmt::format("{}\n{}", fmt::join(again.told.broken, "\n"), fmt::join(log, "\n"));
  }

  int seeds_ = 1;
  Tally sum_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// --- Two processes, whatever becomes of them ---

TEST_F(FenceTest, ACommitCountsForTheNextLaunchOrIsFenced) {
  TryAll(FirstLaunch(), {Opens(), Commits(kNew, 1)}, kAllFaults);
  EXPECT_GT(sum_.counts, 0u);
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, NothingThatAnOpenerChoseIsRemoved) {
  TryAll(FirstLaunch(), {Opens(), Removes(kOld, 1)}, kAllFaults);
  EXPECT_GT(sum_.removed, 0u);
  EXPECT_GT(sum_.kept, 0u);
}

TEST_F(FenceTest, WhatTheUserRemovesGoesWhoeverOpens) {
  TryAll(FirstLaunch(), {Opens(), Removes(kOld, /*under=*/0)}, kAllFaults);
  EXPECT_GT(sum_.removed, 0u);
  EXPECT_EQ(sum_.kept, 0u);
}

TEST_F(FenceTest, NothingThatAnOpenerChoseGivesWay) {
  TryAll(FirstLaunch(), {Opens(), Withdraws(4, 1)}, kAllFaults);
  EXPECT_GT(sum_.removed, 0u);
  EXPECT_GT(sum_.kept, 0u);
}

TEST_F(FenceTest, EachOpenerGetsALaunchOfItsOwn) {
  TryAll(FirstLaunch(), {Opens(), Opens()}, kAllFaults);
  EXPECT_GT(sum_.refused, 0u);
}

TEST_F(FenceTest, OfTwoOpenersAfterTheSameLaunchOneIsRefused) {
  TryAll(FirstLaunch(), {OpensAfter(1), OpensAfter(1)});
  EXPECT_EQ(sum_.refused, sum_.schedules);
}

TEST_F(FenceTest, NoIdIsGivenOutTwice) {
  TryAll(FirstLaunch(), {ReservesIds(), ReservesIds()}, kAllFaults);
}

TEST_F(FenceTest, TwoOpenersOfACopyAreInTheSameBranch) {
  TryAll(CopiedRun(), {OpensRun(), OpensRun()}, kAllFaults);
  TryAll(CopiedRun(), {OpensRun(), OpensRun(/*cold=*/true)}, kAllFaults);
}

// --- Three ---

TEST_F(FenceTest, NoReaderCountsWhatIsFenced) {
  TryAll(FirstLaunch(), {Reads(), Commits(kNew, 1), {Opens()}});
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, ReadersSeeWhatCountsInAFolderThatTheyKnow) {
  TryAll(BegunDataset(), {Reads(), Commits(kNew, 1)});
  TryAll(BegunDataset(), {Opens(), Commits(kNew, 1)});
  EXPECT_GT(sum_.counts, 0u);
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, NoReaderThatMayNotWriteCountsWhatIsFenced) {
  TryAll(FirstLaunch(), {ReadsOnly(), Commits(kNew, 1), {Opens()}});
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, ReadersAgreeWithAnOpenerOnACommit) {
  TryAll(FirstLaunch(), {Opens(), Commits(kNew, 1), {ReadsOnly(), Reads()}});
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, ReadersAgreeWithAnOpenerOnARemoval) {
  TryAll(FirstLaunch(), {Opens(), Removes(kOld, 1), {ReadsOnly(), Reads()}});
  EXPECT_GT(sum_.kept, 0u);
}

TEST_F(FenceTest, AReaderAgreesWithTheNextLaunchOnARemoval) {
  TryAll(FirstLaunch(), {Reads(), Removes(kOld, 1), {Opens()}});
  EXPECT_GT(sum_.kept, 0u);
}

TEST_F(FenceTest, TwoRemovalsOfADatasetAgreeWithTheNextLaunch) {
  TryAll(FirstLaunch(), {Removes(kOld, 1), Removes(kOld, 1), {Opens()}});
  EXPECT_GT(sum_.removed, 0u);
  EXPECT_GT(sum_.kept, 0u);
}

TEST_F(FenceTest, TwoOpenersAgreeOnACommit) {
  TryAll(FirstLaunch(), {Opens(), Opens(), {Commits(kNew, 1)}});
  EXPECT_GT(sum_.counts, 0u);
  EXPECT_GT(sum_.fenced, 0u);
}

// --- A dataset that was fenced, committed again under a newer launch that has it ---

TEST_F(FenceTest, AFencedDatasetCountsOnceANewerLaunchHasCommittedIt) {
  TryAll(FencedDataset(), {Opens(), Commits(kNew, 3)}, kAllFaults);
  EXPECT_GT(sum_.counts, 0u);
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, TwoCommitsBesideAFencedOneBothCount) {
  TryAll(FencedDataset(), {Commits(kNew, 3), Commits(kNew, 3)}, kAllFaults);
  EXPECT_GT(sum_.counts, 0u);
}

TEST_F(FenceTest, ACommitThatWasReadBeforeItWasDurableCanBeMadeAgain) {
  TryAll(FirstLaunch(), {.first = Reads(), .second = Commits(kNew, 1), .afterwards = {Commits(kNew, 1)}}, kAllFaults);
  EXPECT_GE(sum_.counts, sum_.schedules);
}

TEST_F(FenceTest, OfCommitsUnderTwoLaunchesTheNewerCounts) {
  TryAll(ThirdLaunch(), {Commits(kNew, 1), Commits(kNew, 3)});
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, TwoCommitsOfADatasetAreToldTheSame) {
  TryAll(FirstLaunch(), {Commits(kNew, 1), Commits(kNew, 1), {Opens()}});
  EXPECT_GT(sum_.fenced, 0u);
}

TEST_F(FenceTest, AReaderAgreesOnACommitBesideAFencedOne) {
  TryAll(FencedDataset(), {Reads(), Commits(kNew, 3), {Opens()}});
  EXPECT_GT(sum_.counts, 0u);
}

// --- Not by schedules ---

TEST_F(FenceTest, ALaunchWhoseRecordIsLostTakesNoDatasetAlong) {
  const Image image = ThirdLaunch();
  World world(&image);
  for (const char* name : {"/.cairn/launch.2", "/.cairn/launch.2.base", "/.cairn/launch.3.base"}) {
    EXPECT_TRUE(world.server.Remove(std::string(kServerPrefix) + name).ok());
  }
  Node& node = world.AddNode();
  ASSERT_TRUE(node.Open(true));
  const auto contents = node.prefix().Contents();
  ASSERT_TRUE(contents.ok());
  EXPECT_EQ(IdsOf(contents->datasets), std::set<DatasetId>({kOld, kOutput}));
}

}  // namespace
}  // namespace cairn::fenced
