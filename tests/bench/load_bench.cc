// What checkpoints cost an application that computes on all cores, at an interval: a real daemon with its default
// settings, cache and prefix on one disk, every checkpoint flushed. Ranks compute a fixed amount, then call
// cairn_checkpoint, or in the other half of the blocks, by turns, copy the same bytes into touched memory instead.
//
//   first     the first and the second call of a launch, 2 s per GiB after cairn_protect, against memcpy
//   blocked   the calls after these: median, p99 and the longest, against memcpy at the same places
//   compute   the phase after a call, against the phase after a copy
//
//   load_bench [--ranks N] [--mib N] [--interval-ms N] [--calls N] [--blocks N] [--config TOML]
//
// One block is one launch with so many calls, and as many copies.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/ratio.h"
#include "tests/bench/raw_io.h"
#include "tests/bench/shared_memory.h"

namespace cairn::bench {
namespace {

constexpr std::size_t kRanksMax = 64;
constexpr std::size_t kGridBytes = 4 << 20;  // that a rank computes on: more than a core's own caches

struct Options {
  int ranks = 2;
  std::size_t mib = 256;
  int interval_ms = 3000;
  int calls = 20;
  int blocks = 15;
  std::string config;
  std::size_t bytes() const { return mib << 20; }
};

// Of all ranks' same call: the longest counts.
struct Times {
  double call = 0;
  double compute = 0;  // the phase after it
};

struct Shared {
  pthread_barrier_t barrier;
  Times times[kRanksMax];
};

// A relaxation on a grid of one dimension; so many sweeps take the interval when nothing else runs.
class Work {
 public:
  Work() : grid_(kGridBytes / sizeof(double), 1.0) {}
  void Calibrate(double seconds) {
    sweeps_ = 20;
    const double start = Now();
    Run();
    sweeps_ = std::max(1, static_cast<int>(std::lround(sweeps_ * seconds / (Now() - start))));
  }
  void Run() {
    for (int sweep = 0; sweep < sweeps_; ++sweep) {
      for (std::size_t i = 1; i + 1 < grid_.size(); ++i) {
        grid_[i] = 0.25 * grid_[i - 1] + 0.5 * grid_[i] + 0.25 * grid_[i + 1];
      }
    }
  }

 private:
  std::vector<double> grid_;
  int sweeps_ = 0;
};

class RankProcess {
 public:
  RankProcess(const Options& options, const Daemon& daemon, Shared* shared, int rank)
      : options_(options), daemon_(daemon), shared_(shared), rank_(rank) {}

  void Run() {
    data_ = Touched(options_.bytes(), rank_ + 1);
    target_ = Touched(options_.bytes(), 0);
    Together();
    work_.Calibrate(options_.interval_ms / 1e3);
    for (int block = 0; block < options_.blocks; ++block) {
      for (const bool copies : {block % 2 == 0, block % 2 != 0}) copies ? Copies() : Checkpoints(block);
    }
  }

 private:
  void Together() { pthread_barrier_wait(&shared_->barrier); }
  // The parent takes what all ranks have noted.
  void Tell(const Times& times) {
    shared_->times[rank_] = times;
    Together();
    Together();
  }
  double Compute() {
    const double start = Now();
    work_.Run();
    return Now() - start;
  }

  void Copies() {
    Compute();
    for (int call = 0; call < options_.calls + 2; ++call) {
      Together();
      const double start = Now();
      std::memcpy(target_, data_, options_.bytes());
      Times times{.call = Now() - start};
      times.compute = Compute();
      Tell(times);
    }
  }

  void Checkpoints(int block) {
    cairn_session* session = OpenRank(daemon_, rank_, options_.ranks, fmt::format("block {}", block));
    Check(cairn_protect(session, 1, data_, options_.bytes(), CAIRN_BYTE), session, "cairn_protect");
    const double ready = Now() + 2.0 * static_cast<double>(options_.bytes()) / (1u << 30);
    do Compute();
    while (Now() < ready);
    std::uint64_t dataset = 0;
    for (int call = 0; call < options_.calls + 2; ++call) {
      data_[0] = static_cast<std::byte>(call);
      Together();
      const double start = Now();
      Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
      const double returned = Now();
      Times times{.call = returned - start};
      times.compute = Compute();
      Tell(times);
    }
    Check(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 600000), session, "cairn_wait");
    Check(cairn_close(session), nullptr, "cairn_close");
    Together();
  }

