// Names that applications give to their datasets: in SCR's records, and to be found by.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "storage/place/prefix/index_tools.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/scr_writer.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

class NamesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    harness_.config.flush.every = 1;
    harness_.config.flush.superseded = true;
    ASSERT_TRUE(harness_.Start().ok());
  }
  void Launch(std::uint32_t nranks) {
    ranks_ = nullptr;
    ranks_ = std::make_unique<Ranks>(harness_, nranks, "job." + std::to_string(++launches_));
  }
  FakeClient& rank(Rank rank) { return (*ranks_)[rank]; }
  // Of one rank. At `level`.
  DatasetId Make(std::uint64_t step, const std::string& name, local::Level level = local::PREFIX) {
    rank(0).NameNext(name);
    const local::Reply done = rank(0).Checkpoint(step, {PlainOf(1, "bytes of " + std::to_string(step))});
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(rank(0).Wait(done.committed().dataset(), level), local::OK, "");
    return done.committed().dataset();
  }
  DatasetId Found(const std::string& name) {
    const local::Reply reply = rank(0).Find(name);
    return CodeOfReply(reply) == local::OK ? reply.find().dataset() : 0;
  }
  std::vector<IndexRow> Rows() {
    const auto rows = ListIndex(prefix_disk_, harness_.prefix());
    EXPECT_OK(rows.status());
    return rows.ok() ? *rows : std::vector<IndexRow>();
  }

  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
  std::unique_ptr<Ranks> ranks_;
  int launches_ = 0;
};

TEST_F(NamesTest, ADatasetIsFoundByItsNameInTheCacheAndOnThePrefix) {
  Launch(1);
  const DatasetId plain = Make(10, ""), best = Make(20, "best so far");
  const local::Reply found = rank(0).Find("best so far");
  ASSERT_SAYS(found, local::OK, "");
  EXPECT_EQ(found.find().dataset(), best);
  EXPECT_EQ(found.find().step(), 20u);
  EXPECT_EQ(found.find().name(), "best so far");
  EXPECT_EQ(rank(0).NameOf(best), "best so far");
  EXPECT_EQ(rank(0).NameOf(plain), "ckpt." + std::to_string(plain));
  EXPECT_EQ(Found("ckpt." + std::to_string(plain)), plain);
  EXPECT_SAYS(rank(0).Find("ckpt." + std::to_string(best)), local::NOT_FOUND, "");
  EXPECT_EQ(Rows().at(0).entry.descriptor.name, "best so far");
  EXPECT_TRUE(Rows().at(0).current);
  EXPECT_EQ(Rows().at(1).entry.descriptor.name, "ckpt." + std::to_string(plain));

  harness_.Restart();  // from the cache's records
  Launch(1);
  EXPECT_EQ(Found("best so far"), best);
  ranks_ = nullptr;
  harness_.Stop();
  std::filesystem::remove_all(harness_.root() + "/cache");  // from the prefix'
  ASSERT_OK(harness_.Start());
  Launch(1);
  EXPECT_EQ(Found("best so far"), best);
  EXPECT_EQ(rank(0).NameOf(best), "best so far");
}

TEST_F(NamesTest, WhatIsNotThereIsNotFound) {
  Launch(1);
  EXPECT_SAYS(rank(0).Find("nothing"), local::NOT_FOUND, "no whole dataset of the name 'nothing'");
  EXPECT_NE(rank(0).NameOf(77).find("has no dataset 77"), std::string::npos) << rank(0).NameOf(77);
  EXPECT_SAYS(rank(0).Find(""), local::INVALID_ARGUMENT, "by its name or by its number");
}

TEST_F(NamesTest, WhatCannotBeANameIsRefusedWithTheReasonAndTheNextOneWorks) {
  Launch(1);
  rank(0).NameNext("a/b");
  EXPECT_SAYS(rank(0).Begin(1, {PlainOf(1, "bytes")}), local::INVALID_ARGUMENT, "'a/b': must be a name of a file");
  rank(0).NameNext("17");
  EXPECT_SAYS(rank(0).OutputBegin(1), local::INVALID_ARGUMENT, "'17': is a number");
  EXPECT_EQ(Found("fine"), 0u);
  const DatasetId id = Make(1, "fine");
  EXPECT_EQ(Found("fine"), id);
}

TEST_F(NamesTest, ADatasetWhoseRanksNameItDifferentlyFails) {
  Launch(2);
  const Memory memory = {PlainOf(1, "bytes")};
  for (const std::string other : {"b", ""}) {
    SCOPED_TRACE(other);
    rank(0).NameNext("a");
    ASSERT_SAYS(rank(0).Begin(5, memory), local::OK, "");
    rank(1).NameNext(other);
    EXPECT_SAYS(rank(1).Begin(5, memory), local::FAILED,
                other.empty() ? "rank 1 began it as one without a name, others as 'a'" : "as 'b', others as 'a'");
    EXPECT_SAYS(rank(0).Commit(), local::FAILED, "others as 'a'");
  }
  for (const Rank r : {0, 1}) rank(r).NameNext("same");
  const DatasetId id = ranks_->Checkpoint(6, {memory, memory});
  ASSERT_NE(id, 0u);
  ASSERT_SAYS(rank(0).Wait(id, local::LOCAL), local::OK, "");
  EXPECT_EQ(Found("same"), id);
}

TEST_F(NamesTest, OutputsOfFilesHaveNamesToo) {
  Launch(1);
  rank(0).NameNext("picture");
  const DatasetId id = rank(0).OutputBegin(1, /*checkpoint=*/false, /*output=*/true).output_begin().dataset();
  EXPECT_EQ(rank(0).NameOf(id), "picture");
  EXPECT_EQ(Found("picture"), 0u) << "it is not whole";
  const local::Reply routed = rank(0).RouteFile("out/x");
  harness_.Write(harness_.cache_disk(), routed.route_file().path(), "pixels");
  ASSERT_SAYS(rank(0).OutputEnd(), local::OK, "");
  ASSERT_SAYS(rank(0).Wait(id, local::PREFIX), local::OK, "");
  EXPECT_EQ(Found("picture"), id);
  EXPECT_EQ(Rows().at(0).entry.descriptor.name, "picture");
}

TEST_F(NamesTest, OfTwoOfOneNameItMeansTheNewerAndTheOlderWhenThatHasGone) {
  Launch(1);
  const DatasetId first = Make(1, "same"), second = Make(2, "same");
  EXPECT_EQ(Found("same"), second);
  ASSERT_EQ(harness_.Remove(first).code(), local::OK);
  EXPECT_EQ(Found("same"), second);
  EXPECT_TRUE(Rows().at(0).current);
  const DatasetId third = Make(3, "same");
  ASSERT_SAYS(rank(0).Reject(third), local::OK, "");
  EXPECT_EQ(Found("same"), second);
}

TEST_F(NamesTest, WhatScrHasNamedIsFound) {
  PutScr(prefix_disk_, harness_.prefix(), 3, {{"step_3/rank_0.ckpt"}});
  Launch(1);
  EXPECT_EQ(Found("step_3"), 3u);
  EXPECT_EQ(rank(0).NameOf(3), "step_3");
}

TEST_F(NamesTest, AnObserverFindsByNameToo) {
  Launch(1);
  const DatasetId id = Make(1, "best");
  FakeClient observer(harness_);
  ASSERT_SAYS(observer.Open({.observer = true}), local::OK, "");
  EXPECT_EQ(observer.Find("best").find().dataset(), id);
  EXPECT_EQ(observer.NameOf(id), "best");
}

}  // namespace
}  // namespace cairn
