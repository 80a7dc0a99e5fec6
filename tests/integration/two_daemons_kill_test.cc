// Two daemons, each with a cache of its own, serve one prefix in turn while anything is killed at any time; between
// launches the prefix is copied and renamed. Clients log outside the daemons what they were promised. Every checkpoint
// carries the number of its launch, so each restart tells whose state came back. Instants are drawn from
// CAIRN_TEST_SEED; CAIRN_SOAK=N runs N rounds.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "storage/base/ids.h"
#include "tests/integration/harness.h"
#include "tests/integration/promises.h"

namespace cairn::testing {
namespace {

constexpr char kClient[] = "tests/integration/crash_client";
constexpr int kRanks = 2;
constexpr std::chrono::seconds kDeadline(60);

int Rounds() {
  const char* soak = std::getenv("CAIRN_SOAK");
  return soak != nullptr ? std::max(25, std::atoi(soak)) : 25;
}

// A checkpoint as its content tells it. Launches of one directory have rising numbers, and so do the steps of one.
struct Point {
  std::uint64_t launch = 0, step = 0;
  auto operator<=>(const Point&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Point& point) {
  return out << "step " << point.step << " of launch " << point.launch;
}

struct Resumed {
  Point from;
  std::uint64_t dataset = 0;
  int tier = 0;
};

// What became of a launch, as its clients tell.
struct Launch {
  std::uint64_t number = 0;
  std::size_t node = 0;
  std::optional<Resumed> resumed;                                  // none: it was killed before it could say
  std::map<std::uint64_t, std::uint64_t> captured, local, prefix;  // dataset -> step
};

// A prefix, and its launches in their order.
struct Directory {
  std::string path;
  std::vector<Launch> history;
};

// The ranks of a launch that runs.
struct Ranks {
  Launch launch;
  std::array<std::unique_ptr<Process>, kRanks> processes;
  std::array<std::string, kRanks> files;  // of promises
};

class TwoDaemonsKillTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = nodes_[0].folder() + "/shared";
    std::filesystem::create_directory(root_);
    parent_.path = root_ + "/run0";
    std::filesystem::create_directory(parent_.path);
    std::cerr << "CAIRN_TEST_SEED=" << seed_ << "\n";
  }
  void TearDown() override {
    if (HasFailure()) std::cerr << "CAIRN_TEST_SEED=" << seed_ << " repeats this, round " << round_ << "\n";
  }

  std::uint64_t Draw(std::uint64_t below) {
    return std::uniform_int_distribution<std::uint64_t>(0, below - 1)(random_);
  }

  // The harness gives leases a term of a second.
  bool StartDaemon(std::size_t node) {
    if (nodes_[node].daemon() != nullptr) return true;
    return nodes_[node].StartDaemon(
        {"--cache-node", node == 0 ? "node-a" : "node-b", "--flush-every", "2", "--prefix-keep-last", "6"});
  }
  void KillDaemon(std::size_t node) {
    if (nodes_[node].daemon() == nullptr) return;
    nodes_[node].KillDaemon();
    ++daemons_killed_;
  }

