// Files whose sync has failed: storage/io/lost_syncs.h.
#include "storage/io/lost_syncs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "storage/io/disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

class LostSyncsTest : public ::testing::Test {
 protected:
  std::unique_ptr<File> Open(const std::string& path) {
    auto file = disk_.Open(path, {.writable = true, .create = true});
    EXPECT_OK(file);
    return *std::move(file);
  }
  FileInfo InfoOf(const std::string& path) { return disk_.Info(path).value_or(FileInfo()); }

  FakeDisk disk_;
};

TEST_F(LostSyncsTest, AFailedSyncIsRememberedUntilAllOfTheFileIsWrittenAnewAndSynced) {
  const auto file = Open("/a");
  Open("/b");
  EXPECT_FALSE(HasLostSync(InfoOf("/a")));
  disk_.FailOn({.op = FakeOp::kSync, .times = 2});
  EXPECT_STATUS(kUnavailable, SyncOrDistrust(*file), "");
  EXPECT_STATUS(kUnavailable, SyncOrDistrust(*file, /*written_anew=*/true), "");
  EXPECT_TRUE(HasLostSync(InfoOf("/a")));
  EXPECT_FALSE(HasLostSync(InfoOf("/b")));
  EXPECT_OK(SyncOrDistrust(*file));
  EXPECT_TRUE(HasLostSync(InfoOf("/a"))) << "this sync is good whatever the first one has lost";
  ASSERT_OK(disk_.Rename("/a", "/c"));
  EXPECT_TRUE(HasLostSync(InfoOf("/c"))) << "under any name";
  EXPECT_OK(SyncOrDistrust(*file, /*written_anew=*/true));
  EXPECT_FALSE(HasLostSync(InfoOf("/c")));
}

TEST_F(LostSyncsTest, AFileThatIsGoneIsForgotten) {
  const auto file = Open("/a");
  disk_.FailOn({.op = FakeOp::kSync});
  EXPECT_STATUS(kUnavailable, SyncOrDistrust(*file), "");
  const FileInfo info = InfoOf("/a");
  ForgetLostSync(info);
  EXPECT_FALSE(HasLostSync(info));
}

// Which file would lose it is not known then.
TEST_F(LostSyncsTest, AFileThatDoesNotSayWhichItIsIsNotSynced) {
  const auto file = Open("/a");
  std::size_t syncs = 0;
  disk_.SetHook([&](FakeOp op, const std::string&) { syncs += op == FakeOp::kSync; });
  disk_.FailOn({.op = FakeOp::kFileInfo});
  EXPECT_STATUS(kUnavailable, SyncOrDistrust(*file), "");
  EXPECT_EQ(syncs, 0u);
}

}  // namespace
}  // namespace cairn
