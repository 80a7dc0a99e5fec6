// Datasets from begin to `captured`, and what fails them: design.md, "The ladder".
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class DatasetsTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }
  CoreHarness harness_;
};

const Memory kMemory = {PlainOf(3, RandomBytes(3, 3 << 20)), ValueOf(1, "step", 7), PlainOf(9, "")};

TEST_F(DatasetsTest, EachRankIsAnsweredWhenItsOwnBytesAreCaptured) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply first = ranks[0].Checkpoint(10, kMemory);
  ASSERT_SAYS(first, local::OK, "");  // no barrier: rank 1 has not begun
  const DatasetId id = first.committed().dataset();
  local::Reply test = ranks[0].Test(id, local::CAPTURED);
  ASSERT_SAYS(test, local::OK, "");
  EXPECT_FALSE(test.test().reached());
  EXPECT_EQ(test.test().level(), local::NONE);

  const std::uint64_t waiting = ranks[0].SendWait(id, local::LOCAL);
  const local::Reply second = ranks[1].Checkpoint(10, kMemory);
  ASSERT_SAYS(second, local::OK, "");
  EXPECT_EQ(second.committed().dataset(), id);
  test = ranks[0].Next(waiting);
  ASSERT_SAYS(test, local::OK, "");
  EXPECT_TRUE(test.test().reached());
  EXPECT_EQ(test.test().level(), local::LOCAL);
}

TEST_F(DatasetsTest, AStepThatIsDoneAgainIsAnotherDataset) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply first = client.Checkpoint(10, kMemory), second = client.Checkpoint(10, kMemory);
  ASSERT_SAYS(first, local::OK, "");
  ASSERT_SAYS(second, local::OK, "");
  EXPECT_GT(second.committed().dataset(), first.committed().dataset());
}

TEST_F(DatasetsTest, AnUnchangedPlanTravelsOnce) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply first = client.Begin(1, kMemory);
  ASSERT_SAYS(first, local::OK, "");
  EXPECT_FALSE(first.begin().same_plan());
  client.Fill(kMemory);
  ASSERT_SAYS(client.Commit(), local::OK, "");
  const local::Reply second = client.Begin(2, kMemory);
  ASSERT_SAYS(second, local::OK, "");
  EXPECT_TRUE(second.begin().same_plan());
  EXPECT_FALSE(second.begin().has_plan());
  client.Fill(kMemory);
  ASSERT_SAYS(client.Commit(), local::OK, "");
  const Memory other = {PlainOf(3, RandomBytes(4, 2 << 20))};
  const local::Reply third = client.Begin(3, other);
  ASSERT_SAYS(third, local::OK, "");
  EXPECT_FALSE(third.begin().same_plan());
}

TEST_F(DatasetsTest, NothingProtectedIsADataset) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = ranks.Checkpoint(1, {{}, kMemory});
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const local::Reply stored = ranks[0].Stored(id);
  ASSERT_SAYS(stored, local::OK, "");
  EXPECT_EQ(stored.stored().variables_size(), 1);  // the value of rank 1
}

TEST_F(DatasetsTest, RanksThatDisagreeFailItNamingBoth) {
  Ranks ranks(harness_, 3, "job.1");
  const local::Reply begun = ranks[0].Begin(1, {ValueOf(1, "step", 7)});
  ASSERT_SAYS(begun, local::OK, "");
  const std::uint64_t waiting = ranks[0].SendWait(begun.begin().dataset(), local::LOCAL);
  const local::Reply refused = ranks[2].Begin(1, {ValueOf(1, "time", 7)});
  EXPECT_SAYS(refused, local::FAILED, "between rank 0 and rank 2");
  EXPECT_SAYS(refused, local::FAILED, "variable 1");
  EXPECT_SAYS(ranks[0].Next(waiting), local::FAILED, "between rank 0 and rank 2");
  ranks[0].Fill({ValueOf(1, "step", 7)});
  EXPECT_SAYS(ranks[0].Commit(), local::FAILED, "between rank 0 and rank 2");
  EXPECT_SAYS(ranks[1].Begin(1, {ValueOf(1, "step", 7)}), local::FAILED, "between rank 0 and rank 2");
  // The next one works.
  EXPECT_NE(ranks.Checkpoint(2, {kMemory, kMemory, kMemory}), 0u);
}

