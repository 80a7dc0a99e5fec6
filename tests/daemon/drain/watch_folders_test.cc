#include "daemon/drain/watch_folders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/ioprio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/io_priorities.h"

namespace cairn {
namespace {

using ::testing::Contains;

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

  // Of the folder `from`; without a state: it is not told of.
  admin::DrainStatus Status(const std::string& from) const {
    admin::StatusReply reply;
    folders_.Describe(reply);
    for (const admin::DrainStatus& status : reply.drains()) {
      if (status.from() == folder_ + "/" + from) return status;
    }
    return {};
  }
  void WaitForState(const std::string& from, const std::string& state) const {
    for (int i = 0; i < 3000 && Status(from).state() != state; ++i) ::usleep(10'000);
    EXPECT_EQ(Status(from).state(), state) << Status(from).DebugString();
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

std::vector<int> ThreadsHere() {
  std::vector<int> threads;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.push_back(std::stoi(task.path().filename()));
  }
  return threads;
}

// By the kernel: the nice values and I/O priorities of this process's threads but for `others`.
std::vector<std::pair<int, long>> PrioritiesHere(const std::vector<int>& others) {
  std::vector<std::pair<int, long>> here;
  for (const int id : ThreadsHere()) {
    if (std::ranges::find(others, id) != others.end()) continue;
    const int nice = ::getpriority(PRIO_PROCESS, static_cast<id_t>(id));
    const long io = ::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, id);
    if (nice != -1 && io != -1) here.emplace_back(nice, io);  // it may have ended meanwhile
  }
  return here;
}

TEST_F(WatchFoldersTest, ItsThreadsHaveThePrioritiesOfItsSettings) {
  if (!MaySetIoPriority()) GTEST_SKIP() << "ioprio_set is refused here";
  const std::vector<int> before = ThreadsHere();
  for (const char* name : {"a", "a-to", "b", "b-to"}) Make(name);
  DrainFolder set = Folder("b", "b-to");
  set.nice = 7;
  set.io_priority = "idle";
  folders_.Set({Folder("a", "a-to"), set});
  WaitForState("a", "idle");
  WaitForState("b", "idle");
  const auto here = PrioritiesHere(before);
  EXPECT_THAT(here, Contains(std::pair<int, long>(19, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7))));
  EXPECT_THAT(here, Contains(std::pair<int, long>(7, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0))));
  EXPECT_EQ(std::ranges::count(here, 0, &std::pair<int, long>::first), 0);
}

TEST_F(WatchFoldersTest, TellsOfEachFolderWhatItIsDoing) {
  for (const char* name : {"a", "a-to", "b-to"}) Make(name);
  folders_.Set({Folder("b", "b-to"), Folder("a", "a-to")});
  WaitForState("a", "idle");
  WaitForState("b", "failed");
  EXPECT_NE(Status("b").trouble(), "");
  EXPECT_EQ(Status("b").to(), folder_ + "/b-to");
  Put("a/file");
  WaitFor("a-to/file");
  WaitForState("a", "idle");
  EXPECT_EQ(Status("a").files(), 1U);
  EXPECT_EQ(Status("a").bytes(), 6U);
  // What somebody writes to waits, and is told of.
  std::ofstream writer(folder_ + "/a/open");
  writer << "some" << std::flush;
  WaitForState("a", "waiting");
  for (int i = 0; i < 3000 && Status("a").waits_first() != "open"; ++i) ::usleep(10'000);
  EXPECT_EQ(Status("a").waits_why(), "somebody has it open for writing");
  EXPECT_EQ(Status("a").files_left(), 1U);
  EXPECT_EQ(Status("a").bytes_left(), 4U);
  // What was brought adds up, also over a target that has gone and come back.
  std::filesystem::rename(folder_ + "/a-to", folder_ + "/away");
  WaitForState("a", "failed");
  std::filesystem::rename(folder_ + "/away", folder_ + "/a-to");
  writer.close();
  WaitFor("a-to/open");
  WaitForState("a", "idle");
  EXPECT_EQ(Status("a").files(), 2U);
  EXPECT_EQ(Status("a").files_left(), 0U);
  EXPECT_EQ(Status("a").trouble(), "");
  Make("b");
  WaitForState("b", "idle");
}

TEST_F(WatchFoldersTest, OneThatIsNoLongerAskedForIsToldOfUntilItHasEnded) {
  for (const char* name : {"a", "a-to"}) Make(name);
  folders_.Set({Folder("a", "a-to")});
  WaitForState("a", "idle");
  folders_.Set({});
  const std::string state = Status("a").state();
  EXPECT_TRUE(state.empty() || state == "ending") << state;
  EXPECT_TRUE(folders_.WaitForEnd(30'000));
  EXPECT_EQ(Status("a").state(), "");
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
