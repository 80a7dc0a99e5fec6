// One answer for all ranks of a launch to their n-th question of a kind, whoever asks first. No I/O, no clock.
#ifndef CAIRN_DAEMON_CORE_ANSWERS_H_
#define CAIRN_DAEMON_CORE_ANSWERS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/ids.h"

namespace cairn {

struct Answer {
  std::uint64_t number = 0;
  bool decided = false;  // the rest is set once, by whoever decides
  bool yes = false;
  std::string why = {};
  // Of those who wait for the decision.
  bool awaited = false;
  bool hurry = false;  // no more waiting: what is known must do
  std::uint64_t timer = 0;
};

// An answer is kept until every rank has asked a later question: a rank may ask again until it has heard it. At most
// kKeptMax are: of more the oldest goes.
class Answers {
 public:
  static constexpr std::size_t kKeptMax = 4096;

  explicit Answers(std::uint32_t nranks = 0);

  // The answer to this rank's question `number`, decided or not yet.
  //   kInvalidArgument     questions count from 1
  //   kFailedPrecondition  it is kept no more: the rank has asked later ones, or is too far behind the others
  // REQUIRES: rank < nranks.
  absl::StatusOr<std::shared_ptr<Answer>> Ask(Rank rank, std::uint64_t number);

  std::size_t kept() const { return answers_.size(); }

 private:
  void RankIsAt(Rank rank, std::uint64_t number);

  std::vector<std::uint64_t> asked_;                 // by rank: its last question
  std::map<std::uint64_t, std::uint32_t> ranks_at_;  // so many ranks' last question is this one
  std::map<std::uint64_t, std::shared_ptr<Answer>> answers_;
  std::uint64_t gone_before_ = 1;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ANSWERS_H_
