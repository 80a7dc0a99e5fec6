// A folder whose file system hangs holds up no other, and not the end of the daemon.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "daemon/drain/watch_folders.h"
#include "tests/support/fuse/fuse_test.h"

namespace cairn {
namespace {

class HungFolderTest : public FuseTest {
 protected:
  static DrainFolder Folder(const std::string& from, const std::string& to) {
    return {.from = from, .to = to, .settle_ms = 0, .marker = {}, .look_ms = 100};
  }
  static void Put(const std::string& path) { std::ofstream(path) << path; }
  static void WaitUntil(const std::function<bool()>& is) {
    for (int i = 0; i < 3000 && !is(); ++i) ::usleep(10'000);
    EXPECT_TRUE(is());
  }
};

TEST_F(HungFolderTest, HoldsUpNoOtherAndIsLeftBehind) {
  CAIRN_MOUNT_OR_SKIP({});
  for (const char* name : {"from", "to", "other", "other-to"}) std::filesystem::create_directory(Real(name));
  folder().Hang({.opcode = FUSE_WRITE, .times = UINT32_MAX});
  WatchFolders folders;
  folders.Set({Folder(Real("from"), Shown("to")), Folder(Real("other"), Real("other-to"))});
  Put(Real("from") + "/file");
  WaitUntil([&] { return folder().hanging() > 0; });
  // Nobody waits for it to tell so.
  admin::StatusReply reply;
  folders.Describe(reply);
  ASSERT_EQ(reply.drains_size(), 2);
  EXPECT_EQ(reply.drains(0).state(), "starting");  // of its journal
  EXPECT_EQ(reply.drains(0).files(), 0U);
  Put(Real("other") + "/file");
  WaitUntil([&] { return std::filesystem::exists(Real("other-to") + "/file"); });
  folders.Stop();
  EXPECT_FALSE(folders.WaitForEnd(500));
  reply.Clear();
  folders.Describe(reply);
  EXPECT_EQ(reply.drains(0).state(), "ending");
  EXPECT_FALSE(std::filesystem::exists(Real("to") + "/file"));
  folder().Release();
  EXPECT_TRUE(folders.WaitForEnd(30'000));
}

}  // namespace
}  // namespace cairn
