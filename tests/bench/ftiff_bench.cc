// FTI-FF files: metadata of 100 000 containers parsed and checked, in each layout, in one block and in a block for each
// container; and the data of 1 GiB in the page cache verified, against plain reading and against hashing alone with as
// many threads. Ratios are paired and alternate. Medians with quartiles, by the wall and by processor seconds.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/md5_lanes.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/format/ftiff/codec.h"
#include "tests/bench/arguments.h"
#include "tests/bench/ratio.h"
#include "tests/storage/format/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

using bench::Ratio;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kVerifiedBytes = std::uint64_t{1} << 30;
constexpr std::size_t kPieceBytes = 256 << 10;

struct Cost {
  double wall = 0, cpu = 0;  // seconds
};

double CpuSeconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Cost CostOf(const std::function<void()>& work) {
  const double cpu = CpuSeconds();
  const auto begin = Clock::now();
  work();
  return {std::chrono::duration<double>(Clock::now() - begin).count(), CpuSeconds() - cpu};
}

// "median (lower quartile .. upper quartile)".
std::string QuartilesOf(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](std::size_t quarter) { return values[(values.size() - 1) * quarter / 4]; };
  return fmt::format("{:.2f} ({:.2f} .. {:.2f})", at(2), at(1), at(3));
}

// A file that has no name any more.
class Scratch {
 public:
  explicit Scratch(const std::string& folder) {
    std::string path = folder + "/ftiff_bench.XXXXXX";
    fd_ = UniqueFd(::mkstemp(path.data()));
    CAIRN_CHECK(fd_.get() >= 0 && ::unlink(path.c_str()) == 0);
  }

  void Append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(bytes_));
      CAIRN_CHECK(written > 0);
      bytes_ += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  std::uint64_t bytes() const { return bytes_; }

  absl::Status Read(std::uint64_t offset, std::span<std::byte> target) const {
    const ssize_t got = ::pread(fd_.get(), target.data(), target.size(), static_cast<off_t>(offset));
    return std::cmp_equal(got, target.size()) ? absl::OkStatus() : DataLoss("offset {}: short read", offset);
  }
  ReadAt reader() const {
    return [this](std::uint64_t offset, std::span<std::byte> target) { return Read(offset, target); };
  }

 private:
  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
};

void Parse(Letter letter, std::uint32_t chunks_of_a_block, int rounds, const std::string& folder) {
  constexpr std::uint32_t kContainers = 100'000;
  std::vector<VariableSize> variables;
  for (std::int32_t id = 0; id < static_cast<std::int32_t>(kContainers); ++id) variables.push_back({id, 16});
  FileLayout layout = *PlanFresh(variables, Packing::kExact);
  layout.block_containers.assign(kContainers / chunks_of_a_block, chunks_of_a_block);
  Scratch file(folder);
  const std::string bytes = testing::FileOf(letter, layout, {});
  file.Append(std::as_bytes(std::span(bytes)));
  std::vector<double> wall_ms, cpu_ms;
  for (int round = 0; round < rounds; ++round) {
    const Cost cost = CostOf([&] {
      CAIRN_CHECK(DecodeMetadata("bench", file.bytes(), file.reader())->layout.containers.size() == kContainers);
    });
    wall_ms.push_back(cost.wall * 1e3);
    cpu_ms.push_back(cost.cpu * 1e3);
  }
  fmt::print("parse {} containers, layout {}, {:6} blocks: {} ms, processor {} ms\n", kContainers,
             static_cast<char>(letter), layout.block_containers.size(), QuartilesOf(wall_ms), QuartilesOf(cpu_ms));
}

// One gibibyte of layout F in so many containers.
FileMetadata WriteLarge(std::size_t containers, Scratch* file) {
  std::vector<VariableSize> variables;
  for (std::size_t i = 0; i < containers; ++i) {
    variables.push_back({static_cast<std::int32_t>(i), kVerifiedBytes / containers});
  }
  const FileLayout layout = *PlanFresh(variables, Packing::kExact);
  std::vector<Md5Digest> hashes;
  std::mt19937_64 random(1);
  std::vector<std::byte> data(kVerifiedBytes / containers);
  for (std::size_t i = 0; i < containers; ++i) {
    for (std::size_t b = 0; b + 8 <= data.size(); b += 8) {
      const std::uint64_t word = random();
      std::memcpy(data.data() + b, &word, sizeof word);
    }
    file->Append(data);
    hashes.push_back(Md5(data));
  }
  file->Append(EncodeMetadata(layout, hashes, {}));
  return *DecodeMetadata("bench", file->bytes(), file->reader());
}

