// What a long history costs: one rank whose every checkpoint goes to the prefix, and stays there. At some lengths: the
// time from the call to `prefix`, what of it `cairn_checkpoint` blocks, the daemon's memory, and how long a daemon that
// starts then needs until the rank knows from where to go on. To be compared with each other, in one run.
//
//   history_bench [--arrays N] [--lengths 100,1000,5000,10000]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "client/cairn.h"
#include "tests/bench/bench_daemon.h"
#include "tests/bench/raw_io.h"

namespace cairn::bench {
namespace {

constexpr int kSample = 31;  // of the checkpoints up to a length, the last ones are measured
constexpr std::size_t kElements = 64;
constexpr std::chrono::seconds kQuiet{25};
constexpr std::chrono::milliseconds kInterval{250};

struct Options {
  int arrays = 10;
  std::vector<int> lengths = {100, 1000, 5000, 10000};
};

double Quantile(std::vector<double> values, double quantile) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(quantile * static_cast<double>(values.size() - 1))];
}

class History {
 public:
  explicit History(const Options& options)
      : daemon_(BenchFolder() + "/cairn-history", "[flush]\nevery = 1\n[cache]\nkeep = 2\n"),
        data_(static_cast<std::size_t>(options.arrays), std::vector<double>(kElements)) {
    Open();
  }

  // As fast as it goes; then, when what that has left is tidied up, as an application would.
  void GrowTo(int length) {
    std::vector<double> blocked, prefix;
    for (; length_ < length; ++length_) {
      if (length_ + kSample == length) std::this_thread::sleep_for(kQuiet);
      if (length_ + kSample >= length) std::this_thread::sleep_for(kInterval);
      data_.front().front() = length_;
      const double start = Now();
      std::uint64_t dataset = 0;
      Check(cairn_checkpoint(session_, static_cast<std::uint64_t>(length_ + 1), &dataset), session_, "checkpoint");
      const double returned = Now();
      Check(cairn_wait(session_, dataset, CAIRN_LEVEL_PREFIX, 120000), session_, "cairn_wait");
      if (length_ + kSample < length) continue;
      blocked.push_back(returned - start);
      prefix.push_back(Now() - start);
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
    session_ = OpenRank(daemon_, 0, 1, fmt::format("after {}", length_));
    for (std::size_t i = 0; i < data_.size(); ++i) {
      const std::string name = fmt::format("field/{}", i);
      const std::uint64_t shape = kElements, from = 0;
      Check(cairn_protect_array(session_, static_cast<int>(i), name.c_str(), data_[i].data(), CAIRN_DOUBLE, 1, &shape,
                                &from, &shape, nullptr, nullptr),
            session_, "cairn_protect_array");
    }
  }

  Daemon daemon_;
  std::vector<std::vector<double>> data_;
  cairn_session* session_ = nullptr;
  int length_ = 0;
};

std::vector<int> Lengths(std::string_view text) {
  std::vector<int> lengths;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), one.size() + 1));
    const int length = std::atoi(std::string(one).c_str());
    if (length < kSample) Die(fmt::format("{} is no length", one));
    lengths.push_back(length);
  }
  std::ranges::sort(lengths);
  return lengths;
}

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--arrays") {
      options.arrays = std::max(1, std::atoi(argv[i + 1]));
    } else if (name == "--lengths") {
      options.lengths = Lengths(argv[i + 1]);
    } else {
      Die("usage: history_bench [--arrays N] [--lengths 100,1000,5000,10000]");
    }
  }
  History history(options);
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
