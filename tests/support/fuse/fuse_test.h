// A test on a FuseFolder: real and shown folder, mounted when the test says how, unmounted and gone at its end.
#ifndef CAIRN_TESTS_SUPPORT_FUSE_FUSE_TEST_H_
#define CAIRN_TESTS_SUPPORT_FUSE_FUSE_TEST_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "storage/base/status.h"
#include "tests/support/fuse/fuse_folder.h"

namespace cairn {

// Where the machine cannot mount, the test is skipped with the reason; in CI as root it fails.
#define CAIRN_MOUNT_OR_SKIP(...)                                                    \
  do {                                                                              \
    if (const ::absl::Status mounted_ = MountFolder(__VA_ARGS__); !mounted_.ok()) { \
      const char* const ci_ = std::getenv("CI");                                    \
      if (ci_ != nullptr && std::string_view(ci_) == "true" && ::geteuid() == 0) {  \
        FAIL() << "CI as root must be able to mount: " << mounted_.ToString();      \
      }                                                                             \
      GTEST_SKIP() << "no file system of its own here: " << mounted_.ToString();    \
    }                                                                               \
  } while (false)

class FuseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/fuse.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    std::filesystem::create_directories(root_ + "/real");
    std::filesystem::create_directories(root_ + "/shown");
  }
  void TearDown() override {
    Unmount();
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }

  absl::Status MountFolder(const FuseOptions& options) {
    auto folder = FuseFolder::Mount(Real(""), Shown(""), options);
    if (folder.ok()) folder_ = *std::move(folder);
    return folder.status();
  }
  void Unmount() { folder_.reset(); }
  FuseFolder& folder() { return *folder_; }
  std::string Real(const std::string& name) const { return root_ + "/real" + (name.empty() ? "" : "/") + name; }
  std::string Shown(const std::string& name) const { return root_ + "/shown" + (name.empty() ? "" : "/") + name; }

 private:
  std::string root_;
  std::unique_ptr<FuseFolder> folder_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_FUSE_FUSE_TEST_H_
