// Datasets that someone else has committed on the prefix: checkpoints of another system (`cairn adopt`), also while
// this daemon knows the run, and datasets without a launch or types.
#include <gtest/gtest.h>

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/path.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/ftiff/codec.h"
#include "storage/place/prefix/prefix.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class AdoptedTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  // Commits what `cairn adopt` would: no launch, ids and sizes only; one variable (7) of each rank.
  DatasetId Adopt(std::uint64_t step, const std::vector<std::string>& contents, const std::string& name = "") {
    auto prefix = Prefix::Open(harness_.prefix_disk(), harness_.prefix());
    EXPECT_OK(prefix);
    const auto ids = (*prefix)->ReserveIds(0);
    EXPECT_OK(ids);
    const DatasetId id = ids->first;
    std::vector<catalogue::Catalogue> catalogues;
    for (Rank rank = 0; rank < contents.size(); ++rank) {
      catalogue::Catalogue catalogue;
      catalogue.set_run((*prefix)->run().Hex());
      catalogue.set_dataset(id);
      catalogue.set_step(step);
      catalogue.set_rank(rank);
      catalogue.set_nranks(static_cast<std::uint32_t>(contents.size()));
      local::Variable& variable = *catalogue.add_variables();
      variable.set_id(7);
      variable.set_count(contents[rank].size());
      variable.set_bytes(contents[rank].size());
      const std::string bytes = FileOf(id, contents[rank]);
      catalogue::FileEntry& file = *catalogue.add_file();
      file.set_name(CheckpointFileName(id, rank));
      file.set_prefix_name("ckpt." + std::to_string(id) + "/" + file.name());
      file.set_bytes(bytes.size());
      file.add_crc32c(Crc32c(std::as_bytes(std::span(bytes))));
      const std::string path = (*prefix)->FilePath(file.prefix_name());
      EXPECT_OK(MakeDirectories(harness_.prefix_disk(), ParentOf(path)));
      harness_.Write(harness_.prefix_disk(), path, bytes);
      catalogues.push_back(std::move(catalogue));
    }
    scr::Descriptor descriptor;
    descriptor.id = id;
    descriptor.name = name.empty() ? "ckpt." + std::to_string(id) : name;
    descriptor.launch = 0;
    descriptor.step = step;
    descriptor.created_us = NowUs();
    descriptor.ranks = static_cast<std::uint32_t>(contents.size());
    EXPECT_OK((*prefix)->Commit(descriptor, catalogues));
    return id;
  }
  static std::int64_t NowUs() {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
  static std::string FileOf(DatasetId id, const std::string& content) {
    const ftiff::VariableSize variable{.id = 7, .bytes = content.size()};
    const auto layout = ftiff::PlanFresh({&variable, 1}, ftiff::Packing::kExact);
    EXPECT_OK(layout);
    const Md5Digest hash = Md5(std::as_bytes(std::span(content)));
    const auto metadata =
        ftiff::EncodeMetadata(*layout, {&hash, 1}, {.checkpoint_id = static_cast<std::int32_t>(id), .timestamp_ns = 1});
    return content + std::string(reinterpret_cast<const char*>(metadata.data()), metadata.size());
  }

  CoreHarness harness_;
};

TEST_F(AdoptedTest, ADatasetWithoutLaunchOrTypesIsRestoredByBytes) {
  const DatasetId id = Adopt(12, {"of rank zero", "this is rank one's"});
  Ranks ranks(harness_, 2, "job.1");
  const local::Reply latest = ranks[1].Latest();
  ASSERT_SAYS(latest, local::OK, "");
  EXPECT_EQ(latest.latest().dataset(), id);
  EXPECT_EQ(latest.latest().step(), 12u);
  std::vector<Memory> back = {{PlainOf(7, std::string(12, 0))}, {PlainOf(7, std::string(18, 0))}};
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) {
    EXPECT_EQ(one.code, local::OK) << one.message;
    EXPECT_EQ(one.tier, local::TIER_PREFIX);
  }
  EXPECT_EQ(back[0][0].bytes, "of rank zero");
  EXPECT_EQ(back[1][0].bytes, "this is rank one's");
}

