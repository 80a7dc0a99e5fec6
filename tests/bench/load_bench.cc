// What checkpoints cost an application that computes on all cores, at an interval: a real daemon with its default
// settings, cache and prefix on one disk, every checkpoint flushed. Ranks compute a fixed amount and change a byte of
// each page, so that every block is written, then call cairn_checkpoint; or, by turns, copy the same bytes into touched
// memory instead. What the disk gives at best is taken in between: the same bytes, written over files by direct I/O and
// synced, all ranks at the same time, one write after the other.
//
//   first     the first and the second call of a launch, 2 s per GiB of all ranks after cairn_protect, against memcpy
//   blocked   the calls after --settle ones: median, p99 and the longest, against memcpy at the same places; the
//             longest against the mean, too: do calls wait evenly where the disk cannot follow? Beside it, the same
//             of the raw writes
//   compute   the phase after a call, against the phase after a copy
//   local     from the return of a call until its dataset is `local`, as a rank finds out that asks every 5 ms while it
//             computes; a dataset that is not there when the next call begins does not count; beside a raw write
//
// One block is one launch with so many calls after those of --settle (2), as many copies and as many raw writes; the
// prefix keeps the newest four checkpoints, else 15 blocks would fill a disk. `auto`: twice the time from a call to
// `prefix` when nothing else runs, measured first: an interval that the disk can follow. With --table: a line for each
// of several sizes, numbers of ranks and intervals, from back to back to idle, as text, and as a picture into that
// file.
#include <fmt/format.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/plot.h"
#include "tests/bench/ratio.h"
#include "tests/bench/raw_io.h"
#include "tests/bench/relaxation.h"
#include "tests/bench/shared_memory.h"

namespace cairn::bench {
namespace {

constexpr int kRanksMax = 64;

struct Options {
  static constexpr int kAuto = -1;
  int ranks = 2;
  std::size_t mib = 256;
  int interval_ms = 3000;
  int settle = 2;
  int calls = 20;
  int blocks = 15;
  std::string config = "[prefix]\nkeep_last = 4";
  std::string table;  // file for the picture; empty: no table
  std::size_t bytes() const { return mib << 20; }
  int of_a_block() const { return settle + calls; }
};

// Of all ranks' same call: the longest counts.
struct Times {
  double call = 0;
  double compute = 0;  // the phase after it
  double local = 0;    // of a checkpoint; 0: not before the next call
  int block = 0;       // which call it was, from 1
  int of_block = 0;
};

enum class What { kCopies, kCheckpoints, kRawWrites };

// Each of the two that are compared comes first by turns.
std::array<What, 3> OrderOf(int block) {
  if (block % 2 == 0) return {What::kCopies, What::kCheckpoints, What::kRawWrites};
  return {What::kRawWrites, What::kCheckpoints, What::kCopies};
}

struct Shared {
  pthread_barrier_t barrier;
  Times times[kRanksMax];
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
      for (const What what : OrderOf(block)) {
        switch (what) {
          case What::kCopies:
            Copies();
            break;
          case What::kCheckpoints:
            Checkpoints(block);
            break;
          case What::kRawWrites:
            RawWrites();
            break;
        }
      }
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
    ChangeAll(data_, options_.bytes());
    return Now() - start;
  }
  // The same, and rank 0 looks out for the dataset.
  void ComputeAndWatch(cairn_session* session, std::uint64_t dataset, Times& times) {
    constexpr double kEvery = 5e-3;
    const double start = Now();
    double asked = start;
    work_.Run([&] {
      if (rank_ != 0 || times.local != 0 || Now() - asked < kEvery) return;
      std::int32_t reached = 0;
      Check(cairn_test(session, dataset, CAIRN_LEVEL_LOCAL, &reached), session, "cairn_test");
      asked = Now();
      if (reached != 0) times.local = asked - start;
    });
    ChangeAll(data_, options_.bytes());
    times.compute = Now() - start;
  }

  void Copies() {
    Compute();
    for (int call = 0; call < options_.of_a_block(); ++call) {
      Together();
      const double start = Now();
      std::memcpy(target_, data_, options_.bytes());
      Times times{.call = Now() - start};
      times.compute = Compute();
      Tell(times);
    }
  }

