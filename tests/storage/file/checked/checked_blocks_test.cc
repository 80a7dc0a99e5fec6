// Blocks are compared once, when the first byte of them is read, wherever a read begins and ends.
#include "storage/file/checked/checked_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Piece = std::pair<std::uint64_t, std::uint64_t>;  // offset, bytes

constexpr std::uint64_t kMiB = kCrcBlockBytes;

class CheckedBlocksTest : public testing::Test {
 protected:
  static std::string Content(std::uint64_t bytes) {
    std::string content(bytes, '\0');
    std::mt19937_64 random(bytes);
    for (std::size_t at = 0; at + 8 <= bytes; at += 8) {
      const std::uint64_t word = random();
      std::memcpy(content.data() + at, &word, 8);
    }
    return content;
  }
  static FileSums SumsOfContent(const std::string& content) {
    catalogue::FileEntry entry;
    entry.set_bytes(content.size());
    for (std::uint64_t at = 0; at < content.size(); at += kMiB) {
      const std::string block = content.substr(at, kMiB);
      entry.add_crc32c(Crc32c(std::as_bytes(std::span(block))));
    }
    return SumsOf(entry);
  }

  absl::StatusOr<std::string> Read(std::uint64_t offset, std::uint64_t bytes) {
    std::string target(bytes, '?');
    const absl::Status status = blocks_.Read("the file", offset, std::as_writable_bytes(std::span(target)),
                                             [this](std::uint64_t at, std::span<std::byte> into) -> absl::Status {
                                               asked_.emplace_back(at, into.size());
                                               std::memcpy(into.data(), there_.data() + at, into.size());
                                               return absl::OkStatus();
                                             });
    if (!status.ok()) return status;
    return target;
  }
  void Flip(std::uint64_t at) { there_[at] = static_cast<char>(there_[at] ^ 0x10); }

  const std::string content_ = Content(3 * kMiB + 5000);
  const FileSums sums_ = SumsOfContent(content_);
  std::string there_ = content_;
  CheckedBlocks blocks_{sums_};
  std::vector<Piece> asked_;
};

TEST_F(CheckedBlocksTest, ASmallReadTakesItsBlockOnceAndThenOnlyWhatItAsksFor) {
  EXPECT_EQ(*Read(100, 10), content_.substr(100, 10));
  EXPECT_EQ(*Read(kMiB - 10, 10), content_.substr(kMiB - 10, 10));
  EXPECT_EQ(*Read(3 * kMiB + 4990, 10), content_.substr(3 * kMiB + 4990));
  EXPECT_EQ(asked_, (std::vector<Piece>{{0, kMiB}, {kMiB - 10, 10}, {3 * kMiB, 5000}}));
}

TEST_F(CheckedBlocksTest, WholeBlocksAreReadWhereTheyAreWantedAndGoodOnesAtOnce) {
  EXPECT_EQ(*Read(10, 3 * kMiB), content_.substr(10, 3 * kMiB));
  EXPECT_EQ(asked_, (std::vector<Piece>{{0, kMiB}, {kMiB, kMiB}, {2 * kMiB, kMiB}, {3 * kMiB, 5000}}));
  asked_.clear();
  EXPECT_EQ(*Read(10, 3 * kMiB), content_.substr(10, 3 * kMiB));
  EXPECT_EQ(asked_, (std::vector<Piece>{{10, 3 * kMiB}}));
}

TEST_F(CheckedBlocksTest, ADamagedBlockIsNamedAndTheOthersAreRead) {
  Flip(kMiB + 77);
  EXPECT_TRUE(Read(0, kMiB).ok());
  EXPECT_TRUE(Read(2 * kMiB, kMiB + 5000).ok());
  EXPECT_STATUS(StatusCode::kDataLoss, Read(2 * kMiB - 1, 2).status(), "the file: offset 1048576: 1048576 bytes");
  EXPECT_STATUS(StatusCode::kDataLoss, Read(kMiB + 100, 1).status(), "CRC32C");
  EXPECT_STATUS(StatusCode::kDataLoss, Read(kMiB, kMiB).status(), "instead of");
  Flip(kMiB + 77);
  EXPECT_EQ(*Read(kMiB, kMiB), content_.substr(kMiB, kMiB)) << "what is good again is read again";
}

