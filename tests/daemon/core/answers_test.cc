// One answer for all ranks to their n-th question: daemon/core/answers.h.
#include "daemon/core/answers.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

using AnswerPtr = std::shared_ptr<Answer>;

AnswerPtr Ask(Answers& answers, Rank rank, std::uint64_t number) {
  auto answer = answers.Ask(rank, number);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *answer : nullptr;
}

TEST(AnswersTest, AllRanksGetTheSameForTheSameNumber) {
  Answers answers(3);
  const AnswerPtr first = Ask(answers, 1, 1);
  EXPECT_FALSE(first->decided);
  EXPECT_EQ(first->number, 1u);
  first->decided = first->yes = true;
  EXPECT_EQ(Ask(answers, 0, 1), first);
  EXPECT_NE(Ask(answers, 0, 2), first);
  EXPECT_EQ(Ask(answers, 2, 1), first) << "one that comes late";
}

TEST(AnswersTest, AskedAgainTheAnswerIsTheSameUntilAllHaveAskedALaterOne) {
  Answers answers(2);
  const AnswerPtr first = Ask(answers, 0, 1);
  EXPECT_EQ(Ask(answers, 1, 1), first);
  EXPECT_EQ(Ask(answers, 1, 1), first) << "the answer was lost with the connection";
  const AnswerPtr second = Ask(answers, 0, 2);
  EXPECT_EQ(Ask(answers, 1, 1), first);
  EXPECT_EQ(Ask(answers, 1, 2), second);
  EXPECT_EQ(answers.kept(), 1u);
  EXPECT_EQ(answers.Ask(1, 1).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Ask(answers, 1, 2), second);
}

TEST(AnswersTest, QuestionsCountFromOne) {
  Answers answers(1);
  EXPECT_EQ(answers.Ask(0, 0).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AnswersTest, NumbersMayBeginAnywhereAndHaveGaps) {
  Answers answers(2);
  const AnswerPtr late = Ask(answers, 0, 57);  // after a restart of the daemon
  EXPECT_NE(Ask(answers, 1, 56), late);
  EXPECT_EQ(Ask(answers, 1, 57), late);
  const AnswerPtr huge = Ask(answers, 0, UINT64_MAX);
  EXPECT_EQ(Ask(answers, 1, UINT64_MAX), huge);
  EXPECT_EQ(answers.kept(), 1u);
}

TEST(AnswersTest, SoManyAreKeptForARankThatDoesNotAskAndNoMore) {
  Answers answers(2);
  for (std::uint64_t number = 1; number <= Answers::kKeptMax + 10; ++number) Ask(answers, 0, number)->decided = true;
  EXPECT_EQ(answers.kept(), Answers::kKeptMax);
  const auto gone = answers.Ask(1, 10);
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(gone.status().message().find("too far behind"), std::string::npos) << gone.status();
  EXPECT_TRUE(Ask(answers, 1, 11)->decided);
  EXPECT_EQ(answers.kept(), Answers::kKeptMax);
}

TEST(AnswersTest, OneFarBehindThatMustGoAtOnceIsStillAnswered) {
  Answers answers(2);
  for (std::uint64_t number = 100; number < 100 + Answers::kKeptMax; ++number) Ask(answers, 0, number);
  EXPECT_NE(Ask(answers, 1, 5), nullptr);
  EXPECT_EQ(answers.kept(), Answers::kKeptMax);
}

}  // namespace
}  // namespace cairn