TEST_F(AdoptedTest, IsFoundByTheNameThatTheOtherSystemGaveIt) {
  const DatasetId id = Adopt(12, {"twelve bytes"}, "step_000012");
  Ranks ranks(harness_, 1, "job.1");
  EXPECT_EQ(ranks[0].Find("step_000012").find().dataset(), id);
  EXPECT_EQ(ranks[0].NameOf(id), "step_000012");
  harness_.Restart();
  Ranks next(harness_, 1, "job.2");
  EXPECT_EQ(next[0].Find("step_000012").find().step(), 12u);
}

TEST_F(AdoptedTest, AnotherNumberOfBytesIsTheCallersErrorAndMovesNoPin) {
  const DatasetId id = Adopt(12, {"twelve bytes"});
  Ranks ranks(harness_, 1, "job.1");
  ASSERT_EQ(ranks[0].Latest().latest().dataset(), id);
  Memory wrong = {PlainOf(7, std::string(13, 0))};
  const FakeClient::Restored restored = ranks[0].Restore(id, wrong);
  EXPECT_EQ(restored.code, local::FAILED_PRECONDITION);
  EXPECT_NE(restored.message.find("variable 7"), std::string::npos) << restored.message;
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), id);
}

TEST_F(AdoptedTest, WhatWasCommittedBetweenTwoLaunchesIsFoundByTheSecond) {
  const Memory memory = {PlainOf(1, RandomBytes(1, 1000))};
  DatasetId own = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    EXPECT_EQ(CodeOfReply(ranks[0].Latest()), local::NOT_FOUND);
    own = ranks.Checkpoint(1, {memory});
    ASSERT_SAYS(ranks[0].Wait(own, local::LOCAL), local::OK, "");
  }
  const DatasetId adopted = Adopt(99, {"from elsewhere"});
  ASSERT_GT(adopted, own);
  Ranks ranks(harness_, 1, "job.2");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), adopted);
  Memory back = {PlainOf(7, std::string(14, 0))};
  EXPECT_EQ(ranks[0].Restore(adopted, back).code, local::OK);
  EXPECT_EQ(back[0].bytes, "from elsewhere");
}

TEST_F(AdoptedTest, WhatIsWrittenAfterItHasAHigherNumber) {
  const Memory memory = {PlainOf(7, RandomBytes(1, 1000))};
  {
    Ranks ranks(harness_, 1, "job.1");
    ASSERT_NE(ranks.Checkpoint(1, {memory}), 0u);
  }
  const DatasetId adopted = Adopt(99, {"from elsewhere"});
  DatasetId later = 0;
  {
    Ranks ranks(harness_, 1, "job.2");
    ASSERT_EQ(ranks[0].Latest().latest().dataset(), adopted);
    later = ranks.Checkpoint(2, {memory});
    ASSERT_SAYS(ranks[0].Wait(later, local::LOCAL), local::OK, "");
  }
  EXPECT_GT(later, adopted);
  Ranks ranks(harness_, 1, "job.3");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), later);
}

TEST_F(AdoptedTest, ALaunchThatRunsIsLeftAlone) {
  Ranks ranks(harness_, 2, "job.1");
  ASSERT_EQ(CodeOfReply(ranks[0].Latest()), local::NOT_FOUND);
  Adopt(99, {"zero", "one"});
  EXPECT_EQ(CodeOfReply(ranks[1].Latest()), local::NOT_FOUND);  // all ranks have the same answer
  const std::vector<Memory> memory = {{PlainOf(7, RandomBytes(1, 10))}, {PlainOf(7, RandomBytes(2, 10))}};
  const DatasetId own = ranks.Checkpoint(1, memory);
  EXPECT_SAYS(ranks[0].Wait(own, local::LOCAL), local::OK, "");
}