TEST_F(CheckedBlocksTest, WhatIsBehindTheEndIsDamageAndNothingIsRead) {
  EXPECT_STATUS(StatusCode::kDataLoss, Read(content_.size(), 1).status(), "the file ends at 3150728");
  EXPECT_STATUS(StatusCode::kDataLoss, Read(~std::uint64_t{0}, 1).status(), "the file");
  EXPECT_EQ(*Read(content_.size(), 0), "");
  EXPECT_EQ(blocks_.BlocksOf(content_.size() - 1, 2).bytes, 0u);
  EXPECT_EQ(blocks_.BlocksOf(~std::uint64_t{0}, 2).bytes, 0u);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(CheckedBlocksTest, BlocksInPlaceAreCompared) {
  const auto compare = [&](std::uint64_t offset, std::uint64_t bytes) {
    const CheckedBlocks::Range range = blocks_.BlocksOf(offset, bytes);
    return blocks_.Compare("the file", range.begin, std::as_bytes(std::span(there_)).subspan(range.begin, range.bytes));
  };
  EXPECT_EQ(blocks_.BlocksOf(kMiB - 1, 2).begin, 0u);
  EXPECT_EQ(blocks_.BlocksOf(kMiB - 1, 2).bytes, 2 * kMiB);
  EXPECT_EQ(blocks_.BlocksOf(3 * kMiB, 1).bytes, 5000u);
  Flip(2 * kMiB);
  EXPECT_OK(compare(kMiB - 1, 2));
  EXPECT_OK(compare(3 * kMiB + 1, 1));
  EXPECT_STATUS(StatusCode::kDataLoss, compare(kMiB, kMiB + 1), "the file: offset 2097152");
  EXPECT_STATUS(StatusCode::kDataLoss, compare(3 * kMiB - 1, 1), "the file: offset 2097152");
}

// Any reads in any order give what is in the file, or an error if and only if a block that they touch is damaged.
TEST_F(CheckedBlocksTest, RandomReadsGiveTheFilesBytesOrAnError) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50; ++round) {
    there_ = content_;
    std::vector<bool> damaged(4);
    for (int flips = static_cast<int>(random() % 3); flips > 0; --flips) {
      const std::uint64_t at = random() % content_.size();
      Flip(at);
      damaged[at / kMiB] = there_.compare(at / kMiB * kMiB, kMiB, content_, at / kMiB * kMiB, kMiB) != 0;
    }
    CheckedBlocks blocks(sums_);
    for (int i = 0; i < 20; ++i) {
      const std::uint64_t offset = random() % content_.size();
      const std::uint64_t most = std::min<std::uint64_t>(content_.size() - offset, random() % 2 ? 100 : 4 * kMiB);
      std::string target(random() % most + 1, '?');
      const absl::Status status = blocks.Read("f", offset, std::as_writable_bytes(std::span(target)),
                                              [this](std::uint64_t at, std::span<std::byte> into) -> absl::Status {
                                                std::memcpy(into.data(), there_.data() + at, into.size());
                                                return absl::OkStatus();
                                              });
      const auto first = damaged.begin() + static_cast<std::ptrdiff_t>(offset / kMiB);
      const auto end = damaged.begin() + static_cast<std::ptrdiff_t>((offset + target.size() - 1) / kMiB) + 1;
      ASSERT_EQ(status.ok(), std::find(first, end, true) == end) << offset << " " << target.size();
      if (status.ok()) {
        ASSERT_EQ(target, content_.substr(offset, target.size()));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
