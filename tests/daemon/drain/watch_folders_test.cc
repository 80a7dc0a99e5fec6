#include "daemon/drain/watch_folders.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

namespace cairn {
namespace {

class WatchFoldersTest : public ::testing::Test {
 protected:
  WatchFoldersTest() {
    std::string folder = ::testing::TempDir() + "folders-XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) std::abort();
    folder_ = std::filesystem::canonical(folder).string();
  }
  ~WatchFoldersTest() override {
    folders_.Stop();
    EXPECT_TRUE(folders_.WaitForEnd(30'000));
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  std::string Make(const std::string& name) const {
    std::filesystem::create_directory(folder_ + "/" + name);
    return folder_ + "/" + name;
  }
  DrainFolder Folder(const std::string& from, const std::string& to) const {
    return {.from = folder_ + "/" + from, .to = folder_ + "/" + to, .settle_ms = 0, .marker = {}, .look_ms = 100};
  }
  void Put(const std::string& name) const { std::ofstream(folder_ + "/" + name) << name; }
  void WaitFor(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    for (int i = 0; i < 3000 && !std::filesystem::exists(path); ++i) ::usleep(10'000);
    EXPECT_TRUE(std::filesystem::exists(path)) << name;
  }

  std::string folder_;
  WatchFolders folders_;
};

TEST_F(WatchFoldersTest, OneThatIsNotThereHoldsUpNoOther) {
  Make("a");
  Make("a-to");
  Make("b-to");
  folders_.Set({Folder("b", "b-to"), Folder("a", "a-to")});
  Put("a/file");
  WaitFor("a-to/file");
  Make("b");  // and it goes on when it is there
  Put("b/file");
  WaitFor("b-to/file");
  std::filesystem::remove_all(folder_ + "/a");
  Put("b/second");
  WaitFor("b-to/second");
}

TEST_F(WatchFoldersTest, FoldersMayBeNamedByLinks) {
  Make("real");
  Make("real-to");
  std::filesystem::create_directory_symlink("real", folder_ + "/a");
  std::filesystem::create_directory_symlink("real-to", folder_ + "/a-to");
  DrainFolder folder = Folder("a", "a-to");
  folder.settle_ms.reset();  // the news come, too
  folders_.Set({folder});
  ::usleep(300'000);
  Put("real/file");
  WaitFor("real-to/file");
}

TEST_F(WatchFoldersTest, AReloadBeginsEndsAndChangesThem) {
  for (const char* name : {"a", "a-to", "a-other", "b", "b-to"}) Make(name);
  folders_.Set({Folder("a", "a-to")});
  Put("a/one");
  WaitFor("a-to/one");
  folders_.Set({Folder("a", "a-other"), Folder("b", "b-to")});
  Put("a/two");
  Put("b/three");
  WaitFor("a-other/two");
  WaitFor("b-to/three");
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/a-to/two"));
  folders_.Set({});
  EXPECT_TRUE(folders_.WaitForEnd(30'000));
  Put("b/four");
  ::usleep(300'000);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/b-to/four"));
}

}  // namespace
}  // namespace cairn
