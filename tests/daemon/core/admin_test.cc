// What the commands ask of the core.
#include <gtest/gtest.h>

#include <future>

#include "tests/daemon/core/fake_client.h"

namespace cairn {
namespace {

class AdminTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(harness_.Start().ok()); }

  absl::StatusOr<admin::ShowReply> Show(const std::string& run, DatasetId id) {
    admin::DatasetRequest request;
    request.set_run(run);
    request.set_dataset(id);
    auto promise = std::make_shared<std::promise<absl::StatusOr<admin::ShowReply>>>();
    auto answer = promise->get_future();
    harness_.core().Show(request, [promise](auto reply) { promise->set_value(std::move(reply)); });
    if (answer.wait_for(std::chrono::seconds(60)) != std::future_status::ready) return absl::InternalError("no answer");
    return answer.get();
  }

  CoreHarness harness_;
};

TEST_F(AdminTest, StatusTellsOfRunsCacheAndImages) {
  Ranks ranks(harness_, 2, "job.1");
  const Memory memory = {PlainOf(1, RandomBytes(1, 100'000))};
  const DatasetId id = ranks.Checkpoint(17, {memory, memory});
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const admin::StatusReply status = harness_.Status();
  EXPECT_FALSE(status.version().empty());
  EXPECT_NE(status.pid(), 0u);
  EXPECT_NE(status.incarnation(), 0u);
  EXPECT_FALSE(status.quiescing());
  EXPECT_EQ(status.cache(), harness_.config.cache.path);
  EXPECT_GE(status.cache_bytes_used(), 200'000u);
  EXPECT_EQ(status.cache_bytes_max(), harness_.config.cache.bytes_max);
  EXPECT_GT(status.image_bytes_used(), 0u);
  EXPECT_LE(status.image_bytes_used(), status.image_bytes_max());
  EXPECT_GE(status.mechanisms().images(), 2u);
  EXPECT_LE(status.mechanisms().images_pinned(), status.mechanisms().images());
  ASSERT_EQ(status.runs_size(), 1);
  EXPECT_EQ(status.runs(0).run(), ranks[0].run());
  EXPECT_EQ(status.runs(0).prefix(), harness_.prefix());
  EXPECT_EQ(status.runs(0).launch(), 1u);
  EXPECT_EQ(status.runs(0).nranks(), 2u);
  EXPECT_EQ(status.runs(0).sessions(), 2u);
  EXPECT_EQ(status.runs(0).newest_step(), 17u);
}

// An epilog asks by it, perhaps of a daemon that it has started itself.
TEST_F(AdminTest, StatusTellsTheJobOfTheNewestLaunchAlsoAfterARestart) {
  for (const std::string job : {"17", "18"}) {
    Ranks ranks(harness_, 1, "slurm:" + job + ".0.0");
    const DatasetId id = ranks.Checkpoint(1, {{PlainOf(1, "abc")}});
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
    EXPECT_EQ(harness_.Status().runs(0).job(), job);
    ASSERT_SAYS(ranks[0].Close(), local::OK, "");
  }
  harness_.Restart();
  ASSERT_EQ(harness_.Status().runs_size(), 1);
  EXPECT_EQ(harness_.Status().runs(0).job(), "18");
  EXPECT_EQ(harness_.Status().runs(0).launch(), 0u) << "no daemon since then has seen it";
}

TEST_F(AdminTest, ListTellsHowFarEachDatasetIs) {
  Ranks ranks(harness_, 2, "job.1");
  const Memory memory = {PlainOf(1, "abc")};
  const DatasetId whole = ranks.Checkpoint(1, {memory, memory});
  ASSERT_SAYS(ranks[0].Wait(whole, local::PREFIX), local::OK, "");
  const DatasetId failed = ranks[0].Begin(2, memory).begin().dataset();
  ASSERT_SAYS(ranks[0].Abort("no reason"), local::OK, "");
  const DatasetId half = ranks[0].Checkpoint(3, memory).committed().dataset();
  EXPECT_EQ(harness_.Row(whole).state(), "whole");
  EXPECT_EQ(harness_.Row(whole).level(), local::PREFIX);
  EXPECT_EQ(harness_.Row(whole).step(), 1u);
  EXPECT_EQ(harness_.Row(whole).nranks(), 2u);
  EXPECT_TRUE(harness_.Row(whole).checkpoint());
  EXPECT_GT(harness_.Row(whole).bytes(), 0u);
  EXPECT_GT(harness_.Row(whole).created_us(), 0);
  EXPECT_EQ(harness_.Row(failed).state(), "failed");
  EXPECT_NE(harness_.Row(failed).error().find("no reason"), std::string::npos);
  EXPECT_EQ(harness_.Row(half).state(), "writing");
  EXPECT_EQ(harness_.Row(half).level(), local::NONE);
}

TEST_F(AdminTest, ShowTellsWhatEachRankStored) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId id =
      ranks.Checkpoint(1, {{PlainOf(1, "abc"), ValueOf(2, "step", 1)}, {PlainOf(1, "defg"), ValueOf(2, "step", 1)}});
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const auto shown = Show(harness_.prefix(), id);
  ASSERT_TRUE(shown.ok()) << shown.status();
  ASSERT_EQ(shown->ranks_size(), 2);
  EXPECT_EQ(shown->dataset().dataset(), id);
  EXPECT_EQ(shown->ranks(1).rank(), 1u);
  EXPECT_EQ(shown->ranks(1).level(), local::LOCAL);
  ASSERT_EQ(shown->ranks(1).variables_size(), 2);
  EXPECT_EQ(shown->ranks(1).variables(0).bytes(), 4u);
  ASSERT_EQ(shown->ranks(1).files_size(), 1);
  EXPECT_EQ(shown->ranks(1).files(0), "ckpt." + std::to_string(id) + "/Ckpt" + std::to_string(id) + "-Rank1.fti");
  EXPECT_FALSE(Show(harness_.prefix(), id + 1).ok());
}

TEST_F(AdminTest, ARunIsFoundByPrefixNameOrIdentity) {
  Ranks ranks(harness_, 1, "job.1");
  FakeClient other(harness_);
  ASSERT_SAYS(other.Open({.prefix = harness_.prefix() + "/below/prefix"}), local::OK, "");
  const DatasetId id = ranks.Checkpoint(1, {{PlainOf(1, "abc")}});
  ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  const std::string run = ranks[0].run();
  for (const std::string& name : {harness_.prefix(), run, run.substr(0, 12), "prefix-" + run.substr(0, 8)}) {
    EXPECT_TRUE(Show(name, id).ok()) << name;
  }
  const auto ambiguous = Show("prefix", id);
  EXPECT_EQ(ambiguous.status().code(), absl::StatusCode::kInvalidArgument) << ambiguous.status();
  EXPECT_EQ(Show("elsewhere", id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Show("", id).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(AdminTest, APinNeedsAWholeDataset) {
  Ranks ranks(harness_, 2, "job.1");
  const DatasetId half = ranks[0].Checkpoint(1, {PlainOf(1, "abc")}).committed().dataset();
  EXPECT_EQ(harness_.Pin(half, true).code(), local::NOT_FOUND);
  EXPECT_EQ(harness_.Pin(half + 100, true).code(), local::NOT_FOUND);
  EXPECT_EQ(harness_.Remove(half).code(), local::NOT_FOUND);
}

TEST_F(AdminTest, WhatLiesAsideIsRemovedWhenAskedAndWhatIsWholeOnlyIfThatIsSaid) {
  {
    Ranks ranks(harness_, 1, "job.1");
    const DatasetId id = ranks.Checkpoint(1, {{PlainOf(1, "bytes")}});
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  const std::string damaged = harness_.CacheFolderPath() + "/damaged.7.1";
  const std::string taken = harness_.CacheFolderPath() + "/taken.8.1";
  harness_.Stop();
  for (const std::string& path : {damaged, taken}) {
    ASSERT_TRUE(harness_.cache_disk().MakeDirectory(path, 0700).ok());
    harness_.Write(harness_.cache_disk(), path + "/file", path == taken ? "four" : "six by");
  }
  ASSERT_TRUE(harness_.Start().ok());

  const admin::RemoveReply first = harness_.RemoveSetAside(admin::RemoveRequest::DAMAGED);
  EXPECT_EQ(first.status().code(), local::OK) << first.status().message();
  EXPECT_EQ(first.set_aside(), 1u);
  EXPECT_EQ(first.set_aside_bytes(), 6u);
  EXPECT_FALSE(harness_.IsThere(harness_.cache_disk(), damaged));
  EXPECT_TRUE(harness_.IsThere(harness_.cache_disk(), taken));
  const admin::RemoveReply all = harness_.RemoveSetAside(admin::RemoveRequest::ALL);
  EXPECT_EQ(all.set_aside(), 1u);
  EXPECT_EQ(all.set_aside_bytes(), 4u);
  EXPECT_FALSE(harness_.IsThere(harness_.cache_disk(), taken));
  EXPECT_FALSE(harness_.Status().runs(0).has_aside());
  EXPECT_EQ(harness_.List().size(), 1u) << "nothing else goes";
  EXPECT_EQ(harness_.RemoveSetAside(admin::RemoveRequest::ALL, 1).status().code(), local::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace cairn
