// Copies that are made of what an earlier dataset's copies have already: which blocks come, and that what is made is
// the same whatever the earlier one is worth.
#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>

#include "storage/base/checksum.h"
#include "storage/place/cache/dataset_folder.h"
#include "tests/storage/job/protect/nodes.h"

namespace cairn {
namespace {

using testing::Node;
using testing::Nodes;

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kBytes = 6 * kMiB + 777;
constexpr DatasetId kEarlier = 8, kNow = 9;

// Six nodes with a rank each; an earlier dataset is protected by copies, and another one has just been written.
class EarlierTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nodes_.Next(kEarlier, ContentBefore);
    sets_ = nodes_.Sets(scr::Scheme::kPartner);
    ASSERT_OK(nodes_.Protect(sets_));
    nodes_.earlier = {{.folder = nodes_.node(0).folder,
                       .descriptor = TestDescriptor(kEarlier, nodes_.nranks()),
                       .step = 10 * kEarlier}};
  }
  static std::string ContentBefore(Rank rank) { return TestContent(rank + 1, kBytes); }
  void Write(std::function<std::string(Rank)> content) {
    content_ = std::move(content);
    nodes_.Next(kNow, content_);
  }
  // What it reads of others' checkpoint files; each copy is read once.
  std::size_t ReadsToProtect() {
    std::atomic<std::size_t> reads = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_.node(i).disk.SetHook([&reads](FakeOp op, const std::string& path) {
        if (op == FakeOp::kRead && path.ends_with(".fti")) ++reads;
      });
    }
    EXPECT_OK(nodes_.Protect(sets_));
    for (std::size_t i = 0; i < nodes_.size(); ++i) nodes_.node(i).disk.SetHook(nullptr);
    return reads;
  }
  void ExpectAllCopiesAreRight() {
    for (Rank lost = 0; lost < nodes_.nranks(); ++lost) {
      Throttle throttle(0);
      TransferProgress progress;
      const RebuildWish wish = nodes_.WishToRebuild(lost, {lost});
      ASSERT_OK_AND_ASSIGN(const Rebuilt rebuilt, OpenRebuilt(wish, throttle, progress));
      const catalogue::FileEntry& entry = rebuilt.catalogue.file(0);
      ASSERT_OK_AND_ASSIGN(const auto file, rebuilt.disk->Open(rebuilt.folder + "/" + entry.name(), {}));
      std::string bytes(entry.bytes(), '\0');
      ASSERT_OK(file->ReadAt(0, std::as_writable_bytes(std::span(bytes))));
      EXPECT_TRUE(bytes == content_(lost)) << "rank " << lost;
    }
  }

  Nodes nodes_ = testing::SixNodes();
  std::vector<kept::Set> sets_;
  std::function<std::string(Rank)> content_;
};

std::string Changed(Rank rank, const std::set<std::size_t>& blocks) {
  std::string content = TestContent(rank + 1, kBytes);
  for (const std::size_t block : blocks) content[block * kMiB + 5] ^= 1;
  return content;
}

TEST_F(EarlierTest, OnlyBlocksThatDifferCome) {
  Write([](Rank rank) { return Changed(rank, {1, 4}); });
  EXPECT_EQ(ReadsToProtect(), nodes_.size() * 2);
  ExpectAllCopiesAreRight();
}

TEST_F(EarlierTest, WithoutAnEarlierOneAllBlocksCome) {
  Write([](Rank rank) { return Changed(rank, {1, 4}); });
  nodes_.earlier.clear();
  EXPECT_EQ(ReadsToProtect(), nodes_.size() * 7);
  ExpectAllCopiesAreRight();
}

TEST_F(EarlierTest, AFileThatHasGrownOrShrunkSharesWhatIsTheSame) {
  Write([](Rank rank) {
    const std::string content = Changed(rank, {0}), more = TestContent(rank + 100, kMiB);
    return rank % 2 == 0 ? content + more : content.substr(0, 3 * kMiB);
  });
  // Seven or eight blocks, of which the first, the one that was the last, and what is new come; or three, and the
  // first.
  EXPECT_EQ(ReadsToProtect(), nodes_.size() / 2 * (3 + 1));
  ExpectAllCopiesAreRight();
}

TEST_F(EarlierTest, OtherSetsHaveNothingInCommon) {
  Write([](Rank rank) { return Changed(rank, {}); });
  std::vector<kept::Set> others = sets_;
  for (kept::Set& set : others) std::ranges::reverse(*set.mutable_ranks());
  sets_ = others;
  EXPECT_EQ(ReadsToProtect(), nodes_.size() * 7);
  ExpectAllCopiesAreRight();
}

TEST_F(EarlierTest, WhatIsDamagedThereComesFromItsOwner) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_.node(i);
    ASSERT_OK_AND_ASSIGN(const kept::Record record,
                         ReadRedundancyRecord(node.disk, node.folder, TestRun(), nodes_.DescriptorOf(node)));
    const std::string path = RecordsFolder(node.folder) + "/" + record.files(0).file().name();
    node.disk.FlipBit(path, 8 * (record.files(0).header_bytes() + 2 * kMiB + kMiB / 2));
  }
  Write([](Rank rank) { return Changed(rank, {}); });
  // The redundancy file's own blocks begin elsewhere: one that is damaged has a part of two of the file's.
  const std::size_t reads = ReadsToProtect();
  EXPECT_GE(reads, nodes_.size());
  EXPECT_LE(reads, nodes_.size() * 2);
  ExpectAllCopiesAreRight();
}

TEST_F(EarlierTest, WhatIsGoneComesFromItsOwner) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_.node(i);
    ASSERT_OK(RemoveRedundancyRecord(node.disk, node.folder));
  }
  Write([](Rank rank) { return Changed(rank, {}); });
  EXPECT_EQ(ReadsToProtect(), nodes_.size() * 7);
  ExpectAllCopiesAreRight();
}

// What CRC32C does not see: its polynomial, added to the bytes from some bit on.
std::string WithTheSameCrc32c(std::string content) {
  constexpr std::uint64_t kPolynomial = 0x11EDC6F41;
  for (int i = 0; i <= 32; ++i) {
    if ((kPolynomial >> (32 - i) & 1) != 0)
      content[100 + static_cast<std::size_t>(i / 8)] ^= static_cast<char>(1 << i % 8);
  }
  return content;
}

TEST_F(EarlierTest, TwoBlocksWithTheSameChecksumAreTakenForTheSameOnlyIfTheFileSaysSo) {
  const std::string before = ContentBefore(0), now = WithTheSameCrc32c(before);
  ASSERT_NE(before, now);
  ASSERT_EQ(Crc32c(std::as_bytes(std::span(before))), Crc32c(std::as_bytes(std::span(now))));
  Write([](Rank rank) { return WithTheSameCrc32c(ContentBefore(rank)); });
  EXPECT_EQ(ReadsToProtect(), nodes_.size() * 7);  // once more, and all of it
  ExpectAllCopiesAreRight();
}

}  // namespace
}  // namespace cairn
