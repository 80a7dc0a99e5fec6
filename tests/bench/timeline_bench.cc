// Where the time of one launch's checkpoints goes, call by call: a real daemon with its default settings, cache and
// prefix on one disk, every checkpoint flushed; ranks that compute on all cores and call cairn_checkpoint at an
// interval. Of rank 0's calls:
//
//   waited     until the daemon had an image for it (both were still on their way to the cache)
//   copied     into the image, as libcairn says it (CAIRN_LOG=info)
//   committed  until the daemon had answered
//
// and of each dataset when it was `local`, and when it was on the prefix, as the daemon's log says it.
#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/cairn.h"
#include "tests/bench/arguments.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/raw_io.h"
#include "tests/bench/relaxation.h"
#include "tests/bench/shared_memory.h"

namespace cairn::bench {
namespace {

constexpr int kRanksMax = 1024, kCallsMax = 1000;

struct Options {
  int ranks = 2;
  std::size_t mib = 256;
  int interval_ms = 500;
  int calls = 20;
  std::string config;
  std::string svg;  // empty: no picture
};

double WallClock() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// Rank 0's, by the wall clock.
struct Call {
  double begin = 0, end = 0;
  std::uint64_t dataset = 0;
};

struct Shared {
  pthread_barrier_t barrier;
  Call calls[kCallsMax];
};

std::string RankLog(const Daemon& daemon) {
  return daemon.folder() + "/rank.log";
}

void RunRank(const Options& options, const Daemon& daemon, Shared* shared, int rank) {
  const std::size_t bytes = options.mib << 20;
  std::byte* const data = Touched(bytes, rank + 1);
  if (rank == 0) {
    setenv("CAIRN_LOG", "info", 1);
    if (std::freopen(RankLog(daemon).c_str(), "w", stderr) == nullptr) Die("no log");
  }
  pthread_barrier_wait(&shared->barrier);
  Relaxation work;
  work.Calibrate(options.interval_ms / 1e3);
  cairn_session* session = OpenRank(daemon, rank, options.ranks, "timeline");
  Check(cairn_protect(session, 1, data, bytes, CAIRN_BYTE), session, "cairn_protect");
  const double ready = Now() + 2.0 * static_cast<double>(bytes) * options.ranks / (1u << 30);
  do work.Run();
  while (Now() < ready);
  std::uint64_t dataset = 0;
  for (int i = 0; i < options.calls; ++i) {
    ChangeAll(data, bytes);
    pthread_barrier_wait(&shared->barrier);
    Call call{.begin = WallClock()};
    Check(cairn_checkpoint(session, 0, &dataset), session, "cairn_checkpoint");
    call.end = WallClock();
    call.dataset = dataset;
    if (rank == 0) shared->calls[i] = call;
    work.Run();
  }
  Check(cairn_wait(session, dataset, CAIRN_LEVEL_PREFIX, 600000), session, "cairn_wait");
  Check(cairn_close(session), nullptr, "cairn_close");
}

// What the logs add to a call; 0: they say nothing.
struct Told {
  double waited_ms = 0, copied_ms = 0, committed_ms = 0;
  double local = 0, prefix = 0;  // by the wall clock
};

// "dataset 7, step 0: 268435456 bytes captured in 30.1 ms: waited 1.2, copied 28.8, committed 0.1"
void ReadRankLog(const std::string& path, std::map<std::uint64_t, Told>& told) {
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);) {
    const auto at = line.find("dataset ");
    unsigned long long dataset = 0, step = 0, bytes = 0;
    double all = 0;
    Told one;
    if (at == line.npos ||
        std::sscanf(line.c_str() + at,
                    "dataset %llu, step %llu: %llu bytes captured in %lf ms: waited %lf, copied %lf, committed %lf",
                    &dataset, &step, &bytes, &all, &one.waited_ms, &one.copied_ms, &one.committed_ms) != 7) {
      continue;
    }
    told[dataset] = one;
  }
}

// "2026-11-28T12:00:00.123+0000 cairnd[7] debug run x: dataset 7 (step 0) is local", and
// "... info run x: flush of dataset 7 (step 0): 268435456 bytes are on the prefix".
void ReadDaemonLog(const std::string& path, std::map<std::uint64_t, Told>& told) {
  std::ifstream log(path);
  for (std::string line; std::getline(log, line);) {
    std::tm day{};
    int ms = 0;
    unsigned long long dataset = 0;
    const auto at = line.find(" dataset ");
    if (at == line.npos || std::sscanf(line.c_str() + at, " dataset %llu", &dataset) != 1) continue;
    if (std::sscanf(line.c_str(), "%d-%d-%dT%d:%d:%d.%d", &day.tm_year, &day.tm_mon, &day.tm_mday, &day.tm_hour,
                    &day.tm_min, &day.tm_sec, &ms) != 7) {
      continue;
    }
    day.tm_year -= 1900;
    day.tm_mon -= 1;
    day.tm_isdst = -1;
    const double when = static_cast<double>(mktime(&day)) + ms / 1e3;
    if (line.ends_with(" is local")) told[dataset].local = when;
    if (line.ends_with(" on the prefix")) told[dataset].prefix = when;
  }
}

// --- What is printed ---

