// MD5 of as many lanes as are best at once with each engine that this machine has, each run paired with OpenSSL's
// single stream of the same bytes. One line per engine: gigabytes per second on one core, by the wall and by the CPU
// clock (which tell a busy machine from a slow one), and the ratio to its partner.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/md5_lanes.h"
#include "tests/bench/arguments.h"

namespace cairn {
namespace {

constexpr std::size_t kLanes = kMd5LanesMax;

struct Cost {
  double wall_s, cpu_s;
};

double Now(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Cost CostOf(auto&& work) {
  const double wall_s = Now(CLOCK_MONOTONIC), cpu_s = Now(CLOCK_THREAD_CPUTIME_ID);
  work();
  return {Now(CLOCK_MONOTONIC) - wall_s, Now(CLOCK_THREAD_CPUTIME_ID) - cpu_s};
}

// "median (lower quartile .. upper quartile)".
std::string QuartilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return fmt::format("{:5.2f} ({:.2f} .. {:.2f})", values[n / 2], values[n / 4], values[n - 1 - n / 4]);
}

bool Advance(std::string_view engine, const std::vector<std::byte>& bytes, std::size_t lane_bytes) {
  std::vector<Md5State> states(kLanes);
  std::vector<Md5Lane> lanes;
  for (std::size_t l = 0; l < kLanes; ++l) lanes.push_back({&states[l], bytes.data() + l * lane_bytes, lane_bytes});
  return Md5AdvanceWith(engine, lanes);
}

void Measure(std::string_view engine, const std::vector<std::byte>& bytes, int runs) {
  const std::size_t lane_bytes = bytes.size() / kLanes;
  if (!Advance(engine, bytes, lane_bytes)) {
    fmt::print("{:8}  this machine lacks it\n", engine);
    return;
  }
  std::vector<double> rates, cpu_rates, ratios;
  volatile std::byte sink{};
  for (int run = 0; run < runs; ++run) {
    const Cost lanes = CostOf([&] { Advance(engine, bytes, lane_bytes); });
    const Cost single = CostOf([&] { sink = Md5(bytes)[0]; });
    rates.push_back(static_cast<double>(bytes.size()) / lanes.wall_s / 1e9);
    cpu_rates.push_back(static_cast<double>(bytes.size()) / lanes.cpu_s / 1e9);
    ratios.push_back(single.wall_s / lanes.wall_s);
  }
  fmt::print("{:8}  {} GB/s   {} GB per CPU second   {} x OpenSSL's single stream\n", engine, QuartilesOf(rates),
             QuartilesOf(cpu_rates), QuartilesOf(ratios));
}

int Main(int argc, char** argv) {
  int runs = 15, lane_mib = 1;
  bench::ReadArguments(
      argc, argv, "MD5 of many lanes, against OpenSSL's single stream.",
      {{"RUNS", "so many times", bench::Number(runs)}, {"MIB", "of each lane", bench::Number(lane_mib, 1, 64)}});
  std::vector<std::byte> bytes(kLanes * static_cast<std::size_t>(lane_mib) << 20);
  std::mt19937_64 random(1);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  fmt::print("{} lanes of {} MiB, {} runs, median (quartiles); chosen here: {}\n", kLanes, lane_mib, runs, Md5Engine());
  for (const std::string_view engine : {"avx512", "avx2", "openssl"}) Measure(engine, bytes, runs);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::Main(argc, argv);
}
