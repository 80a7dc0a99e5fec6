#include "storage/io/posix_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "storage/base/unique_fd.h"
#include "storage/io/io_engine.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(PosixFileTest, FailedSyncStaysFailed) {
  const std::shared_ptr<IoEngine> engine = MakeIoEngine({.io_uring = false});
  // A pipe cannot be synced; what takes the place of its descriptor can.
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd writing(ends[1]);
  PosixFile file(engine, UniqueFd(ends[0]), "/a", /*direct=*/false);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, file.Sync(), "sync /a");
  const UniqueFd good(::open(testing::TempDir().c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!good.valid()) GTEST_SKIP() << "no unnamed files in " << testing::TempDir();
  ASSERT_EQ(::fdatasync(good.get()), 0);
  ASSERT_EQ(::dup3(good.get(), ends[0], O_CLOEXEC), ends[0]);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, file.Sync(), "sync /a");
}

}  // namespace
}  // namespace cairn
