#include "storage/io/errno_status.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(ErrnoStatusTest, CodeSaysWhatTheCallerDoesNext) {
  for (const int e : {ENOENT, ENOTDIR}) EXPECT_STATUS(absl::StatusCode::kNotFound, ErrnoStatus(e, "x"), "x: ");
  for (const int e : {EEXIST, ENOTEMPTY}) EXPECT_STATUS(absl::StatusCode::kAlreadyExists, ErrnoStatus(e, "x"), "");
  for (const int e : {ENOSPC, EDQUOT, EMFILE}) {
    EXPECT_STATUS(absl::StatusCode::kResourceExhausted, ErrnoStatus(e, "x"), "");
  }
  for (const int e : {EACCES, EPERM}) EXPECT_STATUS(absl::StatusCode::kPermissionDenied, ErrnoStatus(e, "x"), "");
  for (const int e : {EIO, ESTALE, EROFS, ETIMEDOUT, ENODEV, ENOTCONN, EBADFD}) {
    EXPECT_STATUS(absl::StatusCode::kUnavailable, ErrnoStatus(e, "x"), "");
  }
  for (const int e : {EINVAL, ENAMETOOLONG, ELOOP}) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ErrnoStatus(e, "x"), "");
  }
  for (const int e : {EFAULT, EBADF}) EXPECT_STATUS(absl::StatusCode::kInternal, ErrnoStatus(e, "x"), "");
}

TEST(ErrnoStatusTest, MessageHasContextAndTheSystemsWords) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, ErrnoStatus(ENOENT, "open /a"), "open /a: No such file or directory");
}

}  // namespace
}  // namespace cairn
