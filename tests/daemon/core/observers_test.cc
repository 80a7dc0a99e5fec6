// Sessions that only read: no launch counts them, and they see what is there.
#include <filesystem>

#include "tests/daemon/core/elastic_fixture.h"

namespace cairn {
namespace {

class ObserversTest : public ElasticFixture {
 protected:
  local::Reply Observe(FakeClient& client, const std::string& prefix = "") {
    return client.Open({.prefix = prefix, .observer = true});
  }
  static local::Request Asking(void (*set)(local::Request&)) {
    local::Request request;
    set(request);
    return request;
  }
};

TEST_F(ObserversTest, JoinNoLaunchAreNeverBusyAndShutNobodyOut) {
  Ranks ranks(harness_, 2, "job.1");
  const std::vector<Memory> memory = MemoryOf(Strips(2, false));
  FakeClient observer(harness_);
  const local::Reply opened = Observe(observer);
  ASSERT_SAYS(opened, local::OK, "");
  EXPECT_EQ(opened.open().launch(), 0u);
  EXPECT_SAYS(observer.Latest(), local::NOT_FOUND, "no checkpoint");
  const DatasetId id = ranks.Checkpoint(1, memory);
  ASSERT_SAYS(observer.Wait(id, local::LOCAL), local::OK, "");
  EXPECT_EQ(observer.Latest().latest().dataset(), id);
  EXPECT_TRUE(observer.Test(id, local::LOCAL).test().reached());
  EXPECT_FALSE(observer.Test(id, local::PREFIX).test().reached());
  const local::Reply stored = observer.Stored(id);
  ASSERT_SAYS(stored, local::OK, "");
  EXPECT_EQ(stored.stored().variables_size(), 2);
  Protected out = Blank({ArrayAt({3, 4, 500, 6})}).front();
  ASSERT_EQ(observer.Read(id, out).code, local::OK);
  EXPECT_TRUE(out.bytes == BytesOf({3, 4, 500, 6}));
  EXPECT_EQ(harness_.Status().runs(0).sessions(), 2u);
  // The launch goes on, and ends; the observer does not keep it alive.
  ranks.Checkpoint(2, memory);
  for (Rank rank : {0, 1}) ASSERT_SAYS(ranks[rank].Close(), local::OK, "");
  FakeClient next(harness_);
  EXPECT_SAYS(next.Open({.key = "job.2"}), local::OK, "");
  EXPECT_SAYS(observer.Latest(), local::OK, "");
  EXPECT_SAYS(observer.Close(), local::OK, "");
}

TEST_F(ObserversTest, MovesNoPinAndAsksForNoFlush) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  FakeClient observer(harness_);
  ASSERT_SAYS(Observe(observer), local::OK, "");
  EXPECT_EQ(observer.Latest().latest().dataset(), id);
  const std::uint64_t wait = observer.SendWait(id, local::PREFIX, 50);
  EXPECT_EQ(CodeOfReply(observer.Next(wait)), local::DEADLINE_EXCEEDED);
  EXPECT_FALSE(harness_.Row(id).in_prefix());
}

TEST_F(ObserversTest, AllElseIsRefused) {
  const DatasetId id = Store(MemoryOf(Strips(2, false)), local::LOCAL);
  FakeClient observer(harness_);
  ASSERT_SAYS(Observe(observer), local::OK, "");
  const auto refused = local::FAILED_PRECONDITION;
  Memory memory = MemoryOf(Strips(1, false)).front();
  EXPECT_SAYS(observer.Begin(1, memory), refused, "observer");
  EXPECT_EQ(observer.Restore(id, memory).code, refused);
  EXPECT_SAYS(observer.OutputBegin(1), refused, "observer");
  EXPECT_SAYS(observer.RouteFile("a"), refused, "observer");
  EXPECT_SAYS(observer.OutputEnd(), refused, "observer");
  EXPECT_SAYS(observer.RestartFile(id, "a"), refused, "observer");
  EXPECT_SAYS(observer.Commit(), refused, "observer");
  EXPECT_SAYS(observer.Abort("why"), refused, "observer");
  for (const auto set : {+[](local::Request& r) { r.mutable_should_exit()->set_number(1); },
                         +[](local::Request& r) { r.mutable_need_checkpoint()->set_number(1); },
                         +[](local::Request& r) { r.mutable_resume(); }}) {
    EXPECT_SAYS(observer.Ask(Asking(set)), refused, "observer");
  }
  // Messages that are not answered do no harm.
  for (const auto set : {+[](local::Request& r) { r.mutable_filled()->set_pieces(3); },
                         +[](local::Request& r) { r.mutable_piece()->set_index(3); },
                         +[](local::Request& r) { r.mutable_copied()->set_pieces(3); }}) {
    observer.Send(Asking(set));
  }
  EXPECT_SAYS(observer.Latest(), local::OK, "");
}

TEST_F(ObserversTest, ARunThatThisDaemonHasNotSeenIsReadFromItsPrefix) {
  const DatasetId id = Store(MemoryOf(Strips(2, true)), local::PREFIX);
  LoseCache();
  FakeClient observer(harness_);
  ASSERT_SAYS(Observe(observer), local::OK, "");
  EXPECT_EQ(observer.Latest().latest().dataset(), id);
  Protected out = Blank({ArrayAt({0, 0, 100, kColumns})}).front();
  const FakeClient::Restored read = observer.Read(id, out);
  ASSERT_EQ(read.code, local::OK) << read.message;
  EXPECT_EQ(read.tier, local::TIER_PREFIX);
  EXPECT_TRUE(out.bytes == BytesOf({0, 0, 100, kColumns}));
  // A launch begins as ever, while it looks on.
  const DatasetId next = Store(MemoryOf(Strips(3, true)), local::LOCAL, "job.2", 2);
  EXPECT_GT(next, id);
  EXPECT_EQ(observer.Latest().latest().dataset(), next);
}

TEST_F(ObserversTest, WhatOthersHaveCommittedMeanwhileIsSeenByTheNextOne) {
  CoreHarness other;  // another node
  other.config.cache.path = other.root() + "/cache";
  ASSERT_TRUE(other.Start().ok());
  const DatasetId first = Store(MemoryOf(Strips(2, true)), local::PREFIX);
  FakeClient early(other);
  ASSERT_SAYS(early.Open({.prefix = harness_.prefix(), .observer = true}), local::OK, "");
  EXPECT_EQ(early.Latest().latest().dataset(), first);
  const DatasetId second = Store(MemoryOf(Strips(2, true)), local::PREFIX, "job.2", 2);
  FakeClient late(other);
  ASSERT_SAYS(late.Open({.prefix = harness_.prefix(), .observer = true}), local::OK, "");
  EXPECT_EQ(late.Latest().latest().dataset(), second);
}

TEST_F(ObserversTest, WhatIsNoRunIsNotFoundAndNothingIsMade) {
  FakeClient observer(harness_);
  EXPECT_SAYS(Observe(observer, harness_.root() + "/nowhere"), local::NOT_FOUND, "nowhere");
  EXPECT_FALSE(std::filesystem::exists(harness_.root() + "/nowhere"));
  std::filesystem::create_directory(harness_.root() + "/empty");
  EXPECT_SAYS(Observe(observer, harness_.root() + "/empty"), local::NOT_FOUND, "no run");
  EXPECT_TRUE(std::filesystem::is_empty(harness_.root() + "/empty"));
  local::Request keyed;
  keyed.mutable_open()->set_prefix(harness_.prefix());
  keyed.mutable_open()->set_observer(true);
  keyed.mutable_open()->set_launch_key("job.1");
  EXPECT_SAYS(observer.Ask(std::move(keyed)), local::INVALID_ARGUMENT, "no launch");
}

TEST_F(ObserversTest, AnObserverThatIsLostIsForgotten) {
  Store(MemoryOf(Strips(2, true)), local::LOCAL);
  for (int i = 0; i < 3; ++i) {
    FakeClient observer(harness_);
    ASSERT_SAYS(Observe(observer), local::OK, "");
    observer.Drop();
  }
  Ranks ranks(harness_, 2, "job.2");
  EXPECT_EQ(harness_.Status().runs(0).sessions(), 2u);
}

}  // namespace
}  // namespace cairn
