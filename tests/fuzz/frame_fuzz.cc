// Any bytes as what a client sends to the Unix socket: cut in two anywhere (the first byte says where) they give the
// same messages and the same verdict as in one piece, and every first message gets an answer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/door/frame_parser.h"
#include "daemon/door/handshake.h"
#include "storage/base/check.h"

namespace {

struct Outcome {
  std::vector<std::string> messages;
  absl::StatusCode code = absl::StatusCode::kOk;
};

Outcome Feed(std::string_view first, std::string_view second) {
  cairn::FrameParser parser(cairn::kRequestBytesMax);
  Outcome outcome;
  for (const std::string_view part : {first, second}) {
    const absl::Status status = parser.Feed(part, [&](std::string_view message) {
      outcome.messages.emplace_back(message);
      return true;
    });
    outcome.code = status.code();
    if (!status.ok()) break;
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = stream.size() * data[0] / 256;
  const Outcome whole = Feed(stream, {});
  const Outcome parts = Feed(stream.substr(0, cut), stream.substr(cut));
  CAIRN_CHECK(whole.messages == parts.messages);
  CAIRN_CHECK(whole.code == parts.code);
  for (const std::string& message : whole.messages) {
    cairn::local::Request request;
    if (!request.ParseFromString(message)) continue;
    const cairn::Handshake handshake = cairn::AnswerFirst(request, {.name = "fuzz", .incarnation = 1});
    CAIRN_CHECK(handshake.accepted == handshake.reply.has_hello());
    CAIRN_CHECK(handshake.accepted != handshake.reply.has_status());
    CAIRN_CHECK(handshake.reply.call() == request.call());
  }
  return 0;
}
