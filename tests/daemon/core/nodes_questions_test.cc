// What the daemons that serve a run ask each other: daemon/core/nodes.h.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/nodes.h"
#include "tests/daemon/core/nodes_fixture.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

class NodesQuestionsTest : public NodesTest {
 protected:
  std::shared_ptr<std::optional<Nodes::Holdings>> AskHoldings() {
    auto result = std::make_shared<std::optional<Nodes::Holdings>>();
    nodes_->AskHoldings([result](Nodes::Holdings holdings) { *result = std::move(holdings); });
    EXPECT_FALSE(result->has_value()) << "inside the call";
    return result;
  }
  std::shared_ptr<std::optional<std::vector<Nodes::Said>>> AskOthers() {
    auto result = std::make_shared<std::optional<std::vector<Nodes::Said>>>();
    peer::Question question;
    question.mutable_show()->set_dataset(42);
    nodes_->AskOthers(question, [result](std::vector<Nodes::Said> said) { *result = std::move(said); });
    EXPECT_FALSE(result->has_value()) << "inside the call";
    return result;
  }
  static Dataset WholeInCache(DatasetId id) {
    Dataset dataset;
    dataset.id = id;
    dataset.nranks = 1;
    dataset.cache = Place::kWhole;
    dataset.parts.resize(1);
    dataset.parts[0].state = Part::State::kStored;
    return dataset;
  }
};

TEST_F(NodesQuestionsTest, WhoIsAloneGetsAnEmptyAnswerSoon) {
  for (int member = 0; member < 2; ++member) {
    const auto holdings = AskHoldings();
    const auto said = AskOthers();
    by_hand_.RunAll();
    ASSERT_TRUE(holdings->has_value() && said->has_value());
    EXPECT_TRUE((*holdings)->empty() && (*said)->empty());
    nodes_->Update();
    Pass(std::chrono::seconds(1));
    EXPECT_TRUE(Coordinates());
  }
}

TEST_F(NodesQuestionsTest, TheOthersTellWhatTheyHoldAndWhatElseTheyAreAsked) {
  StartBoth();
  other_->ledger.Adopt(WholeInCache(5));
  const auto holdings = AskHoldings();
  const auto said = AskOthers();
  Pass(std::chrono::milliseconds(500));
  ASSERT_TRUE(holdings->has_value() && said->has_value());
  ASSERT_EQ((*holdings)->size(), 1u);
  EXPECT_EQ((**holdings)[0].member.node, kOtherNode);
  EXPECT_FALSE((**holdings)[0].missing);
  ASSERT_OK((**holdings)[0].holdings);
  ASSERT_EQ((**holdings)[0].holdings->datasets_size(), 1);
  EXPECT_EQ((**holdings)[0].holdings->datasets(0).dataset(), 5u);
  ASSERT_EQ((*said)->size(), 1u);
  EXPECT_EQ((**said)[0].node.member.host, "other");
  ASSERT_OK((**said)[0].answer);
  EXPECT_EQ((**said)[0].answer->show().dataset().dataset(), 42u);
  EXPECT_TRUE(nodes_->Own().here());
  EXPECT_EQ(nodes_->Own().node(), kNode);
}

TEST_F(NodesQuestionsTest, HoldingsThatAreNonsenseAreNotBelieved) {
  StartBoth();
  Dataset dataset = WholeInCache(5);
  dataset.name = std::string(5000, 'x');
  other_->ledger.Adopt(dataset);
  const auto holdings = AskHoldings();
  Pass(std::chrono::milliseconds(500));
  ASSERT_TRUE(holdings->has_value());
  EXPECT_STATUS(StatusCode::kInvalidArgument, (**holdings)[0].holdings, "holdings.datasets[0].name");
}

