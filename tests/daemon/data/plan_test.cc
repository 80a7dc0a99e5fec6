#include "daemon/data/plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "storage/base/md5_lanes.h"
#include "tests/daemon/data/data_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

// A client and a daemon with a ring of slots, checking each step.
class RingModel {
 public:
  RingModel(const Sample& sample, std::uint64_t slots)
      : sample_(sample), image_(slots * kWindowBytes), owner_(slots, kFree), file_(sample.data.size()) {
    for (const ftiff::Container& container : sample.layout.containers) {
      if (!container.has_content) continue;
      for (std::uint64_t at = container.file_offset; at < container.file_offset + container.chunk_bytes;) {
        const std::uint64_t next =
            std::min(container.file_offset + container.chunk_bytes, (at / kWindowBytes + 1) * kWindowBytes);
        bytes_left_[at / kWindowBytes] += next - at;
        at = next;
      }
    }
  }

  // The client copies the piece; the daemon releases as late as it may, and at times some more.
  void Do(const PlanPiece& piece, std::mt19937_64& random) {
    ASSERT_LE(piece.after_released, complete_.size()) << "deadlock: no such window is complete";
    const std::uint64_t more = random() % 4 == 0 ? random() % 3 : 0;
    while (released_ < std::min<std::uint64_t>(complete_.size(), piece.after_released + more)) Release();
    const std::uint64_t window = piece.file_offset / kWindowBytes;
    const std::uint64_t slot = piece.image_offset / kWindowBytes;
    ASSERT_EQ((piece.file_offset + piece.bytes - 1) / kWindowBytes, window) << "a piece crosses a window";
    ASSERT_EQ(piece.image_offset % kWindowBytes, piece.file_offset % kWindowBytes);
    ASSERT_LT(slot, owner_.size());
    if (owner_[slot] != window) {
      ASSERT_EQ(owner_[slot], kFree) << "slot " << slot << " is not released";
      owner_[slot] = window;
    }
    slot_of_[window] = slot;
    CopyPiece(sample_, piece, image_);
    Cover(window, piece);
  }

  void ExpectFileWhole() {
    while (released_ < complete_.size()) Release();
    for (const auto& [window, left] : bytes_left_) EXPECT_EQ(left, 0u) << "window " << window;
    EXPECT_TRUE(file_ == sample_.data);
  }

 private:
  static constexpr std::uint64_t kFree = UINT64_MAX;

  void Cover(std::uint64_t window, const PlanPiece& piece) {
    ASSERT_GE(bytes_left_[window], piece.bytes);
    bytes_left_[window] -= piece.bytes;
    pieces_[window].push_back(piece);
    if (bytes_left_[window] == 0) complete_.push_back(window);
  }

  void Release() {
    const std::uint64_t window = complete_[released_++];
    for (const PlanPiece& piece : pieces_[window]) {
      std::copy_n(image_.begin() + static_cast<std::ptrdiff_t>(piece.image_offset), piece.bytes,
                  file_.begin() + static_cast<std::ptrdiff_t>(piece.file_offset));
    }
    owner_[slot_of_[window]] = kFree;
  }

  const Sample& sample_;
  std::vector<std::byte> image_;
  std::vector<std::uint64_t> owner_;
  std::vector<std::byte> file_;
  std::map<std::uint64_t, std::uint64_t> bytes_left_, slot_of_;
  std::map<std::uint64_t, std::vector<PlanPiece>> pieces_;
  std::vector<std::uint64_t> complete_;
  std::uint64_t released_ = 0;
};

std::vector<PlanPiece> PlanOf(const Sample& sample, std::uint64_t image_bytes) {
  absl::StatusOr<std::vector<PlanPiece>> plan = MakePlan(sample.layout, sample.variables, image_bytes);
  EXPECT_OK(plan);
  return plan.ok() ? *std::move(plan) : std::vector<PlanPiece>();
}

// The most containers that were begun and not ended at once.
std::size_t OpenAtOnce(const Sample& sample, const std::vector<PlanPiece>& plan) {
  std::map<std::uint64_t, std::uint64_t> left;  // by file offset of the container's end
  for (const ftiff::Container& container : sample.layout.containers) {
    if (container.has_content && container.chunk_bytes > 0) {
      left[container.file_offset + container.chunk_bytes] = container.chunk_bytes;
    }
  }
  std::set<std::uint64_t> open;
  std::size_t most = 0;
  for (const PlanPiece& piece : plan) {
    const auto container = left.upper_bound(piece.file_offset);
    open.insert(container->first);
    most = std::max(most, open.size());
    container->second -= piece.bytes;
    if (container->second == 0) open.erase(container->first);
  }
  return most;
}

