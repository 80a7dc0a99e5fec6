// What it costs that a launch runs over several nodes: `cairnd`s in networks of their own (tests/support/cluster), one
// disk for all. Launches alternate between
//   16 ranks of 1 MiB on 4 nodes, and on one;
//   the same, and a launch of its own on each of the 4 nodes at the same time: as much for the processors to do;
//   the same with each frame between nodes 20 ms late, and without: what does a call wait for that comes from there?
//   8 ranks of 1 MiB on each of 2 nodes, each of which has a processor of its own, as nodes have, and a launch of its
//   own on each of them;
//   4 ranks of 8 MiB on each of 4 nodes, each of which has an eighth of the disk and of 10 Gbit/s, and one such node's
//   4 ranks alone.
// A launch's figure is the median of its checkpoints but the first, each as long as its slowest rank; of several
// launches at the same time the slowest one's.
// Caches and prefix are in TEST_TMPDIR, or /tmp.
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "storage/base/check.h"
#include "tests/bench/arguments.h"
#include "tests/bench/disk_share.h"
#include "tests/bench/ratio.h"
#include "tests/bench/raw_io.h"
#include "tests/integration/process.h"
#include "tests/support/cluster/cluster.h"

namespace cairn::bench {
namespace {

using testing::Cluster;
using testing::Process;

constexpr int kNodes = 4, kShares = 8;
constexpr std::uint64_t kLinkBits = 10'000'000'000;

enum Figure { kBlocked, kLocal, kPrefix, kFigures };
using Figures = std::array<double, kFigures>;  // ms

// What each rank writes, and how often.
struct Load {
  int kib = 0, steps = 0;
};

struct Kind {
  std::string name;
  std::vector<std::vector<int>> launches;
  std::chrono::milliseconds delay{0};  // of each frame between nodes
};

// Whatever is started there has this processor only; -1: all.
void OnProcessor(int processor, const std::function<void()>& start) {
  if (processor < 0) return start();
  cpu_set_t before, only;
  CAIRN_CHECK(::sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  CAIRN_CHECK(::sched_setaffinity(0, sizeof only, &only) == 0);
  start();
  CAIRN_CHECK(::sched_setaffinity(0, sizeof before, &before) == 0);
}

class Nodes {
 public:
  Nodes() {
    auto cluster = Cluster::Start({.nodes = kNodes});
    if (!cluster.ok()) fmt::print("no cluster here: {}\n", cluster.status().ToString());
    CAIRN_CHECK(cluster.ok());
    cluster_ = *std::move(cluster);
  }
  // `share`: of the disk, for each node; null: it is there for all. `processors`: node n has the n-th, alone or
  // together with those after as many more; 0: all have all.
  void Start(DiskShare* share, int processors) {
    processors_ = processors;
    const std::vector<std::string> flags = {"--peers-interface", "eth0", "--flush-every", "1"};
    for (int node = 1; node <= kNodes; ++node) {
      const auto start = [&] {
        OnProcessor(ProcessorOf(node), [&] { CAIRN_CHECK(cluster_->node(node).StartDaemon(flags)); });
      };
      share != nullptr ? share->In(node, start) : start();
    }
  }
  void ThrottleLinks(std::uint64_t bits_per_second) {
    for (int node = 1; node <= kNodes; ++node) cluster_->Throttle(node, bits_per_second);
  }
  const std::string& folder() const { return cluster_->folder(); }
  void Stop() {
    for (int node = 1; node <= kNodes; ++node) cluster_->node(node).StopDaemon();
  }
  // Each at the same time as the others, with a rank on each of `launches[i]`, and a run of its own of each name.
  Figures Launch(const Kind& kind, const Load& load) {
    SetDelay(kind.delay);
    std::vector<Ranks> started;
    for (std::size_t i = 0; i < kind.launches.size(); ++i) {
      started.push_back(Start(fmt::format("{}.{}", kind.name, i), kind.launches[i], load));
    }
    Figures slowest{};
    for (const Ranks& ranks : started) {
      const Figures figures = Finish(ranks, load.steps);
      for (std::size_t i = 0; i < kFigures; ++i) slowest[i] = std::max(slowest[i], figures[i]);
    }
    return slowest;
  }

 private:
  using Ranks = std::vector<std::unique_ptr<Process>>;

  Ranks Start(const std::string& run, const std::vector<int>& nodes, const Load& load) {
    Ranks ranks;
    const std::string key = fmt::format("job.{}", ++launches_);
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
      Process::Options options =
          cluster_->node(nodes[rank])
              .Client("tests/bench/nodes_rank", {std::to_string(load.steps), std::to_string(load.kib)});
      options.environment["CAIRN_PREFIX"] = cluster_->prefix() + "/" + run;
      options.environment["CAIRN_RANK"] = std::to_string(rank);
      options.environment["CAIRN_NRANKS"] = std::to_string(nodes.size());
      options.environment["CAIRN_LAUNCH"] = key;
      OnProcessor(ProcessorOf(nodes[rank]), [&] { ranks.push_back(cluster_->StartProgram(nodes[rank], options)); });
    }
    return ranks;
  }
  static Figures Finish(const Ranks& ranks, int count) {
    std::array<std::vector<double>, kFigures> steps;
    for (auto& figure : steps) figure.assign(static_cast<std::size_t>(count), 0);
    for (const auto& rank : ranks) {
      const testing::Ending ending = rank->Wait(std::chrono::seconds(300));
      if (ending.exit_code != 0) fmt::print("{}\n", ending.output);
      CAIRN_CHECK(ending.exit_code == 0);
      std::istringstream said(ending.output);
      for (int step = 0; step < count; ++step) {
        for (auto& figure : steps) {
          double ms = 0;
          CAIRN_CHECK(said >> ms);
          figure[static_cast<std::size_t>(step)] = std::max(figure[static_cast<std::size_t>(step)], ms);
        }
      }
    }
    Figures median{};
    for (std::size_t i = 0; i < kFigures; ++i) {
      std::ranges::sort(steps[i].begin() + 1, steps[i].end());
      median[i] = steps[i][1 + (steps[i].size() - 1) / 2];
    }
    return median;
  }

  void SetDelay(std::chrono::milliseconds delay) {
    if (delay == delay_) return;
    for (int node = 1; node <= kNodes; ++node) {
      delay.count() > 0 ? cluster_->Delay(node, delay) : cluster_->Heal(node);
    }
    delay_ = delay;
  }

  int ProcessorOf(int node) const { return processors_ == 0 ? -1 : (node - 1) % processors_; }

  std::unique_ptr<Cluster> cluster_;
  int processors_ = 0;
  int launches_ = 0;
  std::chrono::milliseconds delay_{0};
};

std::vector<int> Spread(int ranks, int nodes) {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(1 + rank % nodes);
  return all;
}

struct Options {
  int pairs = 15;
  std::string part;
};

void Compare(Nodes& nodes, const std::string& what, const Load& load, const Kind& ours, const Kind& theirs,
             const Options& options) {
  if (what.find(options.part) == std::string::npos) return;
  std::array<std::vector<Ratio>, kFigures> ratios;
  std::array<std::vector<double>, kFigures> more;
  for (int pair = 0; pair < options.pairs; ++pair) {
    Figures us{}, them{};
    for (const bool first : {pair % 2 == 0, pair % 2 != 0}) {
      (first ? us : them) = nodes.Launch(first ? ours : theirs, load);
    }
    for (std::size_t i = 0; i < kFigures; ++i) {
      ratios[i].push_back({.measured = us[i] / 1e3, .limit = them[i] / 1e3});
      more[i].push_back(us[i] - them[i]);
    }
  }
  constexpr std::array<const char*, kFigures> kNames = {"blocked", "to local", "to prefix"};
  for (std::size_t i = 0; i < kFigures; ++i) {
    PrintRatios(fmt::format("{}, {}", what, kNames[i]), ratios[i], theirs.name);
    std::ranges::sort(more[i]);
    fmt::print("    {:+.1f} ms in the median\n", more[i][more[i].size() / 2]);
  }
  std::fflush(stdout);
}

// What the disk takes when nothing else is written.
double DiskBytesPerSecond(const std::string& folder) {
  const std::vector<std::byte> zeros(64 << 20);
  void* aligned = std::aligned_alloc(4096, zeros.size());
  std::memcpy(aligned, zeros.data(), zeros.size());
  std::vector<double> seconds;
  for (int i = 0; i < 5; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    RawWrite(folder + "/raw", std::span(static_cast<const std::byte*>(aligned), zeros.size()), /*sync=*/true);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  std::free(aligned);
  std::ranges::sort(seconds);
  return static_cast<double>(zeros.size()) / seconds[seconds.size() / 2];
}

void Run(const Options& options) {
  Nodes nodes;
  nodes.Start(nullptr, 0);
  constexpr Load kSmall = {.kib = 1024, .steps = 8};
  const Kind four = {"four-nodes", {Spread(16, 4)}};
  Compare(nodes, "16 ranks of 1 MiB on 4 nodes", kSmall, four, {"one-node", {Spread(16, 1)}}, options);
  Compare(nodes, "16 ranks of 1 MiB on 4 nodes", kSmall, four,
          {"each-for-itself", {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}, {4, 4, 4, 4}}}, options);
  Compare(nodes, "16 ranks of 1 MiB on 4 nodes, frames 20 ms late", kSmall,
          {"late", {Spread(16, 4)}, std::chrono::milliseconds(20)}, four, options);
  nodes.Stop();
  if (std::thread::hardware_concurrency() >= 2) {
    nodes.Start(nullptr, 2);
    Compare(nodes, "8 ranks of 1 MiB on each of 2 nodes, a processor each", kSmall, {"two-nodes", {Spread(16, 2)}},
            {"each-for-itself", {std::vector<int>(8, 1), std::vector<int>(8, 2)}}, options);
    nodes.Stop();
  }
  const double disk = DiskBytesPerSecond(nodes.folder());
  const auto share = DiskShare::Make(nodes.folder(), static_cast<std::uint64_t>(disk / kShares));
  if (!share.ok()) fmt::print("each node has all of the disk: {}\n", share.status().ToString());
  nodes.ThrottleLinks(kLinkBits / kShares);
  const std::string what = fmt::format("4 ranks of 8 MiB on each of 4 nodes, {:.0f} MB/s each", disk / kShares / 1e6);
  constexpr Load kThrottled = {.kib = 8192, .steps = 4};
  nodes.Start(share.ok() ? share->get() : nullptr, 0);
  Compare(nodes, what, kThrottled, four, {"that-node-alone", {Spread(4, 1)}}, options);
  nodes.Stop();
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Options options;
  cairn::bench::ReadArguments(argc, argv, "What it costs that a launch runs over several nodes.",
                              {{"PAIRS", "so many times", cairn::bench::Number(options.pairs)},
                               {"PART", "only comparisons whose name has it", cairn::bench::Text(options.part)}});
  cairn::bench::Run(options);
  return 0;
}