TEST_F(DatasetsTest, MemoryAndFilesInOneDatasetFailIt) {
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].OutputBegin(1), local::OK, "");
  EXPECT_SAYS(ranks[1].Begin(1, kMemory), local::FAILED, "memory or files");
  EXPECT_SAYS(ranks[0].RouteFile("a"), local::FAILED, "memory or files");
  EXPECT_SAYS(ranks[0].OutputEnd(), local::FAILED, "memory or files");
  EXPECT_SAYS(ranks[0].OutputBegin(2), local::OK, "");  // the next one works
}

TEST_F(DatasetsTest, ALaterBeginFailsWhatTheRankHasNotBegunAtOnce) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply first = ranks[0].Checkpoint(1, kMemory);
  ASSERT_SAYS(first, local::OK, "");
  const std::uint64_t waiting = ranks[0].SendWait(first.committed().dataset(), local::CAPTURED);
  ASSERT_SAYS(ranks[0].Begin(2, kMemory), local::OK, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what that has set going does not tell the waiting one
  ASSERT_SAYS(ranks[1].Begin(2, kMemory), local::OK, "");
  EXPECT_SAYS(ranks[0].Next(waiting), local::FAILED, "rank 1");
  ranks[0].Fill(kMemory);
  EXPECT_SAYS(ranks[0].Commit(), local::OK, "");
}

TEST_F(DatasetsTest, ClosingWithoutItFailsItAtOnce) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply first = ranks[0].Checkpoint(1, kMemory);
  ASSERT_SAYS(first, local::OK, "");
  const std::uint64_t waiting = ranks[0].SendWait(first.committed().dataset(), local::LOCAL);
  ASSERT_SAYS(ranks[1].Close(), local::OK, "");
  EXPECT_SAYS(ranks[0].Next(waiting), local::FAILED, "rank 1 closed");
  EXPECT_SAYS(ranks[0].Begin(2, kMemory), local::FAILED, "rank 1 is gone");
}

TEST_F(DatasetsTest, ASessionLostInMidCopyFailsItNamingTheRank) {
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply first = ranks[0].Checkpoint(1, kMemory);
  ASSERT_SAYS(first, local::OK, "");
  const std::uint64_t waiting = ranks[0].SendWait(first.committed().dataset(), local::LOCAL);
  ASSERT_SAYS(ranks[1].Begin(1, kMemory), local::OK, "");
  ranks[1].Fill(kMemory, 0, 2);
  ranks[1].Drop();
  EXPECT_SAYS(ranks[0].Next(waiting), local::FAILED, "rank 1 was lost before its bytes were captured");
  EXPECT_SAYS(ranks[0].Test(first.committed().dataset(), local::CAPTURED), local::FAILED, "rank 1");
}

TEST_F(DatasetsTest, AClientMayDieInEveryWindowOfACheckpoint) {
  for (int pieces = 0;; ++pieces) {
    FakeClient client(harness_);
    ASSERT_SAYS(client.Open({.key = "job." + std::to_string(pieces)}), local::OK, "");
    const local::Reply latest = client.Latest();
    EXPECT_SAYS(latest, local::NOT_FOUND, "");  // nothing half-made
    const local::Reply begun = client.Begin(1, kMemory);
    ASSERT_SAYS(begun, local::OK, "");
    if (pieces > client.plan().bytes_size()) break;
    client.Fill(kMemory, 0, static_cast<std::size_t>(pieces));
    client.Drop();
    EXPECT_EQ(harness_.Wait(begun.begin().dataset(), local::CAPTURED).status().code(), local::FAILED);
  }
}

TEST_F(DatasetsTest, ASessionLostAfterItsCommitFailsNothing) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = ranks.Checkpoint(1, {kMemory, kMemory});
  ranks[1].Drop();
  EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
}

TEST_F(DatasetsTest, AnAbortFailsItAndTheNextOneWorks) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply begun = client.Begin(1, kMemory);
  ASSERT_SAYS(begun, local::OK, "");
  EXPECT_SAYS(client.Abort("the application's deadline passed"), local::OK, "");
  EXPECT_SAYS(client.Test(begun.begin().dataset(), local::LOCAL), local::FAILED, "deadline passed");
  EXPECT_SAYS(client.Abort("nothing is begun"), local::OK, "");
  EXPECT_SAYS(client.Checkpoint(2, kMemory), local::OK, "");
}

