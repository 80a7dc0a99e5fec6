// What the members of a run ask each other: any member any other one, over a link for that question alone, besides the
// tree (membership.h). README.md tells how.
//
// Strand only. Nothing blocks, and every wait ends. No callback runs inside a call of this class.
#ifndef CAIRN_DAEMON_PEERS_QUESTIONS_H_
#define CAIRN_DAEMON_PEERS_QUESTIONS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/loop.h"
#include "daemon/peers/link.h"
#include "daemon/peers/member.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"

namespace cairn {

class Questions {
 public:
  using milliseconds = std::chrono::milliseconds;
  using Then = std::function<void(absl::StatusOr<peer::Answer> answer)>;
  // What this member answers. `then` once, now or later, on the strand; later than `answer_within`, nobody hears it.
  using Answerer = std::function<void(const PeerIdentity& who, const peer::Question& question, Then then)>;
  struct Limits {
    std::size_t at_once = 32;             // links that one AskAll has dialled
    std::size_t asking_max = 256;         // questions of this member under way
    std::size_t answering_max = 128;      // links that ask this member; beyond, they are told so
    std::size_t of_one_max = 8;           // of these, by one other member
    milliseconds answer_within{10'000};   // a link that asks ends after this, answered or not
    std::uint64_t bytes_max = 64u << 20;  // of all answers that one AskAll gathers
  };
  struct Given {
    Loop& loop;
    PeerNet& net;  // borrowed: gets the links whose first frame is a question (first_frame.h)
    RunId run;
    Limits limits = {};
  };
  struct Patience {
    milliseconds each;   // from the dial until the answer is whole
    milliseconds total;  // from the call, for all of them
  };
  using Answers = std::vector<std::pair<Member, absl::StatusOr<peer::Answer>>>;
  using ThenAll = std::function<void(Answers answers)>;

  // Serves `net` from now on.
  static std::unique_ptr<Questions> Make(const Given& given, Answerer answer);
  // Nobody is called any more.
  virtual ~Questions() = default;

  // `then` runs once, at the deadline at the latest:
  //   kUnavailable        nobody listens there, another node does, or the link broke
  //   kDeadlineExceeded   no whole answer by then
  //   kResourceExhausted  too many questions are under way, here or there, or the answer is too long
  //   kInvalidArgument    what came is no answer to the question: names the field
  //   kCancelled          Stop
  //   others              as PeerNet::Dial, or as the other refuses it
  virtual void Ask(const Member& member, const peer::Question& question, milliseconds deadline, Then then) = 0;
  // The same question to each: a row for each, in their order, once the last has answered or `patience` has ended. A
  // member that is silent costs its own row, and one of the links for that time.
  virtual void AskAll(std::vector<Member> members, const peer::Question& question, const Patience& patience,
                      ThenAll then) = 0;
  // Once, before the member leaves: no new questions from either side, and those under way are told soon (kCancelled).
  virtual void Stop() = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_QUESTIONS_H_
