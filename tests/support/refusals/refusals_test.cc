#include "tests/support/refusals/refusals.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

int ErrorOf(long result) {
  return result == 0 ? 0 : errno;
}
int ErrorOfPinning(unsigned more) {
  return ErrorOf(::syscall(SYS_io_uring_register, -1, IORING_REGISTER_BUFFERS_UPDATE | more, nullptr, 0));
}

TEST(RefusalsTest, PinningIsRefusedToRegisteredRingsToo) {
  CAIRN_SKIP_UNLESS_REFUSED(NoPinning(ENOMEM));
  constexpr unsigned kRegisteredRing = 1u << 31;  // IORING_REGISTER_USE_REGISTERED_RING, Linux 6.3
  EXPECT_NE(ErrorOfPinning(0), ENOMEM);
  EXPECT_OK(RunRefused(NoPinning(ENOMEM), [] {
    EXPECT_EQ(ErrorOfPinning(0), ENOMEM);
    EXPECT_EQ(ErrorOfPinning(kRegisteredRing), ENOMEM);
    EXPECT_NE(ErrorOf(::syscall(SYS_io_uring_register, -1, IORING_REGISTER_FILES, nullptr, 0)), ENOMEM);
  }));
}

TEST(RefusalsTest, ClonesAreRefusedAndNoOtherIoctl) {
  CAIRN_SKIP_UNLESS_REFUSED(NoClones());
  EXPECT_OK(RunRefused(NoClones(), [] {
    EXPECT_EQ(ErrorOf(::ioctl(-1, FICLONE, -1)), EOPNOTSUPP);
    EXPECT_EQ(ErrorOf(::ioctl(-1, FIONREAD, nullptr)), EBADF);
  }));
}

TEST(RefusalsTest, HardLinksAreRefusedByEitherCall) {
  CAIRN_SKIP_UNLESS_REFUSED(NoHardLinks());
  EXPECT_EQ(ErrorOf(::link("/nowhere/a", "/nowhere/b")), ENOENT);
  EXPECT_OK(RunRefused(NoHardLinks(), [] {
    EXPECT_EQ(ErrorOf(::link("/nowhere/a", "/nowhere/b")), EPERM);
    EXPECT_EQ(ErrorOf(::linkat(AT_FDCWD, "/nowhere/a", AT_FDCWD, "/nowhere/b", 0)), EPERM);
  }));
}

TEST(RefusalsTest, WithoutFiltersNothingIsRun) {
  const Refusals no_filters{
      .calls = {{.call = SYS_prctl, .error = EINVAL, .only_if = {{.index = 0, .value = PR_SET_SECCOMP}}}}};
  CAIRN_SKIP_UNLESS_REFUSED(no_filters);
  bool ran = false;
  EXPECT_OK(RunRefused(no_filters, [&ran] {
    EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, RunRefused(NoClones(), [&ran] { ran = true; }), "seccomp");
  }));
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace cairn
