// Restores whose client reads blocks of the cache's files straight into its memory: that it is offered them, that each
// failure brings the same bytes another way, and that whoever is left alone with such a restore is rid of it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

constexpr std::uint64_t kMiB = kCrcBlockBytes;
constexpr std::uint32_t kFits = 0;  // where memory begins in its page, as every variable does in the file

class StraightRestoreTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  // Block 0 holds the value and the beginning of the memory; it ends in the midst of block 5.
  static Memory MemoryOf(std::uint64_t seed) {
    return {ValueOf(1, "step", 42), PlainOf(2, RandomBytes(seed, 5 * kMiB + 1000))};
  }
  // All ranks checkpoint, then the daemon has no image of that any more.
  void CheckpointAndRestart(const std::vector<Memory>& memory, local::Level level = local::LOCAL) {
    {
      Ranks ranks(harness_, static_cast<std::uint32_t>(memory.size()), "job.1");
      id_ = ranks.Checkpoint(1, memory);
      ASSERT_SAYS(ranks[0].Wait(id_, level), local::OK, "");
    }
    harness_.Restart();
  }
  static void ExpectSame(const Memory& a, const Memory& b) {
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].bytes == b[i].bytes) << "variable " << i;
  }

  FakeDisk disk_;  // hands files out, also where the tests' folder has no direct I/O
  CoreHarness harness_{&disk_};
  DatasetId id_ = 0;
};

TEST_F(StraightRestoreTest, TheClientReadsWhatFitsAndTheRestComesThroughAnImage) {
  const Memory memory = MemoryOf(1);
  CheckpointAndRestart({memory});
  Ranks ranks(harness_, 1, "job.2", {.memory = kFits});
  Memory back = Blank(memory);
  const FakeClient::Restored restored = ranks[0].Restore(id_, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_CACHE);
  EXPECT_EQ(restored.files_read, 1u);
  EXPECT_EQ(restored.pieces_copied, 3u) << "the value, and both ends of the memory";
  ExpectSame(back, memory);
  // The descriptor has gone, and the next checkpoint is taken.
  EXPECT_NE(ranks.Checkpoint(2, {memory}), 0u);
}

TEST_F(StraightRestoreTest, MemoryThatDoesNotFitIsNotReadStraight) {
  const Memory memory = MemoryOf(1);
  CheckpointAndRestart({memory});
  Ranks ranks(harness_, 1, "job.2", {.memory = kFits + 8});
  Memory back = Blank(memory);
  const FakeClient::Restored restored = ranks[0].Restore(id_, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.files_read, 0u);
  ExpectSame(back, memory);
}

TEST_F(StraightRestoreTest, ImagesAreNotReadStraight) {
  const Memory memory = MemoryOf(1);
  Ranks ranks(harness_, 1, "job.1", {.memory = kFits});
  id_ = ranks.Checkpoint(1, {memory});
  ASSERT_SAYS(ranks[0].Wait(id_, local::LOCAL), local::OK, "");
  Memory back = Blank(memory);
  const FakeClient::Restored restored = ranks[0].Restore(id_, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_IMAGE);
  EXPECT_EQ(restored.files_read, 0u);
  ExpectSame(back, memory);
}

TEST_F(StraightRestoreTest, AClientThatCannotReadGetsAllThroughAnImage) {
  const std::vector<Memory> memory = {MemoryOf(1), MemoryOf(2)};
  CheckpointAndRestart(memory);
  std::atomic<int> asked{0};  // by both ranks
  Ranks ranks(harness_, 2, "job.2", {.memory = kFits, .on_file = [&asked](std::uint32_t) {
                                       ++asked;
                                       return false;
                                     }});
  std::vector<Memory> back = {Blank(memory[0]), Blank(memory[1])};
  for (const FakeClient::Restored& restored : ranks.Restore(id_, back)) {
    EXPECT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(restored.tier, local::TIER_CACHE);
    EXPECT_EQ(restored.files_read, 0u);
  }
  EXPECT_EQ(asked, 2) << "each was offered one file, once";
  for (Rank rank = 0; rank < 2; ++rank) ExpectSame(back[rank], memory[rank]);
}

