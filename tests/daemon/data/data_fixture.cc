#include "tests/daemon/data/data_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/ftiff/codec.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::chrono::minutes kPatience{1};

std::vector<std::byte> RandomBytes(std::mt19937_64& random, std::size_t bytes) {
  std::vector<std::byte> result((bytes + 7) / 8 * 8);
  for (std::size_t i = 0; i < result.size(); i += 8) {
    const std::uint64_t word = random();
    std::memcpy(result.data() + i, &word, 8);
  }
  result.resize(bytes);
  return result;
}

std::uint64_t Below(std::mt19937_64& random, std::uint64_t end) {
  return random() % end;
}

// Variables shrink: their last containers hold less than they could, or nothing any more.
void ShrinkSome(std::mt19937_64& random, Sample& sample) {
  for (std::size_t i = 0; i < sample.variables.size(); ++i) {
    if (Below(random, 2) == 0) continue;
    const std::uint64_t bytes = Below(random, sample.variables[i].bytes + 1);
    for (ftiff::Container& container : sample.layout.containers) {
      if (container.id != sample.variables[i].id) continue;
      if (container.variable_offset > bytes) container.has_content = false;
      const std::uint64_t left = container.has_content ? bytes - container.variable_offset : 0;
      container.chunk_bytes = std::min(container.chunk_bytes, left);
    }
    sample.variables[i].bytes = bytes;
    sample.content[i].resize(bytes);
  }
}

}  // namespace

void FillData(Sample& sample) {
  sample.data.assign(sample.layout.data_bytes, std::byte{0});
  for (const ftiff::Container& container : sample.layout.containers) {
    if (!container.has_content) continue;
    for (std::size_t i = 0; i < sample.variables.size(); ++i) {
      if (sample.variables[i].id != container.id || container.chunk_bytes == 0) continue;
      std::memcpy(sample.data.data() + container.file_offset, sample.content[i].data() + container.variable_offset,
                  container.chunk_bytes);
    }
  }
}

std::uint64_t TestSeed() {
  if (const char* const given = std::getenv("CAIRN_TEST_SEED")) return std::strtoull(given, nullptr, 10);
  return std::random_device{}();
}

std::string SeedText(std::uint64_t seed) {
  return fmt::format("CAIRN_TEST_SEED={}", seed);
}

Sample MakeSample(std::mt19937_64& random, const std::vector<std::uint64_t>& sizes, ftiff::Packing packing) {
  Sample sample;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sample.variables.push_back({static_cast<std::int32_t>(7 + 3 * i), sizes[i]});
    sample.content.push_back(RandomBytes(random, sizes[i]));
  }
  absl::StatusOr<ftiff::FileLayout> layout = ftiff::PlanFresh(sample.variables, packing);
  CAIRN_CHECK(layout.ok());
  sample.layout = *std::move(layout);
  FillData(sample);
  return sample;
}

Sample RandomSample(std::mt19937_64& random, std::uint64_t bytes_max) {
  std::vector<std::uint64_t> sizes(Below(random, 8) == 0 ? Below(random, 300) : Below(random, 6));
  std::uint64_t left = Below(random, bytes_max + 1);
  for (std::uint64_t& bytes : sizes) {
    bytes = Below(random, 3) == 0 ? Below(random, 5000) : Below(random, left + 1);
    if (Below(random, 4) == 0) bytes -= bytes % kWindowBytes;
    bytes = std::min(bytes, left);
    left -= bytes;
  }
  std::shuffle(sizes.begin(), sizes.end(), random);
  Sample sample = MakeSample(random, sizes, Below(random, 2) == 0 ? ftiff::Packing::kAligned : ftiff::Packing::kExact);
  if (Below(random, 2) == 0) {
    ShrinkSome(random, sample);
    FillData(sample);
  }
  return sample;
}

Sample NextSample(std::mt19937_64& random, const Sample& last, double changed) {
  Sample next = last;
  std::bernoulli_distribution changes(changed);
  for (std::vector<std::byte>& content : next.content) {
    for (std::size_t at = 0; at < content.size(); at += 4096) {
      if (changes(random))
        content[at + Below(random, std::min<std::size_t>(4096, content.size() - at))] ^= std::byte{1};
    }
  }
  for (std::size_t i = 0; i < next.variables.size(); ++i) {
    if (Below(random, 4) != 0) continue;
    const std::uint64_t bytes = Below(random, next.variables[i].bytes + next.variables[i].bytes / 2 + 3);
    next.variables[i].bytes = bytes;
    next.content[i].resize(bytes, std::byte{0x5A});
  }
  if (Below(random, 4) == 0) {
    const std::uint64_t bytes = Below(random, 1 << 20);
    next.variables.push_back({static_cast<std::int32_t>(1000 + next.variables.size()), bytes});
    next.content.push_back(RandomBytes(random, bytes));
  }
  const auto packing = Below(random, 2) == 0 ? ftiff::Packing::kAligned : ftiff::Packing::kExact;
  absl::StatusOr<ftiff::FileLayout> layout = Below(random, 4) == 0
                                                 ? ftiff::PlanFresh(next.variables, packing)
                                                 : ftiff::PlanNext(last.layout, false, next.variables, packing);
  CAIRN_CHECK(layout.ok());
  next.layout = *std::move(layout);
  FillData(next);
  return next;
}

