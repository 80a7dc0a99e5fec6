#include "daemon/bulk/served_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/bulk/frame.h"
#include "storage/base/checksum.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::RunOf;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;

class ServedFilesTest : public ::testing::Test {
 protected:
  ServedFilesTest() {
    for (const char* folder : {"/cache", "/cache/run", "/cache/run/set", "/cache/other"}) {
      EXPECT_OK(disk_.MakeDirectory(folder, 0700));
    }
    Write("/cache/run/set/file", "0123456789");
    Write("/cache/secret", "not of the run");
    files_.Serve(run_, disk_, "/cache/run");
  }

  void Write(const std::string& path, const std::string& text) {
    ASSERT_OK_AND_ASSIGN(const auto file, disk_.Open(path, {.writable = true, .create = true}));
    ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(text))));
  }
  static bulk::Request Question(bulk::Request::Op op, const std::string& name) {
    bulk::Request request;
    request.set_id(5);
    request.set_op(op);
    request.set_name(name);
    return request;
  }
  bulk::Request Reading(const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
    bulk::Request request = Question(bulk::Request::READ, name);
    request.set_offset(offset);
    request.set_bytes(bytes);
    return request;
  }
  absl::StatusOr<std::string> Ask(const bulk::Request& request) {
    std::vector<std::byte> window(kWindowBytesMax);
    served_ = files_.Answer(run_, request, window);
    EXPECT_EQ(served_.answer.id(), request.id());
    const auto payload = std::span(window).first(served_.payload_bytes);
    const absl::Status status = StatusOf(served_.answer);
    if (!status.ok()) {
      EXPECT_EQ(payload.size(), 0u);
      return status;
    }
    EXPECT_EQ(served_.answer.crc32c(), Crc32c(payload));
    return std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
  }

  const RunId run_ = RunOf(1);
  FakeDisk disk_;
  ServedFiles files_;
  ServedFiles::Served served_;
};

TEST_F(ServedFilesTest, GivesJustTheBytesThatAreAskedFor) {
  ASSERT_OK_AND_ASSIGN(const std::string all, Ask(Reading("set/file", 0, 10)));
  EXPECT_EQ(all, "0123456789");
  ASSERT_OK_AND_ASSIGN(const std::string some, Ask(Reading("set/file", 3, 4)));
  EXPECT_EQ(some, "3456");
}

TEST_F(ServedFilesTest, BeyondTheEndIsDataLoss) {
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Ask(Reading("set/file", 8, 4)), "set/file");
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Ask(Reading("set/file", 1u << 30, 1)), "set/file");
}

TEST_F(ServedFilesTest, OpenAndInfoTellWhatTheDiskTells) {
  ASSERT_OK_AND_ASSIGN(const FileInfo info, disk_.Info("/cache/run/set/file"));
  for (const auto op : {bulk::Request::OPEN, bulk::Request::INFO}) {
    ASSERT_OK(Ask(Question(op, "set/file")));
    EXPECT_EQ(served_.answer.info().SerializeAsString(), ToMessage(info).SerializeAsString());
  }
  ASSERT_OK(Ask(Question(bulk::Request::INFO, "")));
  EXPECT_EQ(served_.answer.info().mode() & 0170000, 0040000u);
  EXPECT_STATUS(kInvalidArgument, Ask(Question(bulk::Request::OPEN, "set")), "set");
}

TEST_F(ServedFilesTest, WhatIsNotThereIsNotFound) {
  for (const auto op : {bulk::Request::OPEN, bulk::Request::INFO, bulk::Request::LIST}) {
    EXPECT_STATUS(kNotFound, Ask(Question(op, "set/none")), "none");
    EXPECT_STATUS(kNotFound, Ask(Question(op, "none/file")), "none");
    EXPECT_STATUS(kNotFound, Ask(Question(op, "set/file/file")), "file");
  }
  EXPECT_STATUS(kNotFound, Ask(Reading("set/none", 0, 1)), "none");
}

