// Questions between members and their answers, as frames: cut into parts, put together again, validated. What comes
// from a peer is hostile, even if it is a member.
//   kInvalidArgument  the message names the field
#ifndef CAIRN_DAEMON_PEERS_ANSWERS_H_
#define CAIRN_DAEMON_PEERS_ANSWERS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/peer.pb.h"

namespace cairn {
namespace answers {

inline constexpr std::size_t kPieceBytesMax = 256u << 10;  // of one frame
inline constexpr std::size_t kAnswerBytesMax = 8u << 20;   // of one answer; some 80 000 rows of `ls`

// Does anybody know such a question?
absl::Status Check(const peer::Question& question);

// The frames that say it. An answer that is too long is refused (kResourceExhausted).
std::vector<peer::Frame> FramesOf(const absl::StatusOr<peer::Answer>& answer);
peer::Frame Refusal(const absl::Status& why);  // REQUIRES: not OK
peer::Refused From(const absl::Status& why);   // REQUIRES: not OK
absl::Status ToStatus(const peer::Refused& refused);

// One answer, part by part.
class Gathering {
 public:
  // `asked`: the question's kind.
  explicit Gathering(peer::Question::BodyCase asked) : asked_(asked) {}
  // nullopt: there is more to come. Else the answer, or why there is none: as the peer refused it, or what is wrong
  // with its frame. Nothing more is to be added then.
  std::optional<absl::StatusOr<peer::Answer>> Add(const peer::Frame& frame);
  std::size_t bytes() const { return bytes_.size(); }

 private:
  absl::StatusOr<peer::Answer> Whole() const;

  const peer::Question::BodyCase asked_;
  std::string bytes_;
};

}  // namespace answers
}  // namespace cairn

#endif  // CAIRN_DAEMON_PEERS_ANSWERS_H_