TEST_F(NodesQuestionsTest, ASilentNodeIsWaitedForSoLongAlsoForItsHoldingsIfItIsMissing) {
  StartBoth();
  network_.Block("10.0.0.1:17600", kOtherAddress);
  const auto holdings = AskHoldings();
  const auto said = AskOthers();
  Pass(std::chrono::milliseconds(1'800));
  EXPECT_FALSE(holdings->has_value() || said->has_value());
  Pass(std::chrono::milliseconds(400));
  ASSERT_TRUE(holdings->has_value() && said->has_value());
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**holdings)[0].holdings, "");
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**said)[0].answer, "");
  EXPECT_FALSE((**said)[0].node.missing);
  Pass(std::chrono::seconds(15));
  const auto later = AskHoldings();
  const auto missing = AskOthers();
  Pass(std::chrono::milliseconds(100));
  EXPECT_FALSE(later->has_value());
  ASSERT_TRUE(missing->has_value()) << "people are told soon that it is missing";
  ASSERT_EQ((*missing)->size(), 1u);
  EXPECT_TRUE((**missing)[0].node.missing);
  EXPECT_STATUS(StatusCode::kUnavailable, (**missing)[0].answer, "missing");
  Pass(std::chrono::seconds(2));
  ASSERT_TRUE(later->has_value());
  ASSERT_EQ((*later)->size(), 1u);
  EXPECT_TRUE((**later)[0].missing);
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**later)[0].holdings, "");
  EXPECT_FALSE(nodes_->Find(kOtherNode));
  EXPECT_TRUE(nodes_->FindNamed(kOtherNode)) << "whoever names it may have heard it";
}

