// What the filemap of a rank with many files costs: loading (decode), changing one file and storing (encode) it, and
// the same through the structures of storage/format/scr, against the bar of 20 ms and against copying its bytes; and
// CRC32, against 10 GB/s and against reading the same memory. Medians with quartiles, by the wall and by the CPU clock.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "tests/bench/arguments.h"
#include "tests/bench/ratio.h"

namespace cairn {
namespace {

struct Times {
  double wall_s = 0, cpu_s = 0;
};

double Now(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

Times TimesOf(auto&& work) {
  const double wall = Now(CLOCK_MONOTONIC), cpu = Now(CLOCK_THREAD_CPUTIME_ID);
  work();
  return {Now(CLOCK_MONOTONIC) - wall, Now(CLOCK_THREAD_CPUTIME_ID) - cpu};
}

// Runs both in each round, in turns first, and prints them by the wall and by the CPU clock. `inverse`: as throughputs.
void Compare(const std::string& what, int rounds, auto&& work, const std::string& limit, auto&& least,
             bool inverse = false) {
  std::vector<bench::Ratio> wall, cpu;
  for (int round = 0; round < rounds; ++round) {
    Times ours, theirs;
    if (round % 2 == 0) ours = TimesOf(work);
    theirs = TimesOf(least);
    if (round % 2 == 1) ours = TimesOf(work);
    if (inverse) std::swap(ours, theirs);
    wall.push_back({ours.wall_s, theirs.wall_s});
    cpu.push_back({ours.cpu_s, theirs.cpu_s});
  }
  bench::PrintRatios(what + ", wall", wall, limit, inverse);
  bench::PrintRatios(what + ", cpu", cpu, limit, inverse);
}

// Milliseconds against a bar, which no machine's load should move it over.
void CompareToBar(const std::string& what, int rounds, auto&& work, double bar_s) {
  std::vector<bench::Ratio> wall, cpu;
  for (int round = 0; round < rounds; ++round) {
    const Times times = TimesOf(work);
    wall.push_back({times.wall_s, bar_s});
    cpu.push_back({times.cpu_s, bar_s});
  }
  bench::PrintRatios(what + ", wall", wall, "the bar");
  bench::PrintRatios(what + ", cpu", cpu, "the bar");
}

std::string PathOf(int file) {
  return fmt::format("/mnt/ssd/alice/scr.4242/scr.dataset.1/dir_{}/file_{}.dat", file / 100, file);
}

scr::Filemap FilemapOf(int files) {
  scr::Filemap filemap;
  for (int file = 0; file < files; ++file) {
    scr::Meta meta;
    meta.original = fmt::format("dir_{}/file_{}.dat", file / 100, file);
    meta.directory = fmt::format("/mnt/pfs/demo/dir_{}", file / 100);
    meta.name = fmt::format("file_{}.dat", file);
    meta.ranks = 64;
    meta.complete = true;
    meta.bytes = 1'000'000 + static_cast<std::uint64_t>(file);
    meta.mode = 0100640;
    meta.atime = meta.mtime = meta.ctime = {1795160217, 901615760};
    filemap.files.emplace(PathOf(file), meta);
  }
  return filemap;
}

void RunFilemap(int files, int rounds) {
  constexpr double kBar = 0.020;
  const scr::Filemap filemap = FilemapOf(files);
  const std::string file = kvtree::Encode(scr::ToTree(filemap));
  const std::string changed_path = PathOf(files / 2);
  const auto load_change_store = [&] {
    auto tree = kvtree::Decode("filemap", file);
    CAIRN_CHECK(tree.ok());
    scr::PutFile(changed_path, filemap.files.at(changed_path), *tree);
    CAIRN_CHECK(kvtree::Encode(*tree).size() == file.size());
  };
  fmt::print("{} files, a filemap of {} bytes\n", files, file.size());
  CompareToBar("load, change one file, store", rounds, load_change_store, kBar);
  CompareToBar(
      "  of which load", rounds, [&] { CAIRN_CHECK(kvtree::Decode("filemap", file).ok()); }, kBar);
  CompareToBar(
      "load into structures", rounds,
      [&] {
        const auto tree = kvtree::Decode("filemap", file);
        CAIRN_CHECK(tree.ok() && scr::GetFilemap(*tree)->files.size() == filemap.files.size());
      },
      kBar);
  CompareToBar(
      "store from structures", rounds, [&] { CAIRN_CHECK(kvtree::Encode(scr::ToTree(filemap)).size() == file.size()); },
      kBar);
  std::string copy(file.size(), '\0');
  Compare("load, change one file, store", rounds, load_change_store, "copying its bytes into a string",
          [&] { copy.assign(file.data(), file.size()); });
}

// As fast as memory can be read by one thread.
std::uint64_t SumOf(const std::vector<std::uint64_t>& words) {
  constexpr std::size_t kLanes = 32;
  std::array<std::uint64_t, kLanes> lanes{};
  for (std::size_t at = 0; at + kLanes <= words.size(); at += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += words[at + lane];
  }
  return std::accumulate(lanes.begin(), lanes.end(), std::uint64_t{0});
}

void RunCrc(std::size_t bytes, int rounds) {
  std::vector<std::uint64_t> words(bytes / sizeof(std::uint64_t));
  std::iota(words.begin(), words.end(), std::uint64_t{0x9e3779b97f4a7c15});
  const auto span = std::as_bytes(std::span(words));
  const std::size_t passes = std::max<std::size_t>((256 << 20) / bytes, 1);
  static std::atomic<std::uint64_t> seen;  // so that nothing is left out
  const auto repeated = [passes](auto&& once) {
    return [passes, once] {
      for (std::size_t pass = 0; pass < passes; ++pass) seen += once();
    };
  };
  const double gigabytes = 1e-9 * static_cast<double>(bytes) * static_cast<double>(passes);
  const std::string size = fmt::format("{} KiB", bytes >> 10);
  const auto crc = repeated([&] { return Crc32(span); });
  CompareToBar(fmt::format("CRC32 of {} at 10 GB/s", size), rounds, crc, gigabytes / 10);
  Compare(fmt::format("CRC32 of {}, throughput", size), rounds, crc, "reading it",
          repeated([&] { return SumOf(words); }), /*inverse=*/true);
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  int files = 10'000, rounds = 15;
  cairn::bench::ReadArguments(argc, argv, "What the filemap of a rank with many files costs, and CRC32.",
                              {{"FILES", "in the filemap", cairn::bench::Number(files)},
                               {"ROUNDS", "so many times", cairn::bench::Number(rounds)}});
  cairn::RunFilemap(files, rounds);
  for (const std::size_t bytes : {std::size_t{1} << 20, std::size_t{256} << 20}) cairn::RunCrc(bytes, rounds);
  return 0;
}
