// All orders of steps of a few openers, committers, removers and readers: fence_model.h has the protocol and what must
// hold.
#include "tests/storage/place/prefix/fence_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace cairn::fence {
namespace {

constexpr Act kOpen{Deed::kOpen}, kOpenProvisional{Deed::kOpenProvisional}, kRead{Deed::kRead};
constexpr Act kReadOnly{Deed::kReadOnly}, kReadStale{Deed::kReadStale};
constexpr Act Commit(int d) {
  return {Deed::kCommit, d};
}
constexpr Act Remove(int d) {
  return {Deed::kRemove, d};
}
constexpr Act UserRemove(int d) {
  return {Deed::kUserRemove, d};
}

// Dataset 0 was committed before launch 1; 1 and 2 are new. An actor that does not open acts under launch 1.
Scenario TwoOpeners() {
  return {"two openers, a committer", {{"A", 0, {kOpen}}, {"B", 0, {kOpen}}, {"C", 1, {Commit(1)}}}};
}
Scenario TwoThatCommit() {
  return {"two openers that commit, a committer",
          {{"A", 0, {kOpen, Commit(1)}}, {"B", 0, {kOpen, Commit(2)}}, {"C", 1, {Commit(1)}}}};
}
Scenario UnderTwoLaunches() {
  return {"a dataset under two launches, a reader",
          {{"A", 0, {kOpen, Commit(1)}}, {"C", 1, {Commit(1)}}, {"R", 0, {kRead, kRead}}}};
}
Scenario TwiceUnderOne() {
  return {"a dataset twice under one launch", {{"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"D", 1, {Commit(1)}}}};
}
Scenario CommitterAndRemover() {
  return {"an opener, a committer, a remover",
          {{"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"P", 1, {Remove(0), Remove(1)}}}};
}
Scenario Removers() {
  return {"an opener, a committer, two removers",
          {{"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"P", 1, {Remove(0)}}, {"Q", 1, {Remove(1)}}}};
}
Scenario RemoverAndReader() {
  return {"two openers, a remover, a reader",
          {{"A", 0, {kOpen}}, {"B", 0, {kOpen}}, {"P", 1, {Remove(0)}}, {"R", 0, {kRead}}}};
}
Scenario OpenerThatRemoves() {
  return {"an opener that removes, an opener, a remover, a reader",
          {{"A", 0, {kOpen, Remove(0)}}, {"B", 0, {kOpen}}, {"P", 1, {Remove(0)}}, {"R", 0, {kRead}}}};
}
Scenario RemoverAnew() {  // it crashed, and the next one of its launch begins anew
  return {"an opener, a remover, the same again",
          {{"A", 0, {kOpen}}, {"P", 1, {Remove(0)}}, {"Q", 1, {Remove(0), kRead}}}};
}
Scenario Users() {
  return {"the user removes what is committed",
          {{"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"U", 0, {UserRemove(1)}}, {"R", 0, {kRead}}}};
}
Scenario Provisional() {
  return {"a provisional launch, an opener, a committer",
          {{"P", 1, {kOpenProvisional, Commit(2)}}, {"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}}};
}
Scenario ProvisionalThatRemoves() {
  return {"a provisional launch that removes, two openers",
          {{"P", 1, {kOpenProvisional, Remove(0)}}, {"A", 0, {kOpen}}, {"B", 0, {kOpen}}}};
}
Scenario Chain() {
  return {"a chain of two provisional launches, an opener, a reader",
          {{"P", 1, {kOpenProvisional, Commit(1), kOpenProvisional, Commit(2)}}, {"A", 0, {kOpen}}, {"R", 0, {kRead}}}};
}
Scenario WithoutBase() {
  return {.name = "a first launch without base",
          .actors = {{"A", 0, {kOpen}}, {"B", 0, {kOpen}}, {"R", 0, {kRead}}},
          .counted = static_cast<Mask>(Bit(0) | Bit(1)),
          .based = false};
}
Scenario MayNotWrite() {
  return {"a reader that may not write, an opener, a committer, a remover",
          {{"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"P", 1, {Remove(0)}}, {"R", 0, {kReadOnly}}}};
}

std::vector<Scenario> Small() {
  return {TwoOpeners(),  TwoThatCommit(), UnderTwoLaunches(), TwiceUnderOne(),          CommitterAndRemover(),
          RemoverAnew(), Users(),         Provisional(),      ProvisionalThatRemoves(), WithoutBase()};
}

std::vector<Scenario> Large() {
  return {
      Removers(),
      RemoverAndReader(),
      OpenerThatRemoves(),
      Chain(),
      MayNotWrite(),
      {"three openers, a committer", {{"A", 0, {kOpen}}, {"B", 0, {kOpen}}, {"D", 0, {kOpen}}, {"C", 1, {Commit(1)}}}},
      {"an opener that commits, one that removes, a committer, a reader",
       {{"A", 0, {kOpen, Commit(1)}}, {"B", 0, {kOpen, Remove(0)}}, {"C", 1, {Commit(1)}}, {"R", 0, {kRead}}}},
      {"an opener that commits, an opener, a committer, a remover",
       {{"A", 0, {kOpen, Commit(2)}}, {"B", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"P", 1, {Remove(0)}}}},
      {"a provisional launch, an opener, a committer, a reader",
       {{"P", 1, {kOpenProvisional, Commit(2)}}, {"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"R", 0, {kRead}}}}};
}

std::string Show(const Outcome& outcome) {
  std::string text = "invariant " + std::to_string(outcome.violated) + ": " + outcome.how + "\n";
  for (const std::string& step : outcome.trace) text += "  " + step + "\n";
  return text;
}

class FenceModelTest : public testing::Test {
 protected:
  // All that actors were told.
  std::set<std::string> ExploreAll(const std::vector<Scenario>& scenarios) {
    std::set<std::string> told;
    std::size_t states = 0;
    const auto start = std::chrono::steady_clock::now();
    for (const Scenario& scenario : scenarios) {
      const Outcome outcome = Explore(scenario);
      EXPECT_TRUE(outcome.complete) << scenario.name << ", after " << outcome.states << " states\n" << Show(outcome);
      std::printf("%8zu states %9zu steps  %s\n", outcome.states, outcome.steps, scenario.name.c_str());
      states += outcome.states;
      told.insert(outcome.told.begin(), outcome.told.end());
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const auto rate = static_cast<std::size_t>(static_cast<double>(states) / std::max(seconds.count(), 1e-3));
    std::printf("%8zu states in all, %zu each second\n", states, rate);
    RecordProperty("states", std::to_string(states));
    RecordProperty("states_per_second", std::to_string(rate));
    return told;
  }
};

TEST_F(FenceModelTest, NoOrderOfStepsViolatesAnInvariant) {
  std::vector<Scenario> scenarios = Small();
  const std::vector<Scenario> large = Large();
  scenarios.insert(scenarios.end(), large.begin(), large.end());
  const std::set<std::string> all = {"abandoned",
                                     "not abandoned",
                                     "commit counts",
                                     "commit fenced",
                                     "removal goes on",
                                     "removal void",
                                     "removed before its commit"};
  EXPECT_EQ(ExploreAll(scenarios), all);
}

TEST_F(FenceModelTest, ListingsThatAreNotOfOneInstantDoNoHarm) {
  std::vector<Scenario> scenarios = Small();
  for (Scenario& scenario : scenarios) scenario.slow_listings = true;
  ExploreAll(scenarios);
}

TEST_F(FenceModelTest, AReaderMayLookAtScrBeforeItLooksAtTheLaunches) {
  for (Scenario scenario : {RemoverAndReader(), OpenerThatRemoves(), UnderTwoLaunches(), Users(), MayNotWrite()}) {
    scenario.mutation = Mutation::kLaunchesAfterScr;
    const Outcome outcome = Explore(scenario, {1, 2, 3, 4, 5, 7, 8});
    EXPECT_TRUE(outcome.complete) << scenario.name << "\n" << Show(outcome);
  }
}

// A reader that cannot ask the server anew reads what its client has kept. design.md has no remedy for it: it may see
// a commit that was fenced, and count it, for as long as its client keeps listings.
TEST_F(FenceModelTest, AReaderThatMayNotWriteAndSeesStaleListingsMayReadAFencedCommit) {
  Scenario scenario = {"", {{"A", 0, {kOpen}}, {"C", 1, {Commit(1)}}, {"R", 0, {kReadStale}}}};
  const Outcome outcome = Explore(scenario, {2});
  EXPECT_EQ(outcome.violated, 2);
  scenario.actors[2].acts = {kReadOnly};
  EXPECT_TRUE(Explore(scenario).complete);
}

struct Mutated {
  const char* name;
  Mutation mutation;
  int invariant;
  Scenario scenario;
};

void PrintTo(const Mutated& mutated, std::ostream* out) {
  *out << mutated.name;
}

class FenceMutationTest : public testing::TestWithParam<Mutated> {};

TEST_P(FenceMutationTest, IsNoticed) {
  Scenario scenario = GetParam().scenario;
  scenario.mutation = GetParam().mutation;
  const Outcome outcome = Explore(scenario, {GetParam().invariant});
  EXPECT_EQ(outcome.violated, GetParam().invariant) << outcome.states << " states";
  EXPECT_FALSE(outcome.trace.empty());
  std::printf("%s", Show(outcome).c_str());
}

Scenario Slow(Scenario scenario) {
  scenario.slow_listings = true;
  return scenario;
}

INSTANTIATE_TEST_SUITE_P(
    Each, FenceMutationTest,
    testing::Values(
        Mutated{"LaunchByLook", Mutation::kLaunchByLook, 5, TwoOpeners()},
        Mutated{"BaseByLook", Mutation::kBaseByLook, 5, TwoOpeners()},
        Mutated{"BaseByLookLosesACommit", Mutation::kBaseByLook, 1, TwoOpeners()},
        Mutated{"CommitLooksFirst", Mutation::kCommitLooksFirst, 1, TwoOpeners()},
        Mutated{"CommitLooksPlainly", Mutation::kCommitLooksPlainly, 1, TwoOpeners()},
        Mutated{"BaseLooksPlainlyForFolders", Mutation::kBaseLooksPlainlyForFolders, 1, TwoOpeners()},
        Mutated{"BaseLooksPlainlyForMarks", Mutation::kBaseLooksPlainlyForFolders, 3, CommitterAndRemover()},
        Mutated{"BaseLooksPlainlyForCommits", Mutation::kBaseLooksPlainlyForCommits, 1, TwoOpeners()},
        Mutated{"ActsBeforeBase", Mutation::kActsBeforeBase, 3, CommitterAndRemover()},
        Mutated{"OwnListForBase", Mutation::kOwnListForBase, 2, UnderTwoLaunches()},
        Mutated{"OwnListForBaseTellsTwice", Mutation::kOwnListForBase, 1, TwoOpeners()},
        Mutated{"NoOlderBases", Mutation::kNoOlderBases, 1, TwoOpeners()},
        Mutated{"NoOlderBasesLosesAMark", Mutation::kNoOlderBases, 3, RemoverAndReader()},
        Mutated{"RemoveWithoutMark", Mutation::kRemoveWithoutMark, 3, CommitterAndRemover()},
        Mutated{"RemoveWithoutLook", Mutation::kRemoveWithoutLook, 3, CommitterAndRemover()},
        Mutated{"RemoveUnmarksFirst", Mutation::kRemoveUnmarksFirst, 3, CommitterAndRemover()},
        Mutated{"BaseWithoutMarks", Mutation::kBaseWithoutMarks, 3, CommitterAndRemover()},
        Mutated{"ReadsEveryCommit", Mutation::kReadsEveryCommit, 2, TwoOpeners()},
        Mutated{"ReadsEveryCommitAfterItsBase", Mutation::kReadsEveryCommit, 4, TwoOpeners()},
        Mutated{"LaunchesBeforeRecords", Mutation::kLaunchesBeforeRecords, 2, UnderTwoLaunches()},
        Mutated{"LaunchesBeforeRecordsAfterItsBase", Mutation::kLaunchesBeforeRecords, 4, UnderTwoLaunches()},
        Mutated{"LaunchesAfterRecords", Mutation::kLaunchesAfterRecords, 8, RemoverAndReader()},
        Mutated{"ReadsMarksLast", Mutation::kReadsMarksLast, 1, RemoverAndReader()},
        Mutated{"ReadsMarksAfterData", Mutation::kReadsMarksAfterData, 8, RemoverAndReader()},
        Mutated{"ReadsScrPlainly", Mutation::kReadsScrPlainly, 1, UnderTwoLaunches()},
        Mutated{"ReadsDataPlainly", Mutation::kReadsDataPlainly, 1, UnderTwoLaunches()},
        Mutated{"ReadsDataPlainlyAfterItsRemoval", Mutation::kReadsDataPlainly, 8, Users()},
        Mutated{"ReadsLaunchesPlainly", Mutation::kReadsLaunchesPlainly, 2, UnderTwoLaunches()},
        Mutated{"BelievesGaps", Mutation::kBelievesGaps, 1, Slow(TwoThatCommit())},
        Mutated{"AbandonedIgnored", Mutation::kAbandonedIgnored, 7, Provisional()},
        Mutated{"AbandonedNotInherited", Mutation::kAbandonedNotInherited, 7, Chain()},
        Mutated{"AbandonedRemoves", Mutation::kAbandonedRemoves, 7, ProvisionalThatRemoves()}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace cairn::fence
