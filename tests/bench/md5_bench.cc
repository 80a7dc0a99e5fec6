// MD5 of 16 lanes with each engine that this machine has, each run paired with OpenSSL's single stream of the same
// bytes. One line per engine: gigabytes per second on one core, and the ratio to its partner, as quartiles.
//   md5_bench [runs] [MiB per lane]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/md5_lanes.h"

namespace cairn {
namespace {

constexpr std::size_t kLanes = 16;

double SecondsOf(auto&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Quartiles {
  double low, median, high;
};

Quartiles QuartilesOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return {values[n / 4], values[n / 2], values[n - 1 - n / 4]};
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
  std::vector<double> rates, ratios;
  volatile std::byte sink{};
  for (int run = 0; run < runs; ++run) {
    const double lanes_s = SecondsOf([&] { Advance(engine, bytes, lane_bytes); });
    const double single_s = SecondsOf([&] { sink = Md5(bytes)[0]; });
    rates.push_back(static_cast<double>(bytes.size()) / lanes_s / 1e9);
    ratios.push_back(single_s / lanes_s);
  }
  const Quartiles rate = QuartilesOf(rates), ratio = QuartilesOf(ratios);
  fmt::print("{:8}  {:6.2f} GB/s ({:.2f} .. {:.2f})   {:5.2f} x OpenSSL's single stream ({:.2f} .. {:.2f})\n", engine,
             rate.median, rate.low, rate.high, ratio.median, ratio.low, ratio.high);
}

int Main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 15;
  const int lane_mib = argc > 2 ? std::atoi(argv[2]) : 1;
  if (runs < 1 || lane_mib < 1 || lane_mib > 64) {
    fmt::print(stderr, "usage: md5_bench [runs, from 1] [MiB per lane, 1 .. 64]\n");
    return 2;
  }
  std::vector<std::byte> bytes(kLanes * static_cast<std::size_t>(lane_mib) << 20);
  std::mt19937_64 random(1);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  fmt::print("16 lanes of {} MiB, {} runs, median (quartiles); chosen here: {}\n", lane_mib, runs, Md5Engine());
  for (const std::string_view engine : {"avx512", "avx2", "openssl"}) Measure(engine, bytes, runs);
  return 0;
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  return cairn::Main(argc, argv);
}
