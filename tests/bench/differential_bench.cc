// What captures that start from an older file save: 1 % of the 4 KiB blocks of a rank change from step to step.
//   alternating  two files take turns, so that each receives two steps' changes: at most 3 % of the bytes
//   clone        extents are shared with the last file (where the file system can): at most 1.5 %
//   restart      as alternating, but the daemon has no digests and makes them from the file
//   digests      a capture in full that makes digests / one that does not
// Times are from the commit to on_end (of `restart` from the start, without the client's copying); ratios are paired
// with a capture in full in the same round, and alternate.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/data/capture.h"
#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "tests/bench/arguments.h"
#include "tests/bench/ratio.h"
#include "tests/bench/raw_io.h"

namespace cairn {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kChangedPerStep = 0.01;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

struct Written {
  std::string path;
  CaptureResult result;
  std::uint64_t data_bytes = 0;
  double from_commit = 0;
  double without_copy = 0;  // from the start, less what the client copied

  double part() const { return static_cast<double>(result.bytes_written) / static_cast<double>(result.file_bytes); }
};

CaptureBase BaseOf(const Written& file, bool clone, bool digests) {
  return {.path = file.path,
          .clone = clone,
          .file_bytes = file.result.file_bytes,
          .data_bytes = file.data_bytes,
          .crc32c = file.result.crc32c,
          .digests = digests ? file.result.digests : nullptr};
}

// One rank: its memory and its image.
class Rank {
 public:
  Rank(Disk& disk, std::size_t bytes)
      : disk_(disk),
        memory_(bytes),
        layout_(*ftiff::PlanFresh({{{1, bytes}}}, ftiff::Packing::kAligned)),
        image_(*Image::Make(budget_, layout_.data_bytes)),
        plan_(*MakePlan(layout_, {{{1, bytes}}}, image_->bytes().size())) {
    for (std::size_t at = 0; at < bytes; at += 8) {
      const std::uint64_t word = random_();
      std::memcpy(memory_.data() + at, &word, std::min<std::size_t>(8, bytes - at));
    }
  }
  ~Rank() {
    for (const std::string& path : made_) unlink(path.c_str());
  }

  // Changes a byte in so many of all blocks.
  void Step(double part) {
    const std::size_t blocks = memory_.size() / kDigestBlockBytes;
    const auto changes = static_cast<std::size_t>(part * static_cast<double>(blocks));
    std::vector<bool> changed(blocks, false);
    for (std::size_t i = 0; i < changes;) {
      const std::size_t block = random_() % blocks;
      if (changed[block]) continue;
      changed[block] = true;
      memory_[block * kDigestBlockBytes + random_() % kDigestBlockBytes] ^= std::byte{1};
      ++i;
    }
  }

  Written Write(std::optional<CaptureBase> base, bool want_digests) {
    std::promise<absl::StatusOr<CaptureResult>> end;
    auto ended = end.get_future();
    Written written{.path = fmt::format("{}/cairn-differential-{}-{}", bench::BenchFolder(), getpid(), made_.size()),
                    .result = {},
                    .data_bytes = layout_.data_bytes};
    made_.push_back(written.path);
    const auto start = Clock::now();
    const auto capture = Capture::Start(disk_, pool_,
                                        {.layout = layout_,
                                         .base = std::move(base),
                                         .want_digests = want_digests,
                                         .plan = plan_,
                                         .image = image_,
                                         .work_path = written.path},
                                        {.on_released = {}, .on_end = [&end](absl::StatusOr<CaptureResult> result) {
                                           end.set_value(std::move(result));
                                         }});
    const auto copy = Clock::now();
    for (const PlanPiece& piece : plan_) {
      std::memcpy(image_->bytes().data() + piece.image_offset, memory_.data() + piece.variable_offset, piece.bytes);
    }
    CAIRN_CHECK(capture->Filled(plan_.size()).ok());
    const auto commit = Clock::now();
    CAIRN_CHECK(capture->Commit().ok());
    absl::StatusOr<CaptureResult> result = ended.get();
    const auto done = Clock::now();
    CAIRN_CHECK(result.ok());
    written.result = *std::move(result);
    written.from_commit = Seconds(commit, done);
    written.without_copy = Seconds(start, done) - Seconds(copy, commit);
    return written;
  }

  void Remove(const Written& file) { unlink(file.path.c_str()); }

  // What the disk holds is what the result says.
  void Check(const Written& file) {
    const absl::StatusOr<std::string> text = ReadWhole(disk_, file.path, file.result.file_bytes);
    CAIRN_CHECK(text.ok());
    CAIRN_CHECK(Crc32(std::as_bytes(std::span(*text))) == file.result.crc32);
  }