// Every opening asks: it is not to wait so long each time.
TEST_F(NodesQuestionsTest, AMissingNodeThatWasSilentIsOnlyWaitedForAMoment) {
  StartBoth();
  network_.Block("10.0.0.1:17600", kOtherAddress);
  Pass(std::chrono::seconds(15));
  const auto first = AskHoldings();
  Pass(std::chrono::milliseconds(1'800));
  EXPECT_FALSE(first->has_value());
  Pass(std::chrono::milliseconds(400));
  ASSERT_TRUE(first->has_value());
  for (int i = 0; i < 3; ++i) {
    const auto again = AskHoldings();
    Pass(std::chrono::milliseconds(300));
    ASSERT_TRUE(again->has_value()) << i;
    ASSERT_EQ((*again)->size(), 1u);
    EXPECT_TRUE((**again)[0].missing);
    EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**again)[0].holdings, "");
  }
  network_.UnblockAll();
  Pass(std::chrono::seconds(15));
  network_.Block("10.0.0.1:17600", kOtherAddress);
  Pass(std::chrono::seconds(15));
  const auto later = AskHoldings();
  Pass(std::chrono::milliseconds(1'800));
  EXPECT_FALSE(later->has_value()) << "it was there meanwhile";
  Pass(std::chrono::milliseconds(400));
  EXPECT_TRUE(later->has_value());
}

TEST_F(NodesQuestionsTest, AMissingNodeThatWasSilentIsHeardAsSoonAsItAnswers) {
  StartBoth();
  other_->ledger.Adopt(WholeInCache(5));
  for (const auto& [from, to] :
       {std::pair(kOtherAddress, "10.0.0.1:17600"), std::pair("10.0.0.1:17600", kOtherAddress)}) {
    network_.Block(from, to);
  }
  Pass(std::chrono::seconds(15));
  const auto silent = AskHoldings();
  Pass(std::chrono::milliseconds(2'200));
  ASSERT_TRUE(silent->has_value());
  EXPECT_FALSE((**silent)[0].holdings.ok());
  network_.UnblockAll();
  const auto holdings = AskHoldings();
  for (int i = 0; i < 50 && !holdings->has_value(); ++i) {
    by_hand_.Turn(std::chrono::milliseconds(1));
    by_hand_.RunAll();
  }
  ASSERT_TRUE(holdings->has_value());
  ASSERT_OK((**holdings)[0].holdings);
  EXPECT_TRUE(nodes_->Find(kOtherNode));
}

// It answers whoever waits for it: to wait a moment only must not make that for ever.
TEST_F(NodesQuestionsTest, AMissingNodeThatIsSlowIsHeardTheNextTime) {
  StartBoth();
  other_->ledger.Adopt(WholeInCache(5));
  network_.Block(kOtherAddress, "10.0.0.1:17600");
  network_.Block("10.0.0.1:17600", kOtherAddress);
  Pass(std::chrono::seconds(15));
  const auto silent = AskHoldings();
  Pass(std::chrono::milliseconds(2'200));
  ASSERT_TRUE(silent->has_value());
  EXPECT_FALSE((**silent)[0].holdings.ok());
  network_.on_send = [](const std::string& from, const std::string&, peer::Frame& frame) {
    if (from == kOtherAddress && !frame.has_answer()) frame.Clear();  // it does not join again meanwhile
  };
  network_.UnblockAll();
  network_.Slow(kOtherAddress, std::chrono::milliseconds(150));  // there, and back
  const auto again = AskHoldings();
  Pass(std::chrono::milliseconds(300));
  ASSERT_TRUE(again->has_value());
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**again)[0].holdings, "");
  Pass(std::chrono::milliseconds(700));
  EXPECT_TRUE(nodes_->Find(kOtherNode)) << "its answer has come behind that";
  const auto heard = AskHoldings();
  Pass(std::chrono::milliseconds(600));
  ASSERT_TRUE(heard->has_value());
  EXPECT_TRUE((**heard)[0].missing);
  ASSERT_OK((**heard)[0].holdings);
  EXPECT_EQ((**heard)[0].holdings->datasets(0).dataset(), 5u);
}

// No link of the tree leads to it, but it can be reached.
TEST_F(NodesQuestionsTest, AMissingNodeThatTellsWhatItHoldsIsThereUntilTheTableSaysOtherwise) {
  StartBoth();
  other_->ledger.Adopt(WholeInCache(5));
  network_.Block(kOtherAddress, "10.0.0.1:17600");
  Pass(std::chrono::seconds(15));
  EXPECT_FALSE(nodes_->Find(kOtherNode)) << "it is missing";
  network_.UnblockAll();
  const auto holdings = AskHoldings();
  for (int i = 0; i < 50 && !holdings->has_value(); ++i) {
    by_hand_.Turn(std::chrono::milliseconds(1));
    by_hand_.RunAll();
  }
  ASSERT_TRUE(holdings->has_value());
  ASSERT_EQ((*holdings)->size(), 1u);
  EXPECT_TRUE((**holdings)[0].missing);
  ASSERT_OK((**holdings)[0].holdings);
  EXPECT_EQ((**holdings)[0].holdings->datasets(0).dataset(), 5u);
  EXPECT_TRUE(nodes_->Find(kOtherNode));
  Pass(std::chrono::seconds(15));
  EXPECT_TRUE(nodes_->Find(kOtherNode)) << "it has joined again";
  network_.Block(kOtherAddress, "10.0.0.1:17600");
  Pass(std::chrono::seconds(15));
  EXPECT_FALSE(nodes_->Find(kOtherNode)) << "it is missing again, and has not told anything since";
  other_->nodes.Stop();
  network_.Die(kOtherAddress);
  Pass(std::chrono::seconds(40));
  EXPECT_FALSE(nodes_->FindNamed(kOtherNode)) << "it is gone";
}

TEST_F(NodesQuestionsTest, WhoLeavesTellsThoseWhoWaitForAnswers) {
  StartBoth();
  network_.Block("10.0.0.1:17600", kOtherAddress);
  const auto said = AskOthers();
  by_hand_.RunAll();
  nodes_->Leave();
  by_hand_.RunAll();
  ASSERT_TRUE(said->has_value());
  EXPECT_STATUS(StatusCode::kCancelled, (**said)[0].answer, "leaves");
  Pass(std::chrono::seconds(10));
  EXPECT_TRUE(nodes_->out());
}

}  // namespace
}  // namespace cairn