class DamagedTest : public StraightRestoreTest, public ::testing::WithParamInterface<std::uint64_t> {};

TEST_P(DamagedTest, TheDaemonFindsItAndAnotherCopyServes) {
  const Memory memory = MemoryOf(1);
  CheckpointAndRestart({memory}, local::PREFIX);
  harness_.Flip(disk_, harness_.CachedFile(id_, 0), GetParam());
  Ranks ranks(harness_, 1, "job.2", {.memory = kFits});
  Memory back = Blank(memory);
  const FakeClient::Restored restored = ranks[0].Restore(id_, back);
  EXPECT_EQ(restored.code, local::OK) << restored.message;
  EXPECT_EQ(restored.tier, local::TIER_PREFIX);
  ExpectSame(back, memory);
  EXPECT_NE(ranks.Checkpoint(2, {memory}), 0u);
}

INSTANTIATE_TEST_SUITE_P(OfTheFile, DamagedTest, ::testing::Values(3 * kMiB + 7, 5 * kMiB + 500),
                         [](const auto& info) { return info.param < 5 * kMiB ? "ReadStraight" : "ReadByTheDaemon"; });

// One that has its plan, and has not read its file yet.
class HalfWayTest : public StraightRestoreTest {
 protected:
  void SetUp() override {
    StraightRestoreTest::SetUp();
    CheckpointAndRestart({memory_});
    client_ = std::make_unique<FakeClient>(harness_, ClientOptions{.memory = kFits});
    ASSERT_SAYS(client_->Open({.key = "job.2"}), local::OK, "");
    call_ = client_->SendRestore(id_, Blank(memory_));
    planned_ = client_->Next(call_);
    ASSERT_EQ(planned_.restore().straight_size(), 1);
    ASSERT_TRUE(client_->Next(call_).has_straight_file());
  }
  void TearDown() override { client_ = nullptr; }

  void SayCopied(std::uint64_t pieces, std::uint32_t files, bool failed = false) {
    local::Request copied;
    copied.mutable_copied()->set_round(planned_.restore().round());
    copied.mutable_copied()->set_pieces(pieces);
    copied.mutable_copied()->set_straight(files);
    copied.mutable_copied()->set_straight_failed(failed);
    client_->Send(std::move(copied));
  }
  local::Reply NextBesidesReady() {
    local::Reply reply = client_->Next(call_);
    while (reply.has_ready()) reply = client_->Next(call_);
    return reply;
  }
  std::uint64_t pieces() const { return static_cast<std::uint64_t>(planned_.restore().plan().bytes_size()); }

  const Memory memory_ = MemoryOf(1);
  std::unique_ptr<FakeClient> client_;
  std::uint64_t call_ = 0;
  local::Reply planned_;
};

TEST_F(HalfWayTest, WhoIsGoneLeavesNothingBehind) {
  client_ = nullptr;
  Ranks ranks(harness_, 1, "job.3", {.memory = kFits});
  Memory back = Blank(memory_);
  EXPECT_EQ(ranks[0].Restore(id_, back).files_read, 1u);
  ExpectSame(back, memory_);
}

TEST_F(HalfWayTest, MoreFilesThanThereAreIsAnOffence) {
  SayCopied(0, 2);
  EXPECT_SAYS(NextBesidesReady(), local::INVALID_ARGUMENT, "2 files read after 0, of 1");
}

// What goes through the image has come, and is not taken for all.
TEST_F(HalfWayTest, AFailureAfterTheImageIsThroughBringsAllThroughTheImage) {
  for (local::Reply ready = client_->Next(call_); ready.ready().pieces() < pieces(); ready = client_->Next(call_)) {
  }
  SayCopied(pieces(), 0);
  EXPECT_FALSE(client_->HasReply(call_));
  SayCopied(pieces(), 0, /*failed=*/true);
  const local::Reply again = NextBesidesReady();
  EXPECT_EQ(again.restore().round(), 2u);
  EXPECT_EQ(again.restore().straight_size(), 0);
  EXPECT_GT(again.restore().plan().bytes_size(), planned_.restore().plan().bytes_size());
}

}  // namespace
}  // namespace cairn