 private:
  Disk& disk_;
  std::mt19937_64 random_{1};
  ImageBudget budget_{std::uint64_t{16} << 30};
  const std::unique_ptr<WorkPool> owned_pool_ = MakeWorkPool(std::max(1u, std::thread::hardware_concurrency()));
  WorkPool& pool_ = *owned_pool_;
  std::vector<std::byte> memory_;
  const ftiff::FileLayout layout_;
  const std::shared_ptr<Image> image_;
  const std::vector<PlanPiece> plan_;
  std::vector<std::string> made_;
};

void PrintParts(std::vector<double> parts, double bar) {
  std::sort(parts.begin(), parts.end());
  fmt::print("  bytes written / bytes protected: median {:.2f} %, most {:.2f} % (bar {:.1f} %)\n",
             100 * parts[parts.size() / 2], 100 * parts.back(), 100 * bar);
}

double FromCommit(const Written& file) {
  return file.from_commit;
}
double WithoutCopy(const Written& file) {
  return file.without_copy;
}

// A differential capture and one in full of the same bytes, in turns.
template <typename Differential>
bench::Ratio Pair(Rank& rank, bool differential_first, double (*seconds)(const Written&),
                  const Differential& differential) {
  bench::Ratio ratio;
  if (differential_first) ratio.measured = differential();
  const Written full = rank.Write(std::nullopt, true);
  ratio.limit = seconds(full);
  rank.Remove(full);
  if (!differential_first) ratio.measured = differential();
  return ratio;
}

struct Alternation {
  const char* name;
  bool restart;    // before each step: nobody knows the digests
  double changed;  // of the blocks, in each step
  double bar;      // of the bytes
};

void RunAlternating(Disk& disk, std::size_t bytes, int rounds, const Alternation& kind) {
  Rank rank(disk, bytes);
  Written older = rank.Write(std::nullopt, true);
  rank.Step(kind.changed);
  Written newer = rank.Write(std::nullopt, true);
  std::vector<double> parts;
  std::vector<bench::Ratio> times;
  const auto seconds = kind.restart ? WithoutCopy : FromCommit;
  for (int round = 0; round < rounds; ++round) {
    rank.Step(kind.changed);
    times.push_back(Pair(rank, round % 2 == 0, seconds, [&] {
      Written next = rank.Write(BaseOf(older, false, !kind.restart), true);
      CAIRN_CHECK(next.result.base_status.ok());
      older = std::exchange(newer, std::move(next));
      parts.push_back(newer.part());
      return seconds(newer);
    }));
  }
  rank.Check(newer);
  bench::PrintRatios(kind.name, times, "a capture in full");
  PrintParts(std::move(parts), kind.bar);
}

void RunClone(Disk& disk, std::size_t bytes, int rounds) {
  Rank rank(disk, bytes);
  Written last = rank.Write(std::nullopt, true);
  std::vector<double> parts;
  std::vector<bench::Ratio> times;
  for (int round = 0; round < rounds; ++round) {
    rank.Step(kChangedPerStep);
    bool cloned = true;
    times.push_back(Pair(rank, round % 2 == 0, FromCommit, [&] {
      Written next = rank.Write(BaseOf(last, true, true), true);
      cloned = next.result.base_status.ok();
      rank.Remove(std::exchange(last, std::move(next)));
      parts.push_back(last.part());
      return last.from_commit;
    }));
    if (!cloned) return fmt::print("clone: {}\n", MessageOf(last.result.base_status));
  }
  rank.Check(last);
  bench::PrintRatios("clone", times, "a capture in full");
  PrintParts(std::move(parts), 0.015);
}

void RunDigests(Disk& disk, std::size_t bytes, int rounds) {
  Rank rank(disk, bytes);
  std::vector<bench::Ratio> times;
  for (int round = 0; round < rounds; ++round) {
    times.push_back(Pair(rank, round % 2 == 0, FromCommit, [&] {
      const Written plain = rank.Write(std::nullopt, false);
      rank.Remove(plain);
      return plain.from_commit;
    }));
    std::swap(times.back().measured, times.back().limit);
  }
  bench::PrintRatios("digests", times, "a capture without");
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  int rounds = 15;
  std::size_t mib = 512;
  cairn::bench::ReadArguments(argc, argv, "What captures that start from an older file save.",
                              {{"ROUNDS", "so many times", cairn::bench::Number(rounds)},
                               {"MIB", "of the rank's file", cairn::bench::Number(mib, 1, cairn::bench::kMibMax)}});
  const std::size_t bytes = mib << 20;
  const std::unique_ptr<cairn::PosixDisk> disk = cairn::MakePosixDisk();
  fmt::print("{} MiB, {} rounds, {}\n", bytes >> 20, rounds, disk->mechanisms().engine);
  using cairn::kChangedPerStep;
  for (const cairn::Alternation& kind : {cairn::Alternation{"alternating", false, kChangedPerStep, 0.03},
                                         {"restart", true, kChangedPerStep, 0.03},
                                         {"all changed", false, 1.0, 1.0}}) {
    cairn::RunAlternating(*disk, bytes, rounds, kind);
  }
  cairn::RunClone(*disk, bytes, rounds);
  cairn::RunDigests(*disk, bytes, rounds);
}
