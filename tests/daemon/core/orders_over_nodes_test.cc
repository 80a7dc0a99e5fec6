// What a launch's home orders of another node's daemon: once at a time, with an answer to each order, and an end to
// each wait.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "storage/io/disk.h"
#include "tests/daemon/core/hostile_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// The test is the other node.
class OrdersOfHomeTest : public HostileNodesTest {
 protected:
  // Both ranks' parts are stored, and rank 1's is noted as whole.
  DatasetId MakeLocal() {
    EXPECT_NO_FATAL_FAILURE(Introduce());
    EXPECT_NO_FATAL_FAILURE(OpenRank());
    const DatasetId id = Begin(1);
    EXPECT_EQ(CodeOfReply(client->Commit()), local::OK);
    peer::ToHome stored;
    *stored.mutable_stored()->mutable_catalogue() = Sound(id, 1);
    Say(stored);
    EXPECT_TRUE(nodes.AdvanceUntil([this] { return said.back().has_complete(); }));
    complete = said.back().complete().order();
    SayCompleted(id, complete);
    EXPECT_SAYS(client->Wait(id, local::LOCAL), local::OK, "");
    return id;
  }
  void SayCompleted(DatasetId id, std::uint64_t order) {
    peer::ToHome completed;
    completed.mutable_completed()->set_dataset(id);
    completed.mutable_completed()->set_order(order);
    Say(completed);
  }
  // The numbers of those that have come.
  std::vector<std::uint64_t> Copies() const {
    std::vector<std::uint64_t> orders;
    for (const peer::FromHome& one : said) {
      if (one.has_copy()) orders.push_back(one.copy().order());
    }
    return orders;
  }
  bool AwaitCopies(std::size_t count) {
    return nodes.AdvanceUntil([this, count] { return Copies().size() >= count; });
  }
  void SayRefused(DatasetId id, std::uint64_t order, const std::string& why) {
    peer::ToHome copied;
    copied.mutable_copied()->set_dataset(id);
    copied.mutable_copied()->set_order(order);
    copied.mutable_copied()->mutable_refused()->set_code(static_cast<std::uint32_t>(absl::StatusCode::kUnavailable));
    copied.mutable_copied()->mutable_refused()->set_text(why);
    Say(copied);
  }

  std::uint64_t complete = 0;
};

TEST_F(OrdersOfHomeTest, ACopyThatDoesNotGetOnIsGivenUpAndOrderedAgain) {
  const DatasetId id = MakeLocal();
  client->SendWait(id, local::PREFIX);
  ASSERT_TRUE(AwaitCopies(1));
  for (int i = 0; i < 6; ++i) {  // it does get on
    peer::ToHome on;
    on.mutable_copy_goes_on()->set_dataset(id);
    on.mutable_copy_goes_on()->set_order(Copies().front());
    Say(on);
    nodes.Pass(std::chrono::milliseconds(nodes[0].config.flush.stalled_ms / 2));
  }
  EXPECT_EQ(Copies().size(), 1u);
  EXPECT_THAT(nodes[0].Warnings(), Not(HasSubstr("has not got on")));
  nodes.Pass(std::chrono::milliseconds(nodes[0].config.flush.stalled_ms));
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("has not got on"));
  ASSERT_TRUE(AwaitCopies(2));
  EXPECT_NE(Copies()[0], Copies()[1]);
}

TEST_F(OrdersOfHomeTest, AnAnswerToAnOlderOrderSaysNothing) {
  const DatasetId id = MakeLocal();
  client->SendWait(id, local::PREFIX);
  ASSERT_TRUE(AwaitCopies(2));
  SayRefused(id, Copies()[0], "of the first order");
  EXPECT_THAT(nodes[0].Warnings(), Not(HasSubstr("of the first order")));
  // Nor does it keep the newer one from being given up.
  peer::ToHome on;
  on.mutable_copy_goes_on()->set_dataset(id);
  on.mutable_copy_goes_on()->set_order(Copies()[0]);
  nodes.Pass(std::chrono::milliseconds(nodes[0].config.flush.stalled_ms * 3 / 4));
  Say(on);
  EXPECT_EQ(Copies().size(), 2u);
  nodes.Pass(std::chrono::milliseconds(nodes[0].config.flush.stalled_ms / 2));
  ASSERT_TRUE(AwaitCopies(3));
  SayRefused(id, Copies()[2], "of the third order");
  EXPECT_THAT(nodes[0].Warnings(), HasSubstr("of the third order"));
}

// The test is the home.
class OrdersThereTest : public HostileHomeTest {
 protected:
  void MakeWhole() {
    ASSERT_NO_FATAL_FAILURE(OpenRank());
    ASSERT_EQ(CodeOfReply(client->Begin(1, own)), local::OK);
    ASSERT_TRUE(client->Fill(own));
    ASSERT_EQ(CodeOfReply(client->Commit()), local::OK);
    ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_stored(); }));
    peer::FromHome complete;
    complete.mutable_complete()->set_dataset(kDataset);
    complete.mutable_complete()->set_order(5);
    Say(complete);
    ASSERT_TRUE(nodes.AdvanceUntil([this] { return heard.back().has_completed(); }));
    EXPECT_EQ(heard.back().completed().order(), 5u);
    peer::FromHome whole;
    whole.mutable_whole()->set_dataset(kDataset);
    Say(whole);
  }
  void Copy(std::uint64_t order) {
    peer::FromHome copy;
    copy.mutable_copy()->set_dataset(kDataset);
    copy.mutable_copy()->set_committer(1);
    copy.mutable_copy()->set_order(order);
    Post(copy);
  }
  // At the file on the prefix, until all these orders are answered.
  int LooksOf(const std::vector<std::uint64_t>& orders) {
    int looks = 0;
    nodes.prefix.SetHook([&looks](FakeOp, const std::string& path) {
      if (path.find("Ckpt40-Rank1.fti") != std::string::npos) ++looks;
    });
    const std::size_t answered = Answered().size() + orders.size();
    for (const std::uint64_t order : orders) Copy(order);
    EXPECT_TRUE(nodes.AdvanceUntil([this, answered] { return Answered().size() == answered; }));
    nodes.prefix.SetHook(nullptr);
    return looks;
  }
  std::vector<std::uint64_t> Answered() const {
    std::vector<std::uint64_t> orders;
    for (const peer::ToHome& one : heard) {
      if (one.has_copied()) orders.push_back(one.copied().order());
    }
    return orders;
  }
};

TEST_F(OrdersThereTest, OneCopyAnswersAllOrdersThatCameMeanwhile) {
  ASSERT_NO_FATAL_FAILURE(MakeWhole());
  Copy(7);
  Copy(8);
  ASSERT_TRUE(nodes.AdvanceUntil([this] { return Answered().size() == 2; }));
  EXPECT_THAT(Answered(), ElementsAre(7, 8));
  // It is there now: each copy looks at it in the same way.
  const int looks_of_one = LooksOf({9});
  EXPECT_GT(looks_of_one, 0);
  EXPECT_EQ(LooksOf({10, 11, 12}), looks_of_one);
  EXPECT_THAT(Answered(), ElementsAre(7, 8, 9, 10, 11, 12));
  for (const peer::ToHome& one : heard) EXPECT_FALSE(one.has_copied() && one.copied().has_refused());
}

}  // namespace
}  // namespace cairn
