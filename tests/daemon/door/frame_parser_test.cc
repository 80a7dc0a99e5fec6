#include "daemon/door/frame_parser.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "proto/frame.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr std::uint32_t kMax = 1000;

std::string Frame(std::string_view body, std::uint32_t magic = CAIRN_FRAME_MAGIC) {
  const cairn_frame_header header{.magic = magic, .bytes = static_cast<std::uint32_t>(body.size())};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + std::string(body);
}

TEST(FrameParserTest, EveryCutOfTheStreamGivesTheSameMessages) {
  const std::vector<std::string> expected = {"one", "", "three", std::string(kMax, 'x')};
  std::string stream;
  for (const std::string& body : expected) stream += Frame(body);
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameParser parser(kMax);
    std::vector<std::string> messages;
    const auto take = [&](std::string_view message) {
      messages.emplace_back(message);
      return true;
    };
    ASSERT_OK(parser.Feed(std::string_view(stream).substr(0, cut), take));
    ASSERT_OK(parser.Feed(std::string_view(stream).substr(cut), take));
    EXPECT_EQ(messages, expected) << "cut at " << cut;
  }
}

TEST(FrameParserTest, AHeaderIsJudgedAsSoonAsItIsThere) {
  const auto none = [](std::string_view) { return ADD_FAILURE(), true; };
  FrameParser foreign(kMax);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, foreign.Feed(Frame("", 0x12345678), none), "0x12345678");
  FrameParser large(kMax);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, large.Feed(Frame(std::string(kMax + 1, 'x')).substr(0, 8), none),
                "1001 bytes");
}

TEST(FrameParserTest, WhoHasEnoughGetsNoMore) {
  FrameParser parser(kMax);
  int messages = 0;
  ASSERT_OK(parser.Feed(Frame("a") + Frame("b"), [&](std::string_view) { return ++messages < 1; }));
  EXPECT_EQ(messages, 1);
}

TEST(FrameParserTest, AnEncodedMessageComesBack) {
  local::Request request;
  request.set_call(3);
  request.mutable_filled()->set_pieces(17);
  FrameParser parser(kMax);
  ASSERT_OK(parser.Feed(EncodeFrame(request), [&](std::string_view message) {
    local::Request decoded;
    EXPECT_TRUE(decoded.ParseFromArray(message.data(), static_cast<int>(message.size())));
    EXPECT_EQ(decoded.SerializeAsString(), request.SerializeAsString());
    return true;
  }));
}

}  // namespace
}  // namespace cairn