TEST_F(DatasetsTest, ACommitBeforeAllPiecesFailsIt) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  EXPECT_SAYS(client.Commit(), local::FAILED_PRECONDITION, "no checkpoint is begun");
  const local::Reply begun = client.Begin(1, kMemory);
  ASSERT_SAYS(begun, local::OK, "");
  EXPECT_SAYS(client.Begin(2, kMemory), local::FAILED_PRECONDITION, "not committed");
  client.Fill(kMemory, 0, 1);
  EXPECT_SAYS(client.Commit(), local::FAILED_PRECONDITION, "pieces are filled");
  EXPECT_SAYS(client.Test(begun.begin().dataset(), local::CAPTURED), local::FAILED, "pieces are filled");
  EXPECT_SAYS(client.Checkpoint(3, kMemory), local::OK, "");
}

TEST_F(DatasetsTest, ABeginThatMakesNoSenseIsRefused) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory twice = {PlainOf(1, "abc"), PlainOf(1, "def")};
  EXPECT_SAYS(client.Begin(1, twice), local::INVALID_ARGUMENT, "twice");
  Memory lying = {PlainOf(1, "abc")};
  lying[0].variable.set_bytes(1000);
  EXPECT_SAYS(client.Begin(1, lying), local::INVALID_ARGUMENT, "variable 1");
  Memory boxed = {PlainOf(1, "abc")};
  boxed[0].variable.add_shape(3);
  EXPECT_SAYS(client.Begin(1, boxed), local::INVALID_ARGUMENT, "variable 1");
  Memory huge = {PlainOf(1, "")};
  huge[0].variable.set_count(std::uint64_t{1} << 61);
  huge[0].variable.set_bytes(std::uint64_t{1} << 61);
  EXPECT_NE(CodeOfReply(client.Begin(1, huge)), local::OK);
  local::Request first;
  first.mutable_begin()->set_step(1);
  EXPECT_SAYS(client.Ask(first), local::INVALID_ARGUMENT, "attempts count from 1");
  EXPECT_SAYS(client.Checkpoint(2, kMemory), local::OK, "");
}

TEST_F(DatasetsTest, TheSameAttemptTwiceIsRefused) {
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_SAYS(ranks[0].Checkpoint(1, kMemory), local::OK, "");
  local::Request again;
  again.mutable_begin()->set_step(1);
  again.mutable_begin()->set_attempt(1);
  EXPECT_SAYS(ranks[0].Ask(again), local::FAILED_PRECONDITION, "has begun step 1, attempt 1 before");
}

// --- Clients that lie ---

class HostileTest : public DatasetsTest {
 protected:
  // What the client does after its begin fails its own dataset, nobody else's, and is answered.
  void ExpectSpoilsOnlyItself(FakeClient& client, const std::function<std::uint64_t()>& misbehave,
                              const std::string& part) {
    FakeClient other(harness_);
    ASSERT_SAYS(other.Open({.key = "other", .prefix = harness_.prefix() + "2"}), local::OK, "");
    const local::Reply theirs = other.Begin(1, kMemory);
    ASSERT_SAYS(theirs, local::OK, "");
    const local::Reply begun = client.Begin(1, kMemory);
    ASSERT_SAYS(begun, local::OK, "");
    const std::uint64_t call = misbehave();
    EXPECT_SAYS(client.Next(call), local::INVALID_ARGUMENT, part);
    EXPECT_SAYS(client.Test(begun.begin().dataset(), local::CAPTURED), local::FAILED, part);
    EXPECT_SAYS(client.Commit(), local::FAILED, part);
    EXPECT_SAYS(client.Checkpoint(2, kMemory), local::OK, "");
    other.Fill(kMemory);
    EXPECT_SAYS(other.Commit(), local::OK, "");
    EXPECT_SAYS(other.Wait(theirs.begin().dataset(), local::LOCAL), local::OK, "");
  }
};

TEST_F(HostileTest, MoreFilledThanThePlanHas) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ExpectSpoilsOnlyItself(
      client,
      [&] {
        local::Request request;
        request.mutable_filled()->set_pieces(UINT64_MAX);
        return client.Send(request);
      },
      "pieces filled");
}

TEST_F(HostileTest, FewerFilledThanBefore) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ExpectSpoilsOnlyItself(
      client,
      [&] {
        client.Filled(2);
        local::Request request;
        request.mutable_filled()->set_pieces(1);
        return client.Send(request);
      },
      "pieces filled");
}