  Ranks Start(Directory& directory, std::size_t node, std::uint64_t steps, bool takeover) {
    Ranks ranks;
    ranks.launch.number = ++launches_;
    ranks.launch.node = node;
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks.files[rank] = root_ + "/promises." + std::to_string(launches_) + "." + std::to_string(rank);
      std::vector<std::string> arguments = {
          "--mib",      "1",           "--steps", std::to_string(steps),     "--flush-every", "3",
          "--no-check", "--wait-busy", "--line",  std::to_string(launches_), "--promises",    ranks.files[rank]};
      if (takeover) arguments.push_back("--takeover");
      Process::Options options = nodes_[node].Client(kClient, arguments);
      options.environment["CAIRN_PREFIX"] = directory.path;
      options.environment["CAIRN_LAUNCH"] = "launch " + std::to_string(launches_);
      options.environment["CAIRN_RANK"] = std::to_string(rank);
      options.environment["CAIRN_NRANKS"] = std::to_string(kRanks);
      ranks.processes[rank] = Process::Start(options);
    }
    return ranks;
  }
  bool AwaitOpen(Ranks& ranks) {
    for (auto& process : ranks.processes) {
      if (process->WaitForOutput("\n", kDeadline)) continue;
      ADD_FAILURE() << Where() << ": launch " << ranks.launch.number
                    << " did not open: " << process->Wait(std::chrono::seconds(0)).output;
      return false;
    }
    return true;
  }
  void AwaitLocal(const Ranks& ranks, std::size_t count) {
    EXPECT_TRUE(AwaitPromises(ranks.files[0], "local", count)) << Where() << ", launch " << ranks.launch.number;
  }
  void Kill(Ranks& ranks, int rank) {
    if (!ranks.processes[rank]->running()) return;
    ranks.processes[rank]->Signal(SIGKILL);
    ++ranks_killed_;
  }