  void RawWrites() {
    const std::string files[] = {RawFile(0), RawFile(1)};
    for (const std::string& file : files) RawWrite(file, {data_, options_.bytes()}, /*sync=*/true);
    for (int call = 0; call < options_.of_a_block(); ++call) {
      ChangeAll(data_, options_.bytes());
      Together();
      const double start = Now();
      RawOverwrite(files[call % 2], {data_, options_.bytes()});
      Tell({.call = Now() - start});
    }
    for (const std::string& file : files) std::filesystem::remove(file);
  }
  std::string RawFile(int which) const { return fmt::format("{}/cairn-bench-raw-{}-{}", BenchFolder(), rank_, which); }

  void Checkpoints(int block) {
    cairn_session* session = OpenRank(daemon_, rank_, options_.ranks, fmt::format("block {}", block));
    Check(cairn_protect(session, 1, data_, options_.bytes(), CAIRN_BYTE), session, "cairn_protect");
    const double ready = Now() + 2.0 * static_cast<double>(options_.bytes()) * options_.ranks / (1u << 30);
    do Compute();
    while (Now() < ready);
    std::uint64_t dataset = 0;
    for (int call = 0; call < options_.of_a_block(); ++call) {
      Together();
      const double start = Now();
      Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
      const double returned = Now();
      Times times{.call = returned - start};
      ComputeAndWatch(session, dataset, times);
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
  Relaxation work_;
};

double Percentile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  const auto up_to = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
  return values[std::clamp<std::size_t>(up_to, 1, values.size()) - 1];
}

// What the parent gathers.
struct Series {
  std::vector<Times> copies, calls, raw;               // without those of --settle
  std::vector<Ratio> first, second, blocked, compute;  // by block: medians, ours and memcpy's
  double cpu_per_gb = 0;                               // seconds of the daemon, with the making of images
  double settled_cpu_seconds = 0;                      // the same, of the calls after --settle ones
};

Times Hear(const Options& options, Shared* shared) {
  pthread_barrier_wait(&shared->barrier);
  Times all;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const Times& one = shared->times[rank];
    all.call = std::max(all.call, one.call);
    all.compute = std::max(all.compute, one.compute);
    all.local = std::max(all.local, one.local);
  }
  pthread_barrier_wait(&shared->barrier);
  return all;
}

std::vector<double> Of(const std::vector<Times>& times, double Times::*what) {
  std::vector<double> values;
  for (const Times& one : times) values.push_back(one.*what);
  return values;
}

// What the ranks do now, one after the other; without the first ones, of --settle.
std::vector<Times> HearAll(const Options& options, Shared* shared, int block, std::function<void(int)> before_call) {
  std::vector<Times> all;
  for (int call = 0; call < options.of_a_block(); ++call) {
    pthread_barrier_wait(&shared->barrier);
    before_call(call);
    all.push_back(Hear(options, shared));
    all.back().block = block + 1;
    all.back().of_block = call + 1;
  }
  return all;
}

void OneBlock(const Options& options, const Daemon& daemon, Shared* shared, int block, Series& series) {
  std::map<What, std::vector<Times>> heard;
  for (const What what : OrderOf(block)) {
    const bool ours = what == What::kCheckpoints;
    double settled = 0;
    heard[what] = HearAll(options, shared, block, [&](int call) {
      if (ours && call == options.settle) settled = daemon.CpuSecondsSoFar();
    });
    if (!ours) continue;
    series.settled_cpu_seconds += daemon.CpuSecondsSoFar() - settled;
    pthread_barrier_wait(&shared->barrier);  // all is on the prefix
  }
  std::vector<Times>&calls = heard[What::kCheckpoints], &copies = heard[What::kCopies], &raw = heard[What::kRawWrites];
  const double copied = Percentile(Of(copies, &Times::call), 0.5);
  series.first.push_back({calls[0].call, copied});
  series.second.push_back({calls[1].call, copied});
  for (std::vector<Times>* const all : {&calls, &copies, &raw}) all->erase(all->begin(), all->begin() + options.settle);
  series.blocked.push_back({Percentile(Of(calls, &Times::call), 0.5), Percentile(Of(copies, &Times::call), 0.5)});
  series.compute.push_back({Percentile(Of(calls, &Times::compute), 0.5), Percentile(Of(copies, &Times::compute), 0.5)});
  series.copies.insert(series.copies.end(), copies.begin(), copies.end());
  series.calls.insert(series.calls.end(), calls.begin(), calls.end());
  series.raw.insert(series.raw.end(), raw.begin(), raw.end());
}

Series Measure(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", options.config);
  Shared* shared = MakeShared<Shared>(options.ranks + 1);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = ForkRank();
    if (pid == 0) {
      RankProcess(options, daemon, shared, rank).Run();
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  pthread_barrier_wait(&shared->barrier);
  Series series;
  for (int block = 0; block < options.blocks; ++block) {
    OneBlock(options, daemon, shared, block, series);
    fmt::print(stderr, "block {} of {}\n", block + 1, options.blocks);
  }
  for (const pid_t pid : ranks) waitpid(pid, nullptr, 0);
  daemon.Stop();

  const double gb = static_cast<double>(options.bytes()) * options.ranks * options.blocks * options.of_a_block() / 1e9;
  series.cpu_per_gb = daemon.cpu_seconds() / gb;
  return series;
}

// What the disk takes for one checkpoint of all ranks when nothing else runs, until it is on the prefix; the median of
// those after the second of a launch, so that files and images are there.
double SecondsAlone(const Options& options) {
  constexpr int kFirst = 2, kCalls = kFirst + 5;
  Daemon daemon(BenchFolder() + "/cairn-bench", options.config);
  auto* const shared = MakeShared<Shared>(options.ranks + 1);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    ranks.push_back(ForkRank());
    if (ranks.back() != 0) continue;
    std::byte* const data = Touched(options.bytes(), rank + 1);
    cairn_session* session = OpenRank(daemon, rank, options.ranks, "alone");
    Check(cairn_protect(session, 1, data, options.bytes(), CAIRN_BYTE), session, "cairn_protect");
    std::uint64_t dataset = 0;
    for (int call = 0; call < kCalls; ++call) {
      ChangeAll(data, options.bytes());
      pthread_barrier_wait(&shared->barrier);
      Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
      Check(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 600000), session, "cairn_wait");
      pthread_barrier_wait(&shared->barrier);
    }
    Check(cairn_close(session), nullptr, "cairn_close");
    std::_Exit(0);
  }
  std::vector<double> seconds;
  for (int call = 0; call < kCalls; ++call) {
    pthread_barrier_wait(&shared->barrier);
    const double start = Now();
    pthread_barrier_wait(&shared->barrier);
    if (call >= kFirst) seconds.push_back(Now() - start);
  }
  for (const pid_t pid : ranks) waitpid(pid, nullptr, 0);
  daemon.Stop();
  return Percentile(seconds, 0.5);
}

