#include "daemon/core/answers.h"

#include <algorithm>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {

Answers::Answers(std::uint32_t nranks) : asked_(nranks, 0) {
  if (nranks > 0) ranks_at_[0] = nranks;
}

absl::StatusOr<std::shared_ptr<Answer>> Answers::Ask(Rank rank, std::uint64_t number) {
  CAIRN_CHECK(rank < asked_.size());
  if (number == 0) return InvalidArgument("questions count from 1");
  if (number < gone_before_) {
    return FailedPrecondition(
        "the answer to question {} is not kept any more: {}", number,
        asked_[rank] > number ? "this rank has asked later ones" : "this rank is too far behind the others");
  }
  std::shared_ptr<Answer>& answer = answers_[number];
  if (!answer) answer = std::make_shared<Answer>(Answer{.number = number});
  std::shared_ptr<Answer> asked_for = answer;  // it may be the one that goes
  RankIsAt(rank, number);
  if (answers_.size() > kKeptMax) {
    gone_before_ = std::max(gone_before_, answers_.begin()->first + 1);
    answers_.erase(answers_.begin());
  }
  return asked_for;
}

void Answers::RankIsAt(Rank rank, std::uint64_t number) {
  if (number <= asked_[rank]) return;
  if (const auto at = ranks_at_.find(asked_[rank]); --at->second == 0) ranks_at_.erase(at);
  ++ranks_at_[number];
  asked_[rank] = number;
  gone_before_ = std::max(gone_before_, ranks_at_.begin()->first);
  answers_.erase(answers_.begin(), answers_.lower_bound(gone_before_));
}

}  // namespace cairn