// The launch that runs meanwhile has lower ids, and newer checkpoints.
TEST_F(AdoptedTest, WhatWasAdoptedWhileALaunchRanDoesNotWinOverItsNewerOnes) {
  const Memory memory = {PlainOf(7, RandomBytes(1, 1000))};
  DatasetId newest = 0, adopted = 0;
  {
    Ranks ranks(harness_, 1, "job.1");
    ASSERT_NE(ranks.Checkpoint(1, {memory}), 0u);
    adopted = Adopt(99, {"from elsewhere"});
    newest = ranks.Checkpoint(2, {memory});
    ASSERT_SAYS(ranks[0].Wait(newest, local::LOCAL), local::OK, "");
  }
  ASSERT_LT(newest, adopted);
  for (const bool restarted : {false, true}) {
    if (restarted) harness_.Restart();
    Ranks ranks(harness_, 1, restarted ? "job.3" : "job.2");
    EXPECT_EQ(ranks[0].Latest().latest().dataset(), newest);
    Memory back = {PlainOf(7, std::string(14, 0))};
    EXPECT_EQ(ranks[0].Restore(adopted, back).code, local::OK);  // by its number
    EXPECT_EQ(back[0].bytes, "from elsewhere");
  }
}

TEST_F(AdoptedTest, WhatThisDaemonRemovedDoesNotComeBack) {
  const DatasetId first = Adopt(1, {"one"});
  const DatasetId second = Adopt(2, {"two"});
  { Ranks ranks(harness_, 1, "job.1"); }
  ASSERT_EQ(harness_.Row(second).dataset(), second);
  ASSERT_EQ(harness_.Remove(second).code(), local::OK);
  {
    Ranks ranks(harness_, 1, "job.2");
    EXPECT_EQ(ranks[0].Latest().latest().dataset(), first);
  }
  EXPECT_EQ(harness_.Row(second).dataset(), 0u);
}

TEST_F(AdoptedTest, ACopyThatWasFoundDamagedStaysSoAtTheNextLaunch) {
  const DatasetId first = Adopt(1, {"one"});
  const DatasetId second = Adopt(2, {"two"});
  harness_.Flip(harness_.prefix_disk(), harness_.PrefixFile(second, 0), 1);
  {
    Ranks ranks(harness_, 1, "job.1");
    ASSERT_EQ(ranks[0].Latest().latest().dataset(), second);
    Memory back = {PlainOf(7, std::string(3, 0))};
    EXPECT_EQ(ranks[0].Restore(second, back).code, local::RETRY);
  }
  Ranks ranks(harness_, 1, "job.2");
  EXPECT_EQ(ranks[0].Latest().latest().dataset(), first);
  Memory back = {PlainOf(7, std::string(3, 0))};
  EXPECT_EQ(ranks[0].Restore(first, back).code, local::OK);
  EXPECT_EQ(back[0].bytes, "one");
}

TEST_F(AdoptedTest, StoredTellsIdAndBytesWithoutAType) {
  const DatasetId id = Adopt(12, {"twelve bytes"});
  Ranks ranks(harness_, 1, "job.1");
  const local::Reply reply = ranks[0].Stored(id);
  ASSERT_SAYS(reply, local::OK, "");
  ASSERT_EQ(reply.stored().variables_size(), 1);
  EXPECT_EQ(reply.stored().variables(0).id(), 7);
  EXPECT_EQ(reply.stored().variables(0).type(), 0u);
  EXPECT_EQ(reply.stored().variables(0).kind(), local::PLAIN);
  EXPECT_EQ(reply.stored().variables(0).count(), 12u);
}

TEST_F(AdoptedTest, AnUnknownTypeCannotBeProtected) {
  FakeClient client(harness_);
  ASSERT_SAYS(client.Open({}), local::OK, "");
  Memory memory = {PlainOf(7, RandomBytes(1, 10))};
  memory[0].variable.set_type(0);
  EXPECT_SAYS(client.Begin(1, memory), local::INVALID_ARGUMENT, "variable 7");
}

}  // namespace
}  // namespace cairn