// Of those that were seen; 0: none was.
double MedianLocal(const Series& series) {
  std::vector<double> seen = Of(series.calls, &Times::local);
  std::erase(seen, 0.0);
  return seen.empty() ? 0 : Percentile(seen, 0.5);
}

// Where the longest ones were: at the beginning of a launch, or anywhere?
std::string Longest(std::vector<Times> calls) {
  constexpr std::size_t kNamed = 8;
  std::ranges::sort(calls, std::greater(), &Times::call);
  calls.resize(std::min(calls.size(), kNamed));
  std::vector<std::string> names;
  for (const Times& one : calls) {
    names.push_back(fmt::format("{:.0f} ms (block {}, call {})", one.call * 1e3, one.block, one.of_block));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Evenness(const std::vector<double>& seconds) {
  const double mean = std::reduce(seconds.begin(), seconds.end()) / static_cast<double>(seconds.size());
  return fmt::format("mean {:.1f} ms, p99 {:.2f} x that, the longest {:.2f} x", mean * 1e3,
                     Percentile(seconds, 0.99) / mean, Percentile(seconds, 1) / mean);
}

void Print(const Options& options, const Series& series) {
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
  fmt::print("  ours: {}\n  raw writes: {}\n", Evenness(ours), Evenness(Of(series.raw, &Times::call)));
  fmt::print("  the longest: {}\n  of memcpy: {}\n  of raw writes: {}\n", Longest(series.calls), Longest(series.copies),
             Longest(series.raw));
  const double gb_settled = static_cast<double>(options.bytes()) * options.ranks * options.blocks * options.calls / 1e9;
  fmt::print("  to local after {:.0f} ms in the median; daemon: {:.3f} CPU s per GB, {:.3f} once its images are made\n",
             MedianLocal(series) * 1e3, series.cpu_per_gb, series.settled_cpu_seconds / gb_settled);
}

// --- The table ---

void PrintRow(const Options& options, const Series& series) {
  const std::vector<double> ours = Of(series.calls, &Times::call), theirs = Of(series.copies, &Times::call);
  const double local = MedianLocal(series);
  const std::string to_local = local == 0
                                   ? "later than the next call"
                                   : fmt::format("{:.0f} ms, {:.2f} GB/s", local * 1e3,
                                                 static_cast<double>(options.bytes()) * options.ranks / 1e9 / local);
  fmt::print(
      "| {} × {} MiB | {} | {:.1f} / {:.1f} / {:.1f} ms | {:.1f} / {:.1f} ms | {:.2f} | {:.2f} | {:.2f} | {} | {:.0f} "
      "ms "
      "| {:.2f} |\n",
      options.ranks, options.mib, options.interval_ms, Percentile(ours, 0) * 1e3, Percentile(ours, 0.5) * 1e3,
      Percentile(ours, 0.99) * 1e3, Percentile(theirs, 0.5) * 1e3, Percentile(theirs, 0.99) * 1e3,
      Percentile(ours, 0.5) / Percentile(theirs, 0.5), Percentile(ours, 0.99) / Percentile(theirs, 0.99),
      Median(series.compute).value(), to_local, Percentile(Of(series.raw, &Times::call), 0.5) * 1e3, series.cpu_per_gb);
  std::fflush(stdout);
}

// As many as take about ten seconds.
int CallsAt(int interval_ms) {
  return std::clamp(10'000 / std::max(interval_ms, 250), 6, 40);
}

void Table(Options options) {
  fmt::print(
      "| | interval, ms | blocked: best / median / p99 | memcpy: median / p99 | median | p99 | compute after it | "
      "`local` after | raw write | CPU s / GB |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::vector<PlotLine> lines;
  for (const std::size_t mib : {16, 256, 1024}) {
    for (const int ranks : {1, options.ranks}) {
      PlotLine median{.name = fmt::format("{} x {} MiB", ranks, mib), .dashed = false, .points = {}};
      PlotLine p99{.name = "", .dashed = true, .points = {}};
      for (const int interval_ms : {0, 250, 1000, 4000}) {
        options.mib = mib;
        options.interval_ms = interval_ms;
        options.calls = CallsAt(interval_ms);
        Options row = options;
        row.ranks = ranks;
        const Series series = Measure(row);
        PrintRow(row, series);
        const std::vector<double> ours = Of(series.calls, &Times::call), theirs = Of(series.copies, &Times::call);
        const double x = std::max(interval_ms, 50);  // back to back has a place of its own at the left
        median.points.push_back({x, Percentile(ours, 0.5) / Percentile(theirs, 0.5)});
        p99.points.push_back({x, Percentile(ours, 0.99) / Percentile(theirs, 0.99)});
      }
      lines.push_back(std::move(median));
      lines.push_back(std::move(p99));
    }
  }
  const Plot plot{.title = "A checkpoint beside memcpy of the same bytes, all cores computing",
                  .x = "ms from one to the next (left: back to back)",
                  .y = "times as long: median, and p99 (dashed)",
                  .lines = std::move(lines)};
  if (!WriteSvg(plot, options.table)) Die(options.table + " cannot be written");
}

Value Interval(int& interval_ms) {
  Value value = Number(interval_ms, 0);
  value.take = [&interval_ms, number = value.take](std::string_view text) {
    if (text != "auto") return number(text);
    interval_ms = Options::kAuto;
    return true;
  };
  return value;
}

Options Parse(int argc, char** argv) {
  Options options;
  ReadArguments(argc, argv, "What checkpoints cost an application that computes on all cores, at an interval.",
                {{"--ranks N", "processes that compute and checkpoint", Number(options.ranks, 1, kRanksMax)},
                 {"--mib N", "what each of them checkpoints", Number(options.mib, 1, kMibMax)},
                 {"--interval-ms N|auto", "that they compute; auto: twice what the disk needs, measured first",
                  Interval(options.interval_ms)},
                 {"--settle N", "first calls of a launch that are not counted", Number(options.settle, 2)},
                 {"--calls N", "calls of a block that are counted", Number(options.calls)},
                 {"--blocks N", "launches", Number(options.blocks)},
                 {"--config TOML", "the daemon's settings", Text(options.config)},
                 {"--table SVG", "instead: a line for each of many sizes and intervals, and a picture of them",
                  Text(options.table)}});
  return options;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Options options = cairn::bench::Parse(argc, argv);
  if (options.interval_ms == options.kAuto) {
    options.interval_ms = static_cast<int>(2e3 * cairn::bench::SecondsAlone(options));
  }
  if (!options.table.empty()) {
    cairn::bench::Table(options);
  } else {
    cairn::bench::Print(options, cairn::bench::Measure(options));
  }
}
