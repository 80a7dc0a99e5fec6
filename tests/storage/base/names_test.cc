// What this machine and this user are called: storage/base/host_name.h and user_name.h.
#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "storage/base/host_name.h"
#include "storage/base/user_name.h"

namespace cairn {
namespace {

TEST(HostNameTest, IsTheKernels) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  const std::string name = kernel.nodename;
  EXPECT_EQ(HostName(), name.empty() ? "unknown" : name);
}

TEST(UserNameTest, IsThatOfTheEffectiveUserWhateverTheEnvironmentSays) {
  const std::string name = UserName();
  EXPECT_FALSE(name.empty());
  EXPECT_TRUE(::geteuid() != 0 || name == "root") << name;
  ::setenv("USER", "someone else", 1);
  ::setenv("LOGNAME", "someone else", 1);
  EXPECT_EQ(UserName(), name);
}

// A child, since there is no way back to the name.
TEST(UserNameTest, AUserWithoutANameHasItsNumber) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  EXPECT_EXIT(
      {
        if (::seteuid(3456789) != 0) std::_Exit(2);
        std::_Exit(UserName() == "uid-3456789" ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace cairn
