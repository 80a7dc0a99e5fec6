// A daemon's core with one client whose memory changes a little in each step, for tests of differential checkpoints.
#ifndef CAIRN_TESTS_DAEMON_CORE_REUSE_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_REUSE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {

inline constexpr std::uint64_t kMiB = 1 << 20;
inline constexpr std::uint64_t kLittle = 64 << 10;  // a few changed blocks and metadata

class ReuseTest : public ::testing::Test {
 protected:
  explicit ReuseTest(FakeDiskOptions options = {.direct = true}) : disk_(options) { harness_.config.cache.keep = 1; }
  void Start() {
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({}), local::OK, "");
  }
  void TearDown() override { client_ = nullptr; }

  // What the application has at a step: a little changes in each.
  static Memory MemoryAt(std::uint64_t step) {
    std::string large = RandomBytes(1, 3 * kMiB);
    for (std::uint64_t done = 1; done <= step; ++done)
      large.replace(done * 7919 * 13 % (2 * kMiB), 8, RandomBytes(done, 8));
    return {ValueOf(1, "step", step), PlainOf(2, std::move(large))};
  }
  DatasetId Commit(std::uint64_t step) {
    const local::Reply done = client_->Checkpoint(step, MemoryAt(step));
    EXPECT_SAYS(done, local::OK, "");
    return done.committed().dataset();
  }
  DatasetId Make(std::uint64_t step) {
    const DatasetId id = Commit(step);
    EXPECT_SAYS(client_->Wait(id, local::LOCAL), local::OK, "");
    return id;
  }
  std::uint64_t Written(DatasetId id) { return harness_.Row(id).bytes_written(); }
  std::uint64_t Inode(DatasetId id) {
    const auto info = disk_.Info(harness_.CachedFile(id, 0));
    return info.ok() ? info->inode : 0;
  }
  bool HasFolder(DatasetId id) {
    return harness_.IsThere(disk_, harness_.CacheFolderPath() + "/scr.dataset." + std::to_string(id));
  }
  bool LosesFolder(DatasetId id) {
    return harness_.Eventually([&] { return !HasFolder(id); });
  }
  void ResumeAfterRestart() {
    const LaunchId launch = client_->launch();
    const std::string token = client_->token();
    client_ = nullptr;
    harness_.Restart();
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({.launch = launch, .token = token}), local::OK, "");
  }
  // From the files, not from an image.
  void ExpectRestores(DatasetId id, std::uint64_t step, local::Tier tier = local::TIER_CACHE) {
    if (tier == local::TIER_CACHE) ResumeAfterRestart();
    const Memory memory = MemoryAt(step);
    Memory back = Blank(memory);
    const FakeClient::Restored restored = client_->Restore(id, back);
    ASSERT_EQ(restored.code, local::OK) << restored.message;
    EXPECT_EQ(restored.tier, tier);
    EXPECT_EQ(NumberIn(back[0]), step);
    EXPECT_TRUE(back[1].bytes == memory[1].bytes);
  }

  FakeDisk disk_;
  CoreHarness harness_{&disk_, &disk_};
  std::unique_ptr<FakeClient> client_;
};

class CloneTest : public ReuseTest {
 protected:
  CloneTest() : ReuseTest({.direct = true, .shares_extents = true}) {}
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_REUSE_FIXTURE_H_
