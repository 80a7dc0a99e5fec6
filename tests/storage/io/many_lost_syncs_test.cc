// More files whose sync has failed than are remembered: storage/io/lost_syncs.h. Nothing is trusted in this process
// after that, so this test has one of its own.
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>

#include "storage/io/disk.h"
#include "storage/io/lost_syncs.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

TEST(ManyLostSyncsTest, WhenThereAreTooManyNoFileIsTrusted) {
  constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
  FakeDisk disk;
  const auto open = [&disk](const std::string& path) {
    auto file = disk.Open(path, {.writable = true, .create = true});
    EXPECT_OK(file);
    return *std::move(file);
  };
  const auto info_of = [&disk](const std::string& path) { return disk.Info(path).value_or(FileInfo()); };
  disk.FailOn({.op = FakeOp::kSync, .times = kLostSyncsMax + 1});
  for (std::size_t i = 0; i < kLostSyncsMax; ++i) {
    const std::string path = "/" + std::to_string(i);
    EXPECT_STATUS(kUnavailable, SyncOrDistrust(*open(path)), "");
  }
  open("/other");
  EXPECT_FALSE(HasLostSync(info_of("/other")));
  EXPECT_STATUS(kUnavailable, SyncOrDistrust(*open("/one_more")), "");
  EXPECT_TRUE(HasLostSync(info_of("/one_more")));
  EXPECT_TRUE(HasLostSync(info_of("/other")));
}

}  // namespace
}  // namespace cairn