void Print(const std::vector<Call>& calls, const std::map<std::uint64_t, Told>& told) {
  fmt::print("| call | at, s | blocked, ms | waited | copied | committed | `local` after, ms | prefix after, ms |\n");
  fmt::print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  Told sums;
  double blocked = 0, longest = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const auto found = told.find(call.dataset);
    const Told one = found == told.end() ? Told{} : found->second;
    const double ms = (call.end - call.begin) * 1e3;
    const auto after = [&](double when) {
      return when == 0 ? std::string("-") : fmt::format("{:.0f}", (when - call.end) * 1e3);
    };
    fmt::print("| {} | {:.2f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {} | {} |\n", i + 1, call.begin - calls[0].begin,
               ms, one.waited_ms, one.copied_ms, one.committed_ms, after(one.local), after(one.prefix));
    blocked += ms;
    longest = std::max(longest, ms);
    sums.waited_ms += one.waited_ms;
    sums.copied_ms += one.copied_ms;
    sums.committed_ms += one.committed_ms;
  }
  fmt::print(
      "blocked {:.0f} ms in all: waited {:.0f}, copied {:.0f}, committed {:.0f}; the longest call {:.2f} x the "
      "mean of {:.1f} ms\n",
      blocked, sums.waited_ms, sums.copied_ms, sums.committed_ms, longest * static_cast<double>(calls.size()) / blocked,
      blocked / static_cast<double>(calls.size()));
}

// Three rows of bars over one axis: what the application does, and what becomes of its datasets.
class Picture {
 public:
  explicit Picture(double seconds) : seconds_(seconds) {
    for (int row = 0; row < 3; ++row) {
      static constexpr std::array kNames = {"rank 0's calls", "to local", "to the prefix"};
      svg_ += fmt::format("<text x=\"10\" y=\"{}\">{}</text>\n", kTop + row * kRow + 14, kNames.at(row));
    }
    for (int second = 0; second <= static_cast<int>(seconds); second += std::max(1, static_cast<int>(seconds / 12))) {
      svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{} s</text>\n", X(second),
                          kTop + 3 * kRow + 20, second);
    }
  }
  // Datasets follow one another in two heights, since they overlap.
  void Bar(int row, std::size_t index, double from, double to, const char* colour) {
    svg_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"9\" fill=\"{}\" stroke=\"white\" "
        "stroke-width=\"0.5\"/>\n",
        X(from), kTop + row * kRow + (index % 2) * 11, std::max(0.4, X(to) - X(from)), colour);
  }
  bool Write(const std::string& path, const std::string& title) const {
    std::ofstream file(path);
    file << fmt::format(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
                "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n<text x=\"10\" "
                "y=\"20\">{2}</text>\n",
                kWidth, kTop + 3 * kRow + 34, title)
         << svg_ << "</svg>\n"
         << std::flush;
    return file.good();
  }

 private:
  static constexpr int kWidth = 980, kLeft = 110, kTop = 40, kRow = 34;
  double X(double seconds) const { return kLeft + (kWidth - kLeft - 20) * seconds / seconds_; }
  const double seconds_;
  std::string svg_;
};

void Draw(const Options& options, const std::vector<Call>& calls, const std::map<std::uint64_t, Told>& told) {
  const double start = calls[0].begin;
  double end = calls.back().end;
  for (const auto& [dataset, one] : told) end = std::max({end, one.local, one.prefix});
  Picture picture(end - start);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    const auto found = told.find(call.dataset);
    if (found == told.end()) continue;
    const double image = call.begin + found->second.waited_ms / 1e3;
    picture.Bar(0, 0, call.begin - start, image - start, "#d62728");
    picture.Bar(0, 1, image - start, call.end - start, "#1f77b4");
    if (found->second.local == 0) continue;
    picture.Bar(1, i, call.end - start, found->second.local - start, "#2ca02c");
    if (found->second.prefix != 0) {
      picture.Bar(2, i, found->second.local - start, found->second.prefix - start, "#9467bd");
    }
  }
  const std::string title =
      fmt::format("{} ranks x {} MiB, {} ms of computing between checkpoints. Red: waited for an image. Blue: copied",
                  options.ranks, options.mib, options.interval_ms);
  if (!picture.Write(options.svg, title)) Die(options.svg + " cannot be written");
}

void Measure(const Options& options) {
  Daemon daemon(BenchFolder() + "/cairn-bench", "log_level = \"debug\"\n" + options.config);
  auto* const shared = MakeShared<Shared>(options.ranks);
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < options.ranks; ++rank) {
    const pid_t pid = ForkRank();
    if (pid == 0) {
      RunRank(options, daemon, shared, rank);
      std::_Exit(0);
    }
    ranks.push_back(pid);
  }
  for (const pid_t pid : ranks) waitpid(pid, nullptr, 0);
  daemon.Stop();
  std::map<std::uint64_t, Told> told;
  ReadRankLog(RankLog(daemon), told);
  ReadDaemonLog(daemon.folder() + "/log", told);
  const std::vector<Call> calls(shared->calls, shared->calls + options.calls);
  Print(calls, told);
  if (!options.svg.empty()) Draw(options, calls, told);
}

Options Parse(int argc, char** argv) {
  Options options;
  ReadArguments(argc, argv, "Where the time of one launch's checkpoints goes, call by call.",
                {{"--ranks N", "processes that compute and checkpoint", Number(options.ranks, 1, kRanksMax)},
                 {"--mib N", "what each of them checkpoints", Number(options.mib, 1, kMibMax)},
                 {"--interval-ms N", "that they compute", Number(options.interval_ms, 0)},
                 {"--calls N", "of each rank", Number(options.calls, 1, kCallsMax)},
                 {"--config TOML", "the daemon's settings", Text(options.config)},
                 {"--svg FILE", "draw it, too", Text(options.svg)}});
  return options;
}

}  // namespace
}  // namespace cairn::bench

int main(int argc, char** argv) {
  cairn::bench::Measure(cairn::bench::Parse(argc, argv));
}