TEST(PlanTest, AnyPlanInAnyRingReproducesTheFileWithoutDeadlock) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60 && !HasFailure(); ++round) {
    const Sample sample = RandomSample(random, 24 * kWindowBytes);
    for (const std::uint64_t slots : {std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{4}, 2 + random() % 30}) {
      const std::vector<PlanPiece> plan = PlanOf(sample, slots * kWindowBytes + random() % kWindowBytes);
      RingModel model(sample, std::max(slots, sample.windows_bytes() / kWindowBytes));
      for (const PlanPiece& piece : plan) {
        model.Do(piece, random);
        if (HasFatalFailure()) return;
      }
      model.ExpectFileWhole();
      const bool whole = slots * kWindowBytes >= sample.windows_bytes();
      EXPECT_LE(OpenAtOnce(sample, plan), whole ? kMd5LanesMax : std::clamp<std::uint64_t>(slots / 2, 1, kMd5LanesMax));
    }
  }
}

TEST(PlanTest, ARingPlanStaysInItsSlots) {
  const std::uint64_t seed = TestSeed();
  SCOPED_TRACE(SeedText(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    const Sample sample = RandomSample(random, 24 * kWindowBytes);
    const std::uint64_t slots = 2 + random() % 8;
    if (slots * kWindowBytes >= sample.windows_bytes()) continue;
    for (const PlanPiece& piece : PlanOf(sample, slots * kWindowBytes)) {
      ASSERT_LE(piece.image_offset + piece.bytes, slots * kWindowBytes);
    }
  }
}

TEST(PlanTest, AWholeImageIsTheFileItself) {
  std::mt19937_64 random(1);
  const Sample sample = MakeSample(random, {5 << 20, 100, 3 << 20}, ftiff::Packing::kAligned);
  for (const PlanPiece& piece : PlanOf(sample, sample.windows_bytes())) {
    EXPECT_EQ(piece.image_offset, piece.file_offset);
    EXPECT_EQ(piece.after_released, 0u);
  }
}

TEST(PlanTest, GoesRoundRobinOverAsManyContainersAsThereAreLanes) {
  std::mt19937_64 random(1);
  const Sample sample = MakeSample(random, {64 << 20}, ftiff::Packing::kAligned);
  ASSERT_EQ(sample.layout.containers.size(), 32u);
  const std::vector<PlanPiece> plan = PlanOf(sample, sample.windows_bytes());
  for (std::size_t i = 0; i < kMd5LanesMax; ++i) {
    EXPECT_EQ(plan[i].file_offset, sample.layout.containers[i].file_offset);
    EXPECT_EQ(plan[kMd5LanesMax + i].file_offset, sample.layout.containers[i].file_offset + kWindowBytes);
  }
}

TEST(PlanTest, NoBytesAreNoPieces) {
  std::mt19937_64 random(1);
  EXPECT_TRUE(PlanOf(MakeSample(random, {}, ftiff::Packing::kAligned), 0).empty());
  EXPECT_TRUE(PlanOf(MakeSample(random, {0, 0}, ftiff::Packing::kExact), 0).empty());
}

TEST(PlanTest, LessThanTheSmallestRingIsRefused) {
  std::mt19937_64 random(1);
  const Sample sample = MakeSample(random, {3 << 20}, ftiff::Packing::kAligned);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, MakePlan(sample.layout, sample.variables, kRingBytesMin - 1),
                "at least 2097152");
  EXPECT_OK(MakePlan(sample.layout, sample.variables, kRingBytesMin));
}

TEST(PlanTest, LayoutsThatContradictThemselvesAreRefused) {
  std::mt19937_64 random(1);
  const Sample sample = MakeSample(random, {5000, 5000}, ftiff::Packing::kAligned);
  ftiff::FileLayout layout = sample.layout;
  layout.containers[1].id = 99;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MakePlan(layout, sample.variables, 1 << 20), "variable 99");
  layout = sample.layout;
  layout.containers[1].chunk_bytes = UINT64_MAX - 2;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MakePlan(layout, sample.variables, 1 << 20), "beyond");
  layout = sample.layout;
  layout.containers[1].file_offset = 4999;
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, MakePlan(layout, sample.variables, 1 << 20), "overlap");
}

}  // namespace
}  // namespace cairn