  const Options& options_;
  const Daemon& daemon_;
  Shared* const shared_;
  const int rank_;
  std::byte* data_ = nullptr;
  std::byte* target_ = nullptr;
  Work work_;
};

double Percentile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const auto at = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size()))) - 1;
  return values[std::min(at, values.size() - 1)];
}

// What the parent gathers.
struct Series {
  std::vector<Times> copies, calls;                    // the first two of each block are in `first`, too
  std::vector<Ratio> first, second, blocked, compute;  // by block: medians, ours and memcpy's
};

Times Hear(const Options& options, Shared* shared) {
  pthread_barrier_wait(&shared->barrier);
  Times all;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const Times& one = shared->times[rank];
    all = {std::max(all.call, one.call), std::max(all.compute, one.compute)};
  }
  pthread_barrier_wait(&shared->barrier);
  return all;
}

std::vector<double> Of(const std::vector<Times>& times, double Times::*what) {
  std::vector<double> values;
  for (const Times& one : times) values.push_back(one.*what);
  return values;
}

void OneBlock(const Options& options, Shared* shared, int block, Series& series) {
  std::vector<Times> copies, calls;
  for (const bool of_copies : {block % 2 == 0, block % 2 != 0}) {
    for (int call = 0; call < options.calls + 2; ++call) {
      pthread_barrier_wait(&shared->barrier);
      (of_copies ? copies : calls).push_back(Hear(options, shared));
    }
    if (!of_copies) pthread_barrier_wait(&shared->barrier);  // all is on the prefix
  }
  const double copied = Percentile(Of(copies, &Times::call), 0.5);
  series.first.push_back({calls[0].call, copied});
  series.second.push_back({calls[1].call, copied});
  copies.erase(copies.begin(), copies.begin() + 2);
  calls.erase(calls.begin(), calls.begin() + 2);
  series.blocked.push_back({Percentile(Of(calls, &Times::call), 0.5), Percentile(Of(copies, &Times::call), 0.5)});
  series.compute.push_back({Percentile(Of(calls, &Times::compute), 0.5), Percentile(Of(copies, &Times::compute), 0.5)});
  series.copies.insert(series.copies.end(), copies.begin(), copies.end());
  series.calls.insert(series.calls.end(), calls.begin(), calls.end());
}

void Measure(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", options.config);
  Shared* shared = MakeShared<Shared>(options.ranks + 1);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) {
      RankProcess(options, daemon, shared, rank).Run();
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  pthread_barrier_wait(&shared->barrier);
  Series series;
  for (int block = 0; block < options.blocks; ++block) OneBlock(options, shared, block, series);
  for (const pid_t pid : ranks) waitpid(pid, nullptr, 0);
  daemon.Stop();

  const std::string what = fmt::format("{} x {} MiB every {} ms", options.ranks, options.mib, options.interval_ms);
  PrintRatios(what + ", first call", series.first, "memcpy");
  PrintRatios(what + ", second call", series.second, "memcpy");
  PrintRatios(what + ", blocked", series.blocked, "memcpy");
  PrintRatios(what + ", compute after it", series.compute, "after memcpy");
  const std::vector<double> ours = Of(series.calls, &Times::call), theirs = Of(series.copies, &Times::call);
  fmt::print(
      "{}, {} calls: p99 {:.1f} ms, longest {:.1f} ms; memcpy: p99 {:.1f} ms, longest {:.1f} ms (p99 {:.2f} x)\n", what,
      ours.size(), Percentile(ours, 0.99) * 1e3, Percentile(ours, 1) * 1e3, Percentile(theirs, 0.99) * 1e3,
      Percentile(theirs, 1) * 1e3, Percentile(ours, 0.99) / Percentile(theirs, 0.99));
  const double gib = static_cast<double>(options.bytes()) * options.ranks * options.blocks * (options.calls + 2) / 1e9;
  fmt::print("  daemon: {:.3f} CPU s per GB\n", daemon.cpu_seconds() / gib);
}

Options Parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--ranks") {
      options.ranks = std::stoi(value);
    } else if (name == "--mib") {
      options.mib = std::stoul(value);
    } else if (name == "--interval-ms") {
      options.interval_ms = std::stoi(value);
    } else if (name == "--calls") {
      options.calls = std::stoi(value);
    } else if (name == "--blocks") {
      options.blocks = std::stoi(value);
    } else if (name == "--config") {
      options.config = value;
    } else {
      Die("unknown option " + name);
    }
  }
  if (options.ranks < 1 || options.ranks > static_cast<int>(kRanksMax)) Die("--ranks: 1 to 64");
  return options;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Measure(cairn::bench::Parse(argc, argv));
}
