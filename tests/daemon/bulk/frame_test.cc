#include "daemon/bulk/frame.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;

absl::StatusOr<BulkPrefix> PrefixOf(std::string_view bytes) {
  return ParsePrefix(std::as_bytes(std::span(bytes)).first<BulkPrefix::kBytes>());
}

TEST(BulkFrameTest, AHeadTellsItsHeaderAndPayload) {
  bulk::Answer answer;
  answer.set_id(7);
  const std::string head = FrameHead(answer, 70'000);
  ASSERT_OK_AND_ASSIGN(const BulkPrefix prefix, PrefixOf(head));
  EXPECT_EQ(prefix.header_bytes, head.size() - BulkPrefix::kBytes);
  EXPECT_EQ(prefix.payload_bytes, 70'000u);
  bulk::Answer read;
  ASSERT_TRUE(read.ParseFromString(head.substr(BulkPrefix::kBytes)));
  EXPECT_EQ(read.id(), 7u);
}

TEST(BulkFrameTest, HeadersAndPayloadsHaveBounds) {
  EXPECT_OK(PrefixOf(std::string("\x00\x20\x00\x00\x00\x00\x10\x00", 8)));
  EXPECT_STATUS(kInvalidArgument, PrefixOf(std::string("\x01\x20\x00\x00\x00\x00\x10\x00", 8)), "header: 8193");
  EXPECT_STATUS(kInvalidArgument, PrefixOf(std::string("\x00\x20\x00\x00\x01\x00\x10\x00", 8)), "payload: 1048577");
  EXPECT_STATUS(kInvalidArgument, PrefixOf(std::string(8, '\xff')), "header: 4294967295");
}

TEST(BulkFrameTest, ANameStaysBelowItsFolder) {
  for (const char* good : {"", "a", "a/b", "scr.dataset.17/Ckpt17-Rank0.fti", ".scr/filemap_0", "..a/b..", "..."}) {
    EXPECT_OK(CheckName(good));
  }
  for (const char* bad : {"/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "./a", "a/."}) {
    EXPECT_STATUS(kInvalidArgument, CheckName(bad), "name") << bad;
  }
  EXPECT_STATUS(kInvalidArgument, CheckName(std::string("a\0b", 3)), "zero byte");
  EXPECT_STATUS(kInvalidArgument, CheckName(std::string(256, 'a')), "256 bytes");
  EXPECT_OK(CheckName(std::string(255, 'a')));
  EXPECT_STATUS(kInvalidArgument, CheckName(std::string(kBulkNameBytesMax + 1, 'a')), "name: 2049 bytes");
  std::string deep = "a";
  for (std::size_t i = 1; i < kNamePartsMax; ++i) deep += "/a";
  EXPECT_OK(CheckName(deep));
  EXPECT_STATUS(kInvalidArgument, CheckName(deep + "/a"), "64 parts");
}

TEST(BulkFrameTest, AWrongRequestNamesTheField) {
  bulk::Request request;
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "op: 0");
  request.set_op(static_cast<bulk::Request::Op>(77));
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "op: 77");
  request.set_op(bulk::Request::READ);
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "bytes: 0");
  request.set_bytes(kWindowBytesMax + 1);
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "bytes: 1048577");
  request.set_bytes(std::uint64_t{1} << 63);
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "bytes: 9223372036854775808");
  request.set_bytes(kWindowBytesMax);
  EXPECT_OK(CheckRequest(request));
  request.set_offset((std::uint64_t{1} << 63) - kWindowBytesMax);
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "offset: 9223372036853727232");
  request.set_offset(UINT64_MAX);
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "offset: 18446744073709551615");
  request.set_op(bulk::Request::LIST);
  request.set_after(std::string(256, 'a'));
  EXPECT_STATUS(kInvalidArgument, CheckRequest(request), "after: 256");
}

TEST(BulkFrameTest, InfoTravelsAsItIs) {
  FileInfo info{.bytes = 1, .allocated_bytes = 2, .inode = 3, .device = 4, .mode = 0100640, .uid = 5, .gid = 6};
  info.links = 7;
  info.atime = {.tv_sec = -8, .tv_nsec = 9};
  info.mtime = {.tv_sec = 10, .tv_nsec = 999'999'999};
  info.ctime = {.tv_sec = 11, .tv_nsec = 12};
  info.birth = timespec{.tv_sec = 13, .tv_nsec = 14};
  ASSERT_OK_AND_ASSIGN(const FileInfo back, FromMessage(ToMessage(info)));
  EXPECT_EQ(ToMessage(back).SerializeAsString(), ToMessage(info).SerializeAsString());
  EXPECT_EQ(back.mtime.tv_nsec, 999'999'999);
  EXPECT_EQ(back.mode, 0100640u);
  EXPECT_TRUE(back.birth.has_value());
  info.birth.reset();
  EXPECT_FALSE(FromMessage(ToMessage(info))->birth.has_value());
}

TEST(BulkFrameTest, InfoThatIsNoneIsRefused) {
  bulk::FileInfo message = ToMessage(FileInfo{.mode = 0100600});
  EXPECT_OK(FromMessage(message));
  message.mutable_mtime()->set_nanoseconds(1'000'000'000);
  EXPECT_STATUS(kInvalidArgument, FromMessage(message), "nanoseconds");
  message = ToMessage(FileInfo{.bytes = std::uint64_t{1} << 63, .mode = 0100600});
  EXPECT_STATUS(kInvalidArgument, FromMessage(message), "9223372036854775808 bytes");
  EXPECT_STATUS(kInvalidArgument, FromMessage(ToMessage(FileInfo{.mode = 0120777})), "neither");
}

TEST(BulkFrameTest, AStatusTravelsWithinBounds) {
  bulk::Answer answer;
  SetStatus(absl::DataLossError(std::string(5000, 'x')), answer);
  EXPECT_EQ(answer.text().size(), kAnswerTextBytesMax);
  EXPECT_STATUS(absl::StatusCode::kDataLoss, StatusOf(answer), "xxx");
  SetStatus(absl::NotFoundError("\xff\xfe"), answer);
  EXPECT_STATUS(absl::StatusCode::kNotFound, StatusOf(answer), "??");
  answer.set_code(4711);
  EXPECT_STATUS(absl::StatusCode::kUnavailable, StatusOf(answer), "4711");
  answer.set_code(0);
  EXPECT_OK(StatusOf(answer));
}

TEST(BulkFrameTest, NamesAreInOrderAndNoPaths) {
  ASSERT_OK_AND_ASSIGN(const auto names, ParseNames(std::string("a\0b\0", 4), ""));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_OK(ParseNames("", "z"));
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("a\0b", 3), ""), "no end");
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("b\0a\0", 4), ""), "order");
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("a\0a\0", 4), ""), "order");
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("a\0", 2), "a"), "order");
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("a/b\0", 4), ""), "path");
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("..\0", 3), ""), "'..'");
  EXPECT_STATUS(kInvalidArgument, ParseNames(std::string("\0", 1), ""), "empty");
}

}  // namespace
}  // namespace cairn
