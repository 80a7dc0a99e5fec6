// A daemon's core with one client, whose datasets go to a prefix on a disk in memory.
#ifndef CAIRN_TESTS_DAEMON_CORE_FLUSH_FIXTURE_H_
#define CAIRN_TESTS_DAEMON_CORE_FLUSH_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "tests/daemon/core/fake_client.h"
#include "tests/support/fake_disk.h"

namespace cairn {

class FlushFixture : public ::testing::Test {
 protected:
  void Start() {
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({}), local::OK, "");
  }
  void TearDown() override { client_ = nullptr; }
  // At `local`. The first dataset of a prefix has id 1.
  DatasetId Make(std::uint64_t step) {
    const local::Reply done = client_->Checkpoint(step, memory_);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client_->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }

  const Memory memory_ = {ValueOf(1, "step", 7), PlainOf(2, RandomBytes(2, 1'500'000))};
  FakeDisk prefix_disk_;
  CoreHarness harness_{nullptr, &prefix_disk_};
  std::unique_ptr<FakeClient> client_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_FLUSH_FIXTURE_H_