void OnThreads(std::size_t threads, const std::function<void(std::size_t)>& work) {
  std::vector<std::jthread> running;
  for (std::size_t i = 1; i < threads; ++i) running.emplace_back(work, i);
  work(0);
}

// Every thread its part of the file, front to back.
void ReadPlainly(const Scratch& file, std::size_t threads) {
  OnThreads(threads, [&](std::size_t thread) {
    std::vector<std::byte> buffer(kPieceBytes);
    const std::uint64_t part = kVerifiedBytes / threads / kPieceBytes * kPieceBytes;
    for (std::uint64_t at = 0; at < part; at += kPieceBytes) CAIRN_CHECK(file.Read(thread * part + at, buffer).ok());
  });
}

// As many bytes, from buffers that stay in the processor's cache, in all lanes.
void HashPlainly(std::size_t threads) {
  OnThreads(threads, [&](std::size_t) {
    constexpr std::size_t kLaneBytes = 32 << 10;
    const std::vector<std::byte> buffer(kMd5LanesMax * kLaneBytes, std::byte{0x5a});
    std::vector<Md5State> states(kMd5LanesMax);
    std::vector<Md5Lane> lanes;
    for (std::size_t l = 0; l < kMd5LanesMax; ++l) lanes.push_back({&states[l], &buffer[l * kLaneBytes], kLaneBytes});
    for (std::uint64_t hashed = 0; hashed < kVerifiedBytes / threads; hashed += buffer.size()) Md5Advance(lanes);
  });
}

void Verify(std::size_t containers, std::size_t threads, int rounds, const std::string& folder) {
  Scratch file(folder);
  const FileMetadata metadata = WriteLarge(containers, &file);
  std::vector<double> rates, cpu_seconds;
  std::vector<Ratio> reading, hashing;
  for (int round = 0; round < rounds; ++round) {
    const auto verify = [&] {
      return CostOf([&] { CAIRN_CHECK(VerifyData("bench", metadata, file.reader(), threads)->ok()); });
    };
    const Cost ours = verify();
    reading.push_back({ours.wall, CostOf([&] { ReadPlainly(file, threads); }).wall});
    const Cost again = verify();
    hashing.push_back({again.wall, CostOf([&] { HashPlainly(threads); }).wall});
    for (const Cost& cost : {ours, again}) {
      rates.push_back(static_cast<double>(kVerifiedBytes) / cost.wall / 1e9);
      cpu_seconds.push_back(cost.cpu);
    }
  }
  fmt::print("verify 1 GiB in {} containers on {} threads: {} GB/s, processor {} s\n", containers, threads,
             QuartilesOf(rates), QuartilesOf(cpu_seconds));
  bench::PrintRatios("  time", reading, "plain reading");
  bench::PrintRatios("  time", hashing, "hashing alone");
}

int Main(int argc, char** argv) {
  int rounds = 15;
  std::string folder = "/var/tmp";
  bench::ReadArguments(argc, argv, "FTI-FF files: metadata parsed and checked, data verified.",
                       {{"ROUNDS", "so many times", bench::Number(rounds)},
                        {"FOLDER", "where the files are made", bench::Text(folder)}});
  for (const std::uint32_t chunks_of_a_block : {100'000u, 1u}) {
    for (const Letter letter : testing::kLetters) Parse(letter, chunks_of_a_block, rounds, folder);
  }
  for (const std::size_t containers : {16, 64}) {
    for (const std::size_t threads : {1, 2}) Verify(containers, threads, rounds, folder);
  }
  return 0;
}

}  // namespace
}  // namespace cairn::ftiff

int main(int argc, char** argv) {
  return cairn::ftiff::Main(argc, argv);
}
