// Members ask each other over a simulated network: what is answered, and what becomes of the rest.
#include "daemon/peers/questions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/answers.h"
#include "tests/daemon/peers/asking_members.h"

namespace cairn {
namespace {

using absl::StatusCode;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

class QuestionsTest : public AskingMembers {};

// --- Between members ---

TEST_F(QuestionsTest, AMemberAsksAnotherAndItsLinkEndsWithTheAnswer) {
  Node& one = Start(1);
  Node& two = Start(2);
  const auto answer = Get(Ask(one, two.self, AskShow(42)));
  ASSERT_OK(answer);
  EXPECT_EQ(answer->show().dataset().dataset(), 42u);
  ASSERT_EQ(two.asked.size(), 1u);
  EXPECT_EQ(two.asked[0].first.node, one.self.node);
  RunFor(milliseconds(100));
  EXPECT_TRUE(network_.links().empty());
  EXPECT_TRUE(two.to_others.empty()) << "a question is not for those who know joins";
}

TEST_F(QuestionsTest, ALongAnswerComesInPiecesAndATooLongOneIsRefused) {
  Node& one = Start(1);
  Node& two = Start(2);
  answer_ = [](const peer::Question& question) { return ShowAnswer(question.show().dataset(), 1'000'000); };
  std::size_t longest = 0, frames = 0;
  network_.on_send = [&](const std::string& from, const std::string&, const peer::Frame& frame) {
    if (from != two.self.address) return;
    longest = std::max<std::size_t>(longest, frame.ByteSizeLong());
    ++frames;
  };
  const auto answer = Get(Ask(one, two.self));
  ASSERT_OK(answer);
  EXPECT_EQ(answer->show().dataset().error().size(), 1'000'000u);
  EXPECT_EQ(frames, 4u);
  EXPECT_LT(longest, answers::kPieceBytesMax + 100);
  answer_ = [](const peer::Question&) { return ShowAnswer(1, answers::kAnswerBytesMax); };
  EXPECT_STATUS(StatusCode::kResourceExhausted, Get(Ask(one, two.self)), "at most");
}

TEST_F(QuestionsTest, WhatTheOtherRefusesIsToldWithItsCode) {
  Node& one = Start(1);
  Node& two = Start(2);
  answer_ = [](const peer::Question&) { return NotFound("there is no dataset 7"); };
  EXPECT_STATUS(StatusCode::kNotFound, Get(Ask(one, two.self)), "no dataset 7");
}

TEST_F(QuestionsTest, EachTroubleEndsTheQuestionInTime) {
  Node& one = Start(1);
  Node& two = Start(2);
  EXPECT_STATUS(StatusCode::kUnavailable, Get(Ask(one, MemberOf(3))), "nobody listens");
  network_.Block(one.self.address, two.self.address);
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, Get(Ask(one, two.self)), "no answer");
  network_.UnblockAll();
  hold_ = true;
  const Result silent = Ask(one, two.self);
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, Get(silent), "no answer within 2000 ms");
  RunFor(milliseconds(100));
  EXPECT_TRUE(network_.links().empty()) << "who has given up has closed the link";
  const Result cut = Ask(one, two.self);
  RunUntil([&] { return two.held.size() == 2; });
  network_.BreakLinks(one.self.address, two.self.address);
  EXPECT_STATUS(StatusCode::kUnavailable, Get(cut), "the link ended");
  Member moved = MemberOf(9);
  moved.address = two.self.address;
  EXPECT_STATUS(StatusCode::kUnavailable, Get(Ask(one, moved)), "another node is there");
}

TEST_F(QuestionsTest, WhoAskedMayHaveGoneWhenTheAnswerComes) {
  Start(1);
  Node& two = Start(2);
  hold_ = true;
  Ask(nodes_.at(1), two.self);
  RunUntil([&] { return two.held.size() == 1; });
  End(1, /*silently=*/false);
  RunFor(milliseconds(100));
  two.loop->Run([&] { two.held[0](ShowAnswer(7)); });
  RunFor(milliseconds(100));
  EXPECT_TRUE(network_.links().empty());
}

TEST_F(QuestionsTest, WhoIsAskedMayGoBeforeItAnswers) {
  Node& one = Start(1);
  Start(2);
  hold_ = true;
  const Result result = Ask(one, MemberOf(2));
  RunUntil([&] { return nodes_.at(2).held.size() == 1; });
  const Questions::Then late = nodes_.at(2).held[0];
  End(2, /*silently=*/false);
  EXPECT_STATUS(StatusCode::kUnavailable, Get(result), "");
  late(ShowAnswer(7));  // nobody is there any more
}

TEST_F(QuestionsTest, AnAnswerThatNeverComesHoldsTheLinkForABoundedTime) {
  Node& two = Start(2);
  Foreign& foreign = StartForeign(50);
  hold_ = true;
  Dial(foreign, two.self);
  Say(foreign, FrameOf(AskShow()));
  ExpectRefused(foreign, StatusCode::kDeadlineExceeded, "no answer within 10000 ms");
}

