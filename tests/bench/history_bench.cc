// What a long history costs: one rank whose every checkpoint goes to the prefix, and stays there. At some lengths: the
// time from the call to `prefix`, what of it `cairn_checkpoint` blocks, the daemon's memory, and how long a daemon that
// starts then needs until the rank knows from where to go on. To be compared with each other, in one run.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/ratio.h"
#include "tests/bench/raw_io.h"

namespace cairn::bench {
namespace {

constexpr int kPairs = 31;
constexpr int kSample = 31;  // of the checkpoints up to a length, the last ones are measured
constexpr std::size_t kElements = 64;
constexpr std::chrono::seconds kQuiet{25};
constexpr std::chrono::milliseconds kInterval{250};

struct Options {
  int arrays = 10;
  std::vector<int> lengths = {100, 1000, 5000, 10000};
  std::vector<int> pair;  // empty: `lengths` says them
};

constexpr char kConfig[] = "[flush]\nevery = 1\n[cache]\nkeep = 2\n";

double Quantile(std::vector<double> values, double quantile) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
}

class History {
 public:
  History(const Options& options, Daemon& daemon, std::string prefix)
      : daemon_(daemon),
        prefix_(std::move(prefix)),
        data_(static_cast<std::size_t>(options.arrays), std::vector<double>(kElements)) {
    Open();
  }

  struct Times {
    double blocked = 0, prefix = 0;
  };
  Times Checkpoint() {
    data_.front().front() = length_;
    const double start = Now();
    std::uint64_t dataset = 0;
    Check(cairn_checkpoint(session_, static_cast<std::uint64_t>(++length_), &dataset), session_, "checkpoint");
    const double returned = Now();
    Check(cairn_wait(session_, dataset, CAIRN_LEVEL_PREFIX, 120000), session_, "cairn_wait");
    return {.blocked = returned - start, .prefix = Now() - start};
  }
  void GrowUnmeasured(int length) {
    while (length_ < length) Checkpoint();
  }

  // As fast as it goes; then, when what that has left is tidied up, as an application would.
  void GrowTo(int length) {
    GrowUnmeasured(length - kSample);
    std::this_thread::sleep_for(kQuiet);
    std::vector<double> blocked, prefix;
    while (length_ < length) {
      std::this_thread::sleep_for(kInterval);
      const Times times = Checkpoint();
      blocked.push_back(times.blocked);
      prefix.push_back(times.prefix);
    }
    fmt::print("{:6} datasets: to `prefix` {:.1f} ms (p90 {:.1f}), blocked {:.2f} ms, {:.0f} MiB beyond images; ",
               length_, Quantile(prefix, 0.5) * 1e3, Quantile(prefix, 0.9) * 1e3, Quantile(blocked, 0.5) * 1e3,
               daemon_.MibBeyondImages());
  }

  void Restart() {
    Check(cairn_close(session_), nullptr, "cairn_close");
    daemon_.Stop();
    const double start = Now();
    daemon_.Start();
    const double up = Now();
    Open();
    const double open = Now();
    std::uint64_t step = 0;
    Check(cairn_resume(session_, &step), session_, "cairn_resume");
    if (step != static_cast<std::uint64_t>(length_)) Die(fmt::format("step {} came back", step));
    fmt::print("restart {:.2f} s (start {:.2f}, open {:.2f}), {:.0f} MiB\n", Now() - start, up - start, open - up,
               daemon_.MibBeyondImages());
    std::fflush(stdout);
  }

 private:
  void Open() {
    session_ = OpenRank(daemon_, 0, 1, fmt::format("after {}", length_), prefix_);
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const std::string name = fmt::format("field/{}", i);
      const std::uint64_t shape = kElements, from = 0;
      Check(cairn_protect_array(session_, static_cast<int>(i), name.c_str(), data_[i].data(), CAIRN_DOUBLE, 1, &shape,
                                &from, &shape, nullptr, nullptr),
            session_, "cairn_protect_array");
    }
  }

  Daemon& daemon_;
  const std::string prefix_;
  std::vector<std::vector<double>> data_;
  cairn_session* session_ = nullptr;
  int length_ = 0;
};

void ByTurns(const Options& options, Daemon& daemon) {
  History little(options, daemon, "short"), much(options, daemon, "long");
  little.GrowUnmeasured(options.pair[0]);
  much.GrowUnmeasured(options.pair[1]);
  std::this_thread::sleep_for(kQuiet);
  std::vector<Ratio> prefix, blocked;
  for (int i = 0; i < kPairs; ++i) {
    History::Times of_little, of_much;
    for (int turn = 0; turn < 2; ++turn) {
      std::this_thread::sleep_for(kInterval);
      if ((i + turn) % 2 == 0) {
        of_little = little.Checkpoint();
      } else {
        of_much = much.Checkpoint();
      }
    }
    prefix.push_back({.measured = of_much.prefix, .limit = of_little.prefix});
    blocked.push_back({.measured = of_much.blocked, .limit = of_little.blocked});
  }
  const std::string limit = fmt::format("{} datasets", options.pair[0]);
  PrintRatios(fmt::format("to `prefix`, {} datasets (bar 1.5)", options.pair[1]), prefix, limit);
  PrintRatios(fmt::format("blocked, {} datasets", options.pair[1]), blocked, limit);
}

int Main(int argc, char** argv) {
  Options options;
  ReadArguments(
      argc, argv, "What a long history costs.",
      {{"--arrays N", "that the rank protects", Number(options.arrays)},
       {"--lengths N,N,...", "checkpoints after which is measured", Numbers(options.lengths, kSample)},
       {"--pair N,N", "instead: two runs of one daemon, of these lengths, by turns", Numbers(options.pair, kSample)}});
  std::ranges::sort(options.lengths);
  std::ranges::sort(options.pair);
  if (!options.pair.empty() && options.pair.size() != 2) RefuseArguments("--pair takes two lengths");
  Daemon daemon(BenchFolder() + "/cairn-history", kConfig);
  if (!options.pair.empty()) {
    ByTurns(options, daemon);
    return 0;
  }
  History history(options, daemon, "prefix");
  for (const int length : options.lengths) {
    history.GrowTo(length);
    history.Restart();
  }
  return 0;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  return cairn::bench::Main(argc, argv);
}