  // What the launch was promised so far.
  static void Gather(Ranks& ranks) {
    for (const std::string& file : ranks.files) {
      Promises promises = ReadPromises(file);
      ranks.launch.captured.merge(promises.by_kind["captured"]);
      ranks.launch.local.merge(promises.by_kind["local"]);
      ranks.launch.prefix.merge(promises.by_kind["prefix"]);
    }
  }
  // Waits for the end of all ranks; the launch is held against the directory's history and becomes part of it.
  void End(Directory& directory, Ranks& ranks) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const Ending ending = ranks.processes[rank]->Wait(kDeadline);
      EXPECT_TRUE(ending.signal == SIGKILL || ending.exit_code == 0 || ending.exit_code == 6)
          << Where() << ", launch " << ranks.launch.number << ", rank " << rank << ": exit " << ending.exit_code
          << ", signal " << ending.signal << ": " << ending.output;
      const std::optional<Resumed> resumed = Parse(ending.output);
      if (!resumed) continue;
      EXPECT_EQ(ranks.launch.resumed.value_or(*resumed).from, resumed->from) << Where() << ": ranks disagree";
      ranks.launch.resumed = resumed;
    }
    Gather(ranks);
    for (const std::string& file : ranks.files) std::filesystem::remove(file);
    if (ranks.launch.resumed) Check(directory, ranks.launch);
    std::cerr << Where() << ": launch " << ranks.launch.number << " in " << directory.path.substr(root_.size())
              << " on node " << ranks.launch.node << ": ";
    if (ranks.launch.resumed) {
      std::cerr << "from " << ranks.launch.resumed->from << ", tier " << ranks.launch.resumed->tier;
      ++tiers_[ranks.launch.resumed->tier];
    }
    std::cerr << "; local " << NewestStep(ranks.launch.local) << ", prefix " << NewestStep(ranks.launch.prefix) << "\n";
    const auto later = [&](const Launch& launch) { return launch.number > ranks.launch.number; };
    directory.history.insert(std::ranges::find_if(directory.history, later), ranks.launch);
  }

  static std::optional<Resumed> Parse(const std::string& output) {
    std::istringstream words(output);
    std::string word;
    Resumed resumed;
    if (output.find('\n') == std::string::npos || !(words >> word)) return std::nullopt;
    if (word == "fresh") return resumed;
    if (word != "resumed") return std::nullopt;
    words >> resumed.from.step >> resumed.dataset >> resumed.tier >> resumed.from.launch;
    return resumed;
  }

  void Check(const Directory& directory, const Launch& launch) {
    const Point from = launch.resumed->from;
    const std::string where = Where() + ", launch " + std::to_string(launch.number);
    Point promised_prefix, promised_local;
    bool same_node = true;  // no launch of the other node lies between
    const Launch* maker = nullptr;
    for (auto before = directory.history.rbegin(); before != directory.history.rend(); ++before) {
      if (before->number >= launch.number) continue;
      promised_prefix = std::max(promised_prefix, {before->number, NewestStep(before->prefix)});
      if (before->prefix.empty() && promised_prefix.launch == before->number) promised_prefix = {};
      same_node = same_node && before->node == launch.node;
      if (same_node && !before->local.empty()) {
        promised_local = std::max(promised_local, {before->number, NewestStep(before->local)});
      }
      if (before->number == from.launch) maker = &*before;
    }
    EXPECT_GE(from, promised_prefix) << where << ": lost what was promised at level prefix";
    EXPECT_GE(from.step, promised_prefix.step) << where << ": older than what was promised at level prefix";
    EXPECT_GE(from, promised_local) << where << ": lost what was promised at level local";
    if (from == Point()) return;
    ASSERT_NE(maker, nullptr) << where << ": " << from << " was made in another directory";
    const auto captured = maker->captured.find(launch.resumed->dataset);
    if (captured != maker->captured.end()) {
      EXPECT_EQ(captured->second, from.step) << where << ": dataset " << launch.resumed->dataset;
    }
  }

  // Half of the instants lie anywhere in opening and restoring, the others in the steps thereafter.
  void LetWork(Ranks& ranks) {
    if (Draw(4) == 0) return LetItWorkFor(std::chrono::microseconds(Draw(1'500'000)));
    if (!AwaitOpen(ranks)) return;
    AwaitLocal(ranks, Draw(5));
    LetItWorkFor(std::chrono::microseconds(Draw(60'000)));
  }

  void EndSomehow(Directory& directory, Ranks& ranks) {
    const std::uint64_t how = Draw(5);
    if (how == 0 || how == 1) KillDaemon(ranks.launch.node);
    if (how == 1 && Draw(2) == 0) {
      // The same processes go on with the next daemon of this cache.
      ASSERT_TRUE(StartDaemon(ranks.launch.node));
      if (AwaitOpen(ranks)) AwaitLocal(ranks, ReadPromises(ranks.files[0]).by_kind["local"].size() + 2);
    }
    if (how == 2) {
      Kill(ranks, static_cast<int>(Draw(kRanks)));
      LetItWorkFor(std::chrono::microseconds(Draw(20'000)));
    }
    for (int rank = 0; rank < kRanks; ++rank) Kill(ranks, rank);
    if (how == 3) KillDaemon(ranks.launch.node);
    End(directory, ranks);
  }

  void CleanRound(Directory& directory, std::size_t node) {
    std::uint64_t newest = 0;
    for (const Launch& launch : directory.history) newest = std::max(newest, NewestStep(launch.captured));
    Ranks ranks = Start(directory, node, newest + 1 + Draw(6), /*takeover=*/false);
    if (!AwaitOpen(ranks)) return;
    End(directory, ranks);
  }

  // A launch takes over while the one before still works, on the other node or on the same.
  void Overlap(Directory& directory, std::size_t node) {
    Ranks first = Start(directory, node, kStepsMax, /*takeover=*/false);
    if (!AwaitOpen(first)) return;
    AwaitLocal(first, 1 + Draw(3));
    const std::size_t other = Draw(4) == 0 ? node : 1 - node;
    ASSERT_TRUE(StartDaemon(other));
    Ranks second = Start(directory, other, kStepsMax, /*takeover=*/true);
    LetWork(second);
    const bool opened = second.processes[0]->WaitForOutput("\n", std::chrono::seconds(0));
    if (opened && Draw(2) == 0) {
      for (auto& rank : first.processes) EXPECT_EQ(rank->Wait(kDeadline).exit_code, 6) << Where() << ": not fenced";
    }
    for (int rank = 0; rank < kRanks; ++rank) Kill(first, rank);
    End(directory, first);
    EndSomehow(directory, second);
  }

  // The copy becomes a branch: it has what the parent had on its prefix, and goes its own way.
  void BranchOff(std::size_t node) {
    Directory branch{.path = root_ + "/branch" + std::to_string(round_), .history = parent_.history};
    // While a daemon flushes, a copy may hold a checkpoint half: it is held against the promises, but not verified.
    const bool quiet = Draw(2) == 0;
    for (std::size_t any = 0; quiet && any < nodes_.size(); ++any) KillDaemon(any);
    const Ending copy = Run({"cp", "-a", parent_.path, branch.path});
    for (Launch& launch : branch.history) launch.local.clear();  // these are in the parent's caches
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(StartDaemon(node));
      Ranks ranks = Start(branch, node, kStepsMax, /*takeover=*/false);
      if (!AwaitOpen(ranks)) return;
      AwaitLocal(ranks, 1 + Draw(3));
      EndSomehow(branch, ranks);
      if (Draw(2) == 0) node = 1 - node;
    }
    if (quiet) {
      EXPECT_EQ(copy.exit_code, 0) << copy.output;
      ExpectVerified(branch.path);
    }
    Remove(branch.path);
    ++branches_;
  }
  // Daemons may still write there.
  static void Remove(const std::string& path) {
    std::error_code error;
    for (int tries = 0; tries < 100 && std::filesystem::exists(path, error); ++tries) {
      std::filesystem::remove_all(path, error);
    }
    EXPECT_FALSE(std::filesystem::exists(path, error)) << path;
  }
  void Rename() {
    const std::string was = parent_.path;
    parent_.path = root_ + "/run" + std::to_string(round_ + 1);
    std::filesystem::rename(was, parent_.path);
    ++renames_;
  }

  static Ending Run(std::vector<std::string> arguments) {
    Process::Options options;
    options.arguments = std::move(arguments);
    return RunProcess(options);
  }
  void ExpectVerified(const std::string& path) {
    const Ending ending = Run({DataPath("client/cli/cairn"), "verify", path});
    EXPECT_EQ(ending.exit_code, 0) << Where() << ": " << ending.output;
  }

  std::string Where() const { return "round " + std::to_string(round_); }

  static constexpr std::uint64_t kStepsMax = 1'000'000;
  const std::uint64_t seed_ = TestSeed();
  std::mt19937_64 random_{seed_};
  std::array<Harness, 2> nodes_;
  std::string root_;
  Directory parent_;
  std::uint64_t launches_ = 0;
  int round_ = 0, daemons_killed_ = 0, ranks_killed_ = 0, branches_ = 0, renames_ = 0;
  std::map<int, int> tiers_;
};

TEST_F(TwoDaemonsKillTest, NothingPromisedIsLostAndNoBranchMixesWithItsParent) {
  const auto begun = std::chrono::steady_clock::now();
  std::size_t node = 0;
  for (; round_ < Rounds() && !HasFailure(); ++round_) {
    if (Draw(3) != 0) node = 1 - node;
    ASSERT_TRUE(StartDaemon(node)) << Where();
    const std::uint64_t kind = Draw(10);
    if (kind == 0) BranchOff(node);
    if (kind == 1) Rename();
    if (kind == 2) CleanRound(parent_, node);
    if (kind == 3 || kind == 4) {
      Overlap(parent_, node);
      continue;
    }
    ASSERT_TRUE(StartDaemon(node)) << Where();
    Ranks ranks = Start(parent_, node, kStepsMax, /*takeover=*/Draw(4) == 0);
    LetWork(ranks);
    EndSomehow(parent_, ranks);
  }
  for (Harness& harness : nodes_) {
    if (harness.daemon() == nullptr) continue;
    EXPECT_EQ(harness.StopDaemon().exit_code, 0);
  }
  ExpectVerified(parent_.path);
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begun).count();
  std::cerr << round_ << " rounds, " << launches_ << " launches, killed: " << daemons_killed_ << " daemons, "
            << ranks_killed_ << " ranks; " << branches_ << " branches, " << renames_ << " renames; restored from image "
            << tiers_[static_cast<int>(Tier::kImage)] << ", cache " << tiers_[static_cast<int>(Tier::kCache)]
            << ", prefix " << tiers_[static_cast<int>(Tier::kPrefix)] << "; " << seconds << " s\n";
}

}  // namespace
}  // namespace cairn::testing
