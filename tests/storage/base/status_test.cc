#include "storage/base/status.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/unique_fd.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

absl::Status FailsIf(bool fail) {
  return fail ? DataLoss("{} at {}", "file", 7) : absl::OkStatus();
}

absl::StatusOr<int> ValueUnless(bool fail) {
  CAIRN_RETURN_IF_ERROR(FailsIf(fail));
  return 5;
}

absl::StatusOr<int> SumUnless(bool first, bool second) {
  CAIRN_ASSIGN_OR_RETURN(const int a, ValueUnless(first));
  CAIRN_ASSIGN_OR_RETURN(const int b, ValueUnless(second));
  return a + b;
}

TEST(StatusTest, MacrosHandOnErrorsAndValues) {
  EXPECT_EQ(SumUnless(false, false).value(), 10);
  EXPECT_STATUS(StatusCode::kDataLoss, SumUnless(true, false), "file at 7");
  EXPECT_STATUS(StatusCode::kDataLoss, SumUnless(false, true), "file at 7");
}

TEST(StatusTest, AnnotateKeepsTheCodeAndOk) {
  EXPECT_STATUS(StatusCode::kNotFound, Annotate(NotFound("gone"), "cache"), "cache: gone");
  EXPECT_OK(Annotate(absl::OkStatus(), "cache"));
}

TEST(CheckDeathTest, AbortsNamingTheCondition) {
  CAIRN_CHECK(1 + 1 == 2);
  EXPECT_DEATH(CAIRN_CHECK(1 + 1 == 3), "check failed: 1 \\+ 1 == 3");
}

bool IsOpen(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFdTest, ClosesOnceAndMoves) {
  int number = -1;
  {
    UniqueFd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(a.valid());
    number = a.get();
    UniqueFd b(std::move(a));
    EXPECT_FALSE(a.valid());  // NOLINT(bugprone-use-after-move): what a move leaves is promised
    EXPECT_EQ(b.get(), number);
    UniqueFd c(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const int replaced = c.get();
    c = std::move(b);
    EXPECT_FALSE(IsOpen(replaced));
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(UniqueFdTest, ReleaseHandsTheDescriptorOver) {
  UniqueFd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int number = a.Release();
  a.Reset();
  EXPECT_TRUE(IsOpen(number));
  EXPECT_EQ(::close(number), 0);
}

}  // namespace
}  // namespace cairn