TEST_F(ServedFilesTest, AnotherFileOfTheSameNameIsNotTheOneThatWasOpened) {
  ASSERT_OK(Ask(Question(bulk::Request::OPEN, "set/file")));
  bulk::Request request = Reading("set/file", 0, 1);
  request.set_device(served_.answer.info().device());
  request.set_inode(served_.answer.info().inode());
  EXPECT_OK(Ask(request));
  ASSERT_OK(disk_.Remove("/cache/run/set/file"));
  EXPECT_STATUS(kNotFound, Ask(request), "file");
  Write("/cache/run/set/file", "another");
  EXPECT_STATUS(kNotFound, Ask(request), "another file");
  request.set_op(bulk::Request::INFO);
  EXPECT_STATUS(kNotFound, Ask(request), "another file");
}

TEST_F(ServedFilesTest, NoNameLeadsOut) {
  ASSERT_OK(disk_.Symlink("/cache", "/cache/run/up"));
  ASSERT_OK(disk_.Symlink("/cache/secret", "/cache/run/set/link"));
  ASSERT_OK(disk_.Symlink("/cache/run/set", "/cache/run/inside"));
  for (const auto op : {bulk::Request::OPEN, bulk::Request::READ, bulk::Request::INFO, bulk::Request::LIST}) {
    for (const char* name : {"up/secret", "up", "set/link", "inside/file"}) {
      bulk::Request request = Question(op, name);
      request.set_bytes(1);
      EXPECT_STATUS(kInvalidArgument, Ask(request), "symbolic link") << name;
    }
    for (const char* name : {"../secret", "set/../../secret", "/cache/secret", "set//file", "./set"}) {
      bulk::Request request = Question(op, name);
      request.set_bytes(1);
      EXPECT_STATUS(kInvalidArgument, Ask(request), "name") << name;
    }
  }
}

TEST_F(ServedFilesTest, HostileQuestionsAreAnsweredWithTheField) {
  const std::uint64_t huge = std::uint64_t{1} << 63;
  EXPECT_STATUS(kInvalidArgument, Ask(Reading("set/file", 0, huge)), "bytes");
  EXPECT_STATUS(kInvalidArgument, Ask(Reading("set/file", huge, 1)), "offset");
  EXPECT_STATUS(kInvalidArgument, Ask(Reading("set/file", UINT64_MAX, 1)), "offset");
  EXPECT_STATUS(kInvalidArgument, Ask(Reading("set/file", 0, 0)), "bytes");
  EXPECT_STATUS(kInvalidArgument, Ask(Question(static_cast<bulk::Request::Op>(99), "set/file")), "op: 99");
}

TEST_F(ServedFilesTest, ALongListComesInParts) {
  constexpr int kFiles = 6000;
  for (int i = 0; i < kFiles; ++i) Write(fmt::format("/cache/run/{:0>240}", i), "");
  ASSERT_OK_AND_ASSIGN(const auto expected, disk_.List("/cache/run"));
  std::vector<std::string> all;
  int parts = 0;
  for (bool more = true; more; ++parts) {
    bulk::Request request = Question(bulk::Request::LIST, "");
    if (!all.empty()) request.set_after(all.back());
    ASSERT_OK_AND_ASSIGN(const std::string payload, Ask(request));
    ASSERT_OK_AND_ASSIGN(const auto names, ParseNames(payload, request.after()));
    all.insert(all.end(), names.begin(), names.end());
    more = served_.answer.more();
  }
  EXPECT_EQ(all, expected);
  EXPECT_EQ(parts, 2);
}

TEST_F(ServedFilesTest, EachRunHasItsOwnFolder) {
  bulk::Request request = Question(bulk::Request::INFO, "set/file");
  EXPECT_STATUS(absl::StatusCode::kUnavailable, StatusOf(files_.Answer(RunOf(2), request, {}).answer), "no files");
  files_.Serve(RunOf(2), disk_, "/cache/other");
  EXPECT_STATUS(kNotFound, StatusOf(files_.Answer(RunOf(2), request, {}).answer), "set");
  EXPECT_OK(Ask(request));
  files_.Unserve(run_);
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Ask(request), "no files");
}

TEST_F(ServedFilesTest, WhatTheDiskSaysIsToldAsItIs) {
  disk_.FailOn({.op = FakeOp::kRead, .status = absl::UnavailableError("the disk hums")});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, Ask(Reading("set/file", 0, 1)), "hums");
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted,
                StatusOf(files_.Answer(run_, Reading("set/file", 0, 1), {}).answer), "memory");
}

}  // namespace
}  // namespace cairn
