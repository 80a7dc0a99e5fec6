#include "daemon/peers/answers.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/peers/frames.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/place/arbiter/lease_series.h"

namespace cairn::answers {
namespace {

// An answer has the number of its question (proto/peer.proto).
static_assert(static_cast<int>(peer::Question::kList) == static_cast<int>(peer::Answer::kList));
static_assert(static_cast<int>(peer::Question::kShow) == static_cast<int>(peer::Answer::kShow));
static_assert(static_cast<int>(peer::Question::kStatus) == static_cast<int>(peer::Answer::kStatus));
static_assert(static_cast<int>(peer::Question::kHoldings) == static_cast<int>(peer::Answer::kHoldings));
static_assert(static_cast<int>(peer::Question::kFlush) == static_cast<int>(peer::Answer::kFlush));
static_assert(static_cast<int>(peer::Question::kPin) == static_cast<int>(peer::Answer::kPin));
static_assert(static_cast<int>(peer::Question::kRemove) == static_cast<int>(peer::Answer::kRemove));
static_assert(static_cast<int>(peer::Question::kRemake) == static_cast<int>(peer::Answer::kRemade));

constexpr std::uint32_t kCodeMax = static_cast<std::uint32_t>(absl::StatusCode::kUnauthenticated);

}  // namespace

absl::Status ToStatus(const peer::Refused& refused) {
  if (refused.code() == 0 || refused.code() > kCodeMax) {
    return InvalidArgument("refused.code: {} is no error", refused.code());
  }
  const std::string text = lease_series::Cleaned(refused.text(), frames::kTextBytesMax);
  return MakeError(static_cast<absl::StatusCode>(refused.code()), "{}", text);
}

peer::Refused From(const absl::Status& why) {
  CAIRN_CHECK(!why.ok());
  peer::Refused refused;
  refused.set_code(static_cast<std::uint32_t>(why.code()));
  refused.set_text(lease_series::Cleaned(MessageOf(why), frames::kTextBytesMax));
  return refused;
}

absl::Status Check(const peer::Question& question) {
  if (question.body_case() != peer::Question::BODY_NOT_SET) return absl::OkStatus();
  return InvalidArgument("question.body: not known here");
}

peer::Frame Refusal(const absl::Status& why) {
  peer::Frame frame;
  *frame.mutable_answer()->mutable_refused() = From(why);
  return frame;
}

std::vector<peer::Frame> FramesOf(const absl::StatusOr<peer::Answer>& answer) {
  if (!answer.ok()) return {Refusal(answer.status())};
  const std::size_t size = answer->ByteSizeLong();
  if (size > kAnswerBytesMax) {
    return {Refusal(ResourceExhausted("the answer has {} bytes, at most {} may be sent", size, kAnswerBytesMax))};
  }
  const std::string bytes = answer->SerializeAsString();
  std::vector<peer::Frame> frames;
  std::size_t at = 0;
  do {
    peer::AnswerPart& part = *frames.emplace_back().mutable_answer();
    part.set_piece(bytes.substr(at, kPieceBytesMax));
    at += part.piece().size();
    part.set_more(at < bytes.size());
  } while (at < bytes.size());
  return frames;
}

std::optional<absl::StatusOr<peer::Answer>> Gathering::Add(const peer::Frame& frame) {
  if (!frame.has_answer()) {
    return InvalidArgument("frame: {} is no answer", static_cast<int>(frame.body_case()));
  }
  const peer::AnswerPart& part = frame.answer();
  if (part.has_refused()) return ToStatus(part.refused());
  if (part.piece().size() > kPieceBytesMax) {
    return InvalidArgument("answer.piece: {} bytes, at most {}", part.piece().size(), kPieceBytesMax);
  }
  if (part.piece().empty() && part.more()) return InvalidArgument("answer.piece: empty");
  if (bytes_.size() + part.piece().size() > kAnswerBytesMax) {
    return InvalidArgument("answer: more than {} bytes", kAnswerBytesMax);
  }
  bytes_ += part.piece();
  if (part.more()) return std::nullopt;
  return Whole();
}

absl::StatusOr<peer::Answer> Gathering::Whole() const {
  peer::Answer answer;
  if (!answer.ParseFromString(bytes_)) return InvalidArgument("answer: its {} bytes are none", bytes_.size());
  if (static_cast<int>(answer.body_case()) != static_cast<int>(asked_)) {
    return InvalidArgument("answer.body: {} does not answer question {}", static_cast<int>(answer.body_case()),
                           static_cast<int>(asked_));
  }
  return answer;
}

}  // namespace cairn::answers
