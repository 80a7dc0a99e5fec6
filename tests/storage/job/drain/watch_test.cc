#include "storage/job/drain/watch.h"

#include <absl/synchronization/mutex.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

using testing::DrainFixture;

class WatchTest : public DrainFixture {
 protected:
  WatchTest() {
    options_.settle_ms.reset();  // only what was seen being closed
    watch_.gather_ms = 20;
    watch_.look_ms = 500;
    watch_.retry_ms_max = 200;
    watch_.passed = [this](const DrainReport&) {
      const absl::MutexLock lock(&mutex_);
      ++passes_;
    };
    watch_.trouble = [this](const absl::Status& status) {
      const absl::MutexLock lock(&mutex_);
      troubles_.push_back(status);
    };
  }
  ~WatchTest() override { End(); }

  void Begin() {
    watch_.drain = options_;
    thread_ = std::thread([this] { WatchAndDrain(*disk_, watch_, stop_); });
    WaitUntil([this] {
      const absl::MutexLock lock(&mutex_);
      return passes_ > 0 || !troubles_.empty();
    });
  }
  void End() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  static void WaitUntil(const std::function<bool()>& is) {
    for (int i = 0; i < 3000 && !is(); ++i) ::usleep(10'000);
    EXPECT_TRUE(is());
  }

  DrainWatchOptions watch_;
  absl::Mutex mutex_;
  int passes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<absl::Status> troubles_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

TEST_F(WatchTest, AFileIsBroughtWhenItsWriterClosesItAndNotBefore) {
  std::filesystem::create_directory(from_ + "/sub");
  Begin();
  Put("seen", "seen");
  Put("sub/seen", "there, too");
  WaitUntil([this] { return IsThere("seen") && IsThere("sub/seen"); });
  Put("new/folder/seen", "in a folder that came later");
  Put("new/folder/second", "and another");
  std::ofstream open(from_ + "/open");
  open << "half" << std::flush;
  Put("after", "after");
  WaitUntil([this] { return IsThere("after"); });
  EXPECT_FALSE(IsThere("open"));
  open << " and half";
  open.close();
  WaitUntil([this] { return IsThere("open"); });
  EXPECT_EQ(At("open"), "half and half");
}

TEST_F(WatchTest, WhatWasThereBeforeIsNotSeenAndWaitsForAnotherSign) {
  Put("before", "before");
  Begin();
  Put("seen", "seen");
  WaitUntil([this] { return IsThere("seen"); });
  EXPECT_FALSE(IsThere("before"));
}

TEST_F(WatchTest, AFileThatIsRenamedAfterItsWriterHasClosedIt) {
  Begin();
  Put("name.tmp", "bytes");
  std::filesystem::rename(from_ + "/name.tmp", from_ + "/name");
  WaitUntil([this] { return IsThere("name"); });
}

TEST_F(WatchTest, AFolderThatVanishesAndComesBack) {
  Begin();
  Put("first", "1");
  WaitUntil([this] { return IsThere("first"); });
  std::filesystem::remove_all(from_);
  WaitUntil([this] {
    const absl::MutexLock lock(&mutex_);
    return !troubles_.empty() && absl::IsNotFound(troubles_.back());
  });
  std::filesystem::create_directory(from_);
  WaitUntil([this] {
    const absl::MutexLock lock(&mutex_);
    return troubles_.back().ok();
  });
  Put("second", "2");
  WaitUntil([this] { return IsThere("second"); });
  EXPECT_EQ(At("first"), "1");
}

TEST_F(WatchTest, ATargetThatIsNotThereYet) {
  std::filesystem::remove(to_);
  Begin();
  std::filesystem::create_directory(to_);
  WaitUntil([this] {
    const absl::MutexLock lock(&mutex_);
    return !troubles_.empty() && troubles_.back().ok();
  });
  Put("file", "x");
  WaitUntil([this] { return IsThere("file"); });
}

TEST_F(WatchTest, ATargetThatIsMovedAwayIsNotWrittenToWhereItIsNow) {
  options_.settle_ms = 0;
  options_.delete_source = true;
  Begin();
  Put("a/first", "1");
  WaitUntil([this] { return Files(from_).empty(); });
  std::filesystem::rename(to_, folder_ + "/to.old");
  std::filesystem::create_directory(to_);
  Put("a/second", "2");
  WaitUntil([this] { return Files(from_).empty(); });
  EXPECT_EQ(At("a/second"), "2");
  EXPECT_EQ(Files(folder_ + "/to.old").size(), 1U);
}

TEST_F(WatchTest, ATargetThatIsMadeAnewIsWrittenTo) {
  options_.settle_ms = 0;
  Begin();
  Put("first", "1");
  WaitUntil([this] { return IsThere("first"); });
  std::filesystem::remove_all(to_);
  std::filesystem::create_directory(to_);
  Put("second", "2");
  WaitUntil([this] { return IsThere("second"); });
}

TEST_F(WatchTest, AFolderOfTheTargetThatIsMovedAwayIsNotWrittenToWhereItIsNow) {
  options_.settle_ms = 0;
  options_.delete_source = true;
  Begin();
  Put("a/first", "1");
  WaitUntil([this] { return Files(from_).empty(); });
  std::filesystem::rename(to_ + "/a", to_ + "/a.old");
  Put("a/second", "2");
  WaitUntil([this] { return Files(from_).empty(); });
  EXPECT_EQ(At("a/second"), "2");
  EXPECT_FALSE(IsThere("a.old/second"));
  std::filesystem::remove_all(to_ + "/a");
  std::filesystem::create_directory(to_ + "/a");
  Put("a/third", "3");
  WaitUntil([this] { return Files(from_).empty(); });
  EXPECT_EQ(At("a/third"), "3");
}

TEST_F(WatchTest, MakesRoomWhileItWatches) {
  options_.delete_source = true;
  Begin();
  for (int i = 0; i < 20; ++i) Put("f" + std::to_string(i), "bytes " + std::to_string(i));
  WaitUntil([this] { return Files(from_).empty(); });
  EXPECT_EQ(Files(to_).size(), 20U);
  // The same name again, with other bytes.
  Put("f3", "other bytes");
  WaitUntil([this] { return Files(from_).empty(); });
  EXPECT_EQ(At("f3"), "other bytes");
}

}  // namespace
}  // namespace cairn