Capture::Callbacks CaptureListener::callbacks() {
  return {.on_released =
              [state = state_](std::uint64_t windows) {
                const std::lock_guard lock(state->mutex);
                EXPECT_EQ(state->ends, 0u) << "released after the end";
                EXPECT_GT(windows, state->released);
                state->released = windows;
                state->changed.notify_all();
              },
          .on_end =
              [state = state_](absl::StatusOr<CaptureResult> result) {
                const std::lock_guard lock(state->mutex);
                EXPECT_EQ(++state->ends, 1u) << "ended twice";
                state->end = std::move(result);
                state->changed.notify_all();
              }};
}

std::optional<absl::StatusOr<CaptureResult>> CaptureListener::WaitForEnd() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait_for(lock, kPatience, [this] { return state_->end.has_value(); });
  EXPECT_TRUE(state_->end.has_value()) << "no end";
  return state_->end;
}

bool CaptureListener::WaitForReleased(std::uint64_t windows) {
  std::unique_lock lock(state_->mutex);
  const bool came =
      state_->changed.wait_for(lock, kPatience, [&] { return state_->end.has_value() || state_->released >= windows; });
  EXPECT_TRUE(came) << "released " << state_->released << ", waiting for " << windows;
  return state_->released >= windows;
}

bool CaptureListener::ended() const {
  const std::lock_guard lock(state_->mutex);
  return state_->end.has_value();
}

std::uint64_t CaptureListener::released() const {
  const std::lock_guard lock(state_->mutex);
  return state_->released;
}

void CopyPiece(const Sample& sample, const PlanPiece& piece, std::span<std::byte> image) {
  const std::vector<std::byte>& from = sample.content[piece.variable];
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(piece.variable_offset), piece.bytes,
              image.begin() + static_cast<std::ptrdiff_t>(piece.image_offset));
}

bool FillAll(const Sample& sample, Capture& capture, Image& image, CaptureListener& listener, std::size_t batch) {
  const std::vector<PlanPiece>& plan = capture.plan();
  for (std::size_t i = capture.pieces_filled(); i < plan.size(); ++i) {
    if (plan[i].after_released > listener.released()) {
      // Who waits tells first what it has done.
      EXPECT_OK(capture.Filled(i));
      if (!listener.WaitForReleased(plan[i].after_released)) return false;
    }
    CopyPiece(sample, plan[i], image.bytes());
    if ((i + 1) % batch != 0) continue;
    EXPECT_OK(capture.Filled(i + 1));
  }
  EXPECT_OK(capture.Filled(plan.size()));
  return true;
}

std::vector<std::uint32_t> BlockChecksums(std::span<const std::byte> bytes) {
  std::vector<std::uint32_t> checksums;
  for (std::size_t at = 0; at < bytes.size(); at += kCrcBlockBytes) {
    checksums.push_back(Crc32c(bytes.subspan(at, std::min<std::size_t>(kCrcBlockBytes, bytes.size() - at))));
  }
  return checksums;
}

void ExpectFile(Disk& disk, const std::string& path, const Sample& sample, const CaptureResult& result) {
  ASSERT_OK_AND_ASSIGN(const std::string text, ReadWhole(disk, path, std::uint64_t{1} << 30));
  const std::span<const std::byte> file = std::as_bytes(std::span(text));
  ASSERT_EQ(file.size(), sample.layout.file_bytes(ftiff::Letter::kF));
  EXPECT_EQ(result.file_bytes, file.size());
  EXPECT_TRUE(std::equal(sample.data.begin(), sample.data.end(), file.begin())) << "the data differs";
  const auto behind = file.subspan(sample.data.size());
  EXPECT_TRUE(std::equal(behind.begin(), behind.end(), result.metadata.begin(), result.metadata.end()));
  EXPECT_EQ(result.crc32c, BlockChecksums(file));
  EXPECT_EQ(result.crc32, Crc32(file));

  const ftiff::ReadAt read = [file](std::uint64_t offset, std::span<std::byte> target) {
    std::copy_n(file.begin() + static_cast<std::ptrdiff_t>(offset), target.size(), target.begin());
    return absl::OkStatus();
  };
  ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata metadata, ftiff::DecodeMetadata(path, file.size(), read));
  EXPECT_EQ(metadata.layout.containers, sample.layout.containers);
  EXPECT_EQ(result.layout.containers, sample.layout.containers);
  EXPECT_EQ(result.chunk_hashes, metadata.chunk_hashes);
  ASSERT_OK_AND_ASSIGN(const auto verdict, ftiff::VerifyData(path, metadata, read));
  for (const ftiff::BadChunk& chunk : verdict.bad)
    ADD_FAILURE() << "container " << chunk.container << ": " << chunk.why;
}

}  // namespace cairn