TEST_F(HostileTest, APieceOutOfOrder) {
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ExpectSpoilsOnlyItself(
      client,
      [&] {
        local::Request request;
        request.mutable_piece()->set_index(1);
        return client.Send(request);
      },
      "piece 1 came instead of 0");
}

TEST_F(HostileTest, APieceOfAnotherPlaceOrSize) {
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  ExpectSpoilsOnlyItself(
      client,
      [&] {
        local::Request request;
        request.mutable_piece()->set_id(77);
        request.mutable_piece()->set_offset(std::uint64_t{1} << 60);
        request.mutable_piece()->set_data("xyz");
        return client.Send(request);
      },
      "the plan says");
}

TEST_F(HostileTest, APieceWithAWrongChecksum) {
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply begun = client.Begin(1, kMemory);
  ASSERT_SAYS(begun, local::OK, "");
  local::Request request;
  local::Piece& piece = *request.mutable_piece();
  piece.set_id(kMemory[client.plan().variable(0)].variable.id());
  piece.set_data(std::string(client.plan().bytes(0), 'x'));
  piece.set_crc32c(1);
  EXPECT_SAYS(client.Next(client.Send(request)), local::DATA_LOSS, "CRC32C");
  // More of them after the dataset has failed, with and without its directory: nothing happens.
  for (int i = 0; i < 50; ++i) client.Send(request);
  client.Filled(1);
  EXPECT_SAYS(client.Commit(), local::FAILED, "CRC32C");
  EXPECT_SAYS(client.Checkpoint(2, kMemory), local::OK, "");
}

TEST_F(HostileTest, AWrongDigestFailsTheDataset) {
  FakeClient client(harness_, {.shares_memory = false});
  ASSERT_SAYS(client.Open({}), local::OK, "");
  const local::Reply begun = client.Begin(1, kMemory);
  ASSERT_SAYS(begun, local::OK, "");
  client.Fill(kMemory);
  local::Request request;
  request.mutable_commit()->set_has_digest(true);
  request.mutable_commit()->set_digest(0x12345678);
  EXPECT_SAYS(client.Ask(request), local::DATA_LOSS, "digest");
  EXPECT_SAYS(client.Test(begun.begin().dataset(), local::CAPTURED), local::FAILED, "digest");
}

TEST_F(HostileTest, MorePiecesCopiedThanReadyFailsTheRestoreOfAll) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id = ranks.Checkpoint(1, {kMemory, kMemory});
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const std::uint64_t liar = ranks[0].SendRestore(id, kMemory);
  const std::uint64_t honest = ranks[1].SendRestore(id, kMemory);
  ASSERT_TRUE(ranks[0].Next(liar).has_restore());
  local::Request request;
  request.mutable_copied()->set_pieces(1 << 30);
  request.mutable_copied()->set_round(1);
  ranks[0].Send(request);
  Memory blank = Blank(kMemory);
  const FakeClient::Restored restored = ranks[1].TakeRestore(honest, blank);
  EXPECT_EQ(restored.code, local::INVALID_ARGUMENT) << restored.message;
  EXPECT_NE(restored.message.find("rank 0"), std::string::npos) << restored.message;
  std::vector<Memory> memory = {Blank(kMemory), Blank(kMemory)};
  for (const FakeClient::Restored& one : ranks.Restore(id, memory)) EXPECT_EQ(one.code, local::OK) << one.message;
}

TEST_F(HostileTest, AClientThatScribblesIntoItsImageSpoilsNoOther) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId first = ranks.Checkpoint(1, {kMemory, kMemory});
  for (const auto& [id, image] : ranks[0].images())
    std::fill(image->bytes().begin(), image->bytes().end(), std::byte{66});
  ASSERT_SAYS(ranks[0].Wait(first, local::LOCAL), local::OK, "");
  std::vector<Memory> memory = {Blank(kMemory), Blank(kMemory)};
  const std::vector<FakeClient::Restored> restored = ranks.Restore(first, memory);
  // Either its scribbling came in time to be hashed and written, and is its state; or it is found. Rank 1 is whole.
  EXPECT_EQ(restored[0].code, restored[1].code);
  EXPECT_TRUE(restored[1].code != local::OK || memory[1][0].bytes == kMemory[0].bytes);
}

}  // namespace
}  // namespace cairn