// --- All of them ---

TEST_F(QuestionsTest, AllAreAskedSoManyAtOnceAndASilentOneCostsItsOwnRow) {
  Node& one = Start(1);
  std::vector<Member> others;
  for (std::uint32_t number = 100; number < 200; ++number) others.push_back(Start(number).self);
  Start(7);
  network_.Vanish(MemberOf(150).address);
  network_.Block(one.self.address, MemberOf(160).address);
  std::size_t most = 0;
  network_.on_send = [&](const std::string&, const std::string&, const peer::Frame&) {
    most = std::max(most, network_.links().size());
  };
  const AllResult result = AskAll(one, others);
  const milliseconds took = RunUntil([&] { return result->has_value(); });
  EXPECT_GE(took, kDeadline);
  EXPECT_LT(took, kDeadline + milliseconds(500));
  EXPECT_LE(most, 32u + 32u) << "and those whose end is on its way";
  ASSERT_EQ((*result)->size(), 100u);
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto& [member, answer] = (**result)[i];
    EXPECT_EQ(member, others[i]);
    EXPECT_EQ(answer.ok(), i != 50 && i != 60) << i << answer.status();
  }
}

TEST_F(QuestionsTest, PatienceEndsAlsoForThoseThatWereNotAsked) {
  Node& one = Start(1, {.at_once = 2});
  std::vector<Member> others;
  for (std::uint32_t number = 100; number < 110; ++number) {
    others.push_back(Start(number).self);
    if (number > 100) network_.Block(one.self.address, others.back().address);
  }
  const AllResult result = AskAll(one, others, {.each = kDeadline, .total = milliseconds(3'000)});
  EXPECT_LE(RunUntil([&] { return result->has_value(); }), milliseconds(3'010));
  EXPECT_OK((**result)[0].second);
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**result)[1].second, "");
  EXPECT_STATUS(StatusCode::kDeadlineExceeded, (**result)[9].second, "not asked within 3000 ms");
}

TEST_F(QuestionsTest, WhatAllSayTogetherIsBounded) {
  Node& one = Start(1, {.bytes_max = 2'500'000});
  std::vector<Member> others;
  for (std::uint32_t number = 100; number < 104; ++number) others.push_back(Start(number).self);
  answer_ = [](const peer::Question&) { return ShowAnswer(7, 1'000'000); };
  const AllResult result = AskAll(one, others);
  RunUntil([&] { return result->has_value(); });
  const auto ok = std::ranges::count_if(**result, [](const auto& row) { return row.second.ok(); });
  EXPECT_GE(ok, 1);
  EXPECT_LE(ok, 2);
  for (const auto& [member, answer] : **result) {
    if (answer.ok()) continue;
    EXPECT_STATUS(StatusCode::kResourceExhausted, answer, "2500000 bytes");
  }
}

TEST_F(QuestionsTest, NobodyToAskIsAnAnswer) {
  Node& one = Start(1);
  const AllResult result = AskAll(one, {});
  RunUntil([&] { return result->has_value(); }, milliseconds(10));
  EXPECT_TRUE((*result)->empty());
}

// --- Bounds, and the end ---

TEST_F(QuestionsTest, TooManyQuestionsAreRefusedOnBothSides) {
  Node& one = Start(1, {.asking_max = 3});
  Node& two = Start(2, {.of_one_max = 2});
  hold_ = true;
  std::vector<Result> results;
  for (int i = 0; i < 3; ++i) results.push_back(Ask(one, two.self));
  EXPECT_STATUS(StatusCode::kResourceExhausted, Get(Ask(one, two.self)), "under way already");
  RunUntil([&] { return std::ranges::count_if(results, [](const Result& r) { return r->has_value(); }) == 1; });
  const auto refused = std::ranges::find_if(results, [](const Result& r) { return r->has_value(); });
  EXPECT_STATUS(StatusCode::kResourceExhausted, ***refused, "of yours");
  Node& three = Start(3);
  const Result other = Ask(three, two.self);
  RunUntil([&] { return two.held.size() == 3; });
  EXPECT_FALSE(other->has_value()) << "another member still has its share";
}

TEST_F(QuestionsTest, AllWhoAskIsBounded) {
  Node& two = Start(2, {.answering_max = 2});
  hold_ = true;
  std::vector<Result> results;
  for (std::uint32_t number = 10; number < 13; ++number) results.push_back(Ask(Start(number), two.self));
  RunUntil([&] { return std::ranges::any_of(results, [](const Result& r) { return r->has_value(); }); });
  const auto refused = std::ranges::find_if(results, [](const Result& r) { return r->has_value(); });
  EXPECT_STATUS(StatusCode::kResourceExhausted, ***refused, "others ask already");
}

TEST_F(QuestionsTest, WhoStopsTellsThoseWhoWaitAndServesNobody) {
  Node& one = Start(1);
  Node& two = Start(2);
  hold_ = true;
  const Result own = Ask(one, two.self), others = Ask(two, one.self);
  const AllResult all = AskAll(one, {two.self, MemberOf(3)});
  RunUntil([&] { return two.held.size() == 2 && one.held.size() == 1; });
  one.loop->Run([&] {
    one.questions->Stop();
    EXPECT_FALSE(own->has_value()) << "inside the call";
  });
  RunFor(milliseconds(100));
  ASSERT_TRUE(own->has_value() && all->has_value() && others->has_value());
  EXPECT_STATUS(StatusCode::kCancelled, **own, "leaves");
  EXPECT_STATUS(StatusCode::kCancelled, (**all)[0].second, "leaves");
  EXPECT_STATUS(StatusCode::kUnavailable, **others, "the link ended");
  EXPECT_STATUS(StatusCode::kCancelled, Get(Ask(one, two.self)), "leaves");
  EXPECT_STATUS(StatusCode::kUnavailable, Get(Ask(two, one.self)), "");
}

// --- Nonsense from who asks ---

TEST_F(QuestionsTest, WhatIsNoQuestionIsRefusedByTheNameOfItsField) {
  Node& two = Start(2);
  Foreign& foreign = StartForeign(50);
  Dial(foreign, two.self);
  Say(foreign, FrameOf(peer::Question()));
  ExpectRefused(foreign, StatusCode::kInvalidArgument, "question.body");

  hold_ = true;
  Dial(foreign, two.self);
  Say(foreign, FrameOf(AskShow()));
  Say(foreign, FrameOf(AskShow()));
  ExpectRefused(foreign, StatusCode::kInvalidArgument, "question: a second one");

  Dial(foreign, two.self);
  Say(foreign, FrameOf(AskShow()));
  peer::Frame frame;
  frame.mutable_pulse();
  Say(foreign, frame);
  ExpectRefused(foreign, StatusCode::kInvalidArgument, "frame: 7 is no question");
  EXPECT_EQ(two.asked.size(), 2u);
}

TEST_F(QuestionsTest, AnAnswerThatNobodyAskedForIsNotForQuestions) {
  Node& two = Start(2);
  Foreign& foreign = StartForeign(50);
  Dial(foreign, two.self);
  Say(foreign, answers::FramesOf(ShowAnswer(7))[0]);
  RunUntil([&] { return two.to_others.size() == 1; });
  EXPECT_TRUE(two.asked.empty());
}

// --- Nonsense from who answers ---

TEST_F(QuestionsTest, WhatIsNoAnswerIsRefusedByTheNameOfItsField) {
  Node& one = Start(1);
  Foreign& foreign = StartForeign(50);
  const auto part = [](std::string piece, bool more) {
    peer::Frame frame;
    frame.mutable_answer()->set_piece(std::move(piece));
    frame.mutable_answer()->set_more(more);
    return frame;
  };
  peer::Frame pulse, code, holdings;
  pulse.mutable_pulse();
  code.mutable_answer()->mutable_refused()->set_code(99);
  peer::Answer other;
  other.mutable_holdings();
  holdings = part(other.SerializeAsString(), false);
  const std::vector<std::pair<std::string, peer::Frame>> bad = {
      {"frame: 7 is no answer", pulse},
      {"frame: 8 is no answer", FrameOf(AskShow())},
      {"frame: 0 is no answer", peer::Frame()},
      {"refused.code", code},
      {"answer.piece: 262145 bytes", part(std::string(answers::kPieceBytesMax + 1, 'x'), true)},
      {"answer.piece: empty", part("", true)},
      {"answer: its 3 bytes are none", part("\xff\xff\xff", false)},
      {"answer.body: 4 does not answer question 2", holdings},
      {"answer.body: 0 does not answer question 2", part("", false)},
  };
  for (const auto& [text, frame] : bad) {
    foreign.link.reset();
    const Result result = Ask(one, foreign.self);
    RunUntil([&] { return foreign.link != nullptr; });
    Say(foreign, frame);
    EXPECT_STATUS(StatusCode::kInvalidArgument, Get(result), text);
    RunUntil([&] { return foreign.closed.has_value(); }, milliseconds(1'000));
  }
}

TEST_F(QuestionsTest, AnAnswerWithoutEndIsRefused) {
  Node& one = Start(1);
  Foreign& foreign = StartForeign(50);
  const Result result = Ask(one, foreign.self);
  RunUntil([&] { return foreign.link != nullptr; });
  peer::Frame frame;
  frame.mutable_answer()->set_piece(std::string(answers::kPieceBytesMax, 'x'));
  frame.mutable_answer()->set_more(true);
  for (std::size_t i = 0; i <= answers::kAnswerBytesMax / answers::kPieceBytesMax; ++i) Say(foreign, frame);
  EXPECT_STATUS(StatusCode::kInvalidArgument, Get(result), "answer: more than 8388608 bytes");
}

}  // namespace
}  // namespace cairn
