#include "daemon/bulk/windows.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/bulk/frame.h"

namespace cairn {
namespace {

class WindowsTest : public ::testing::Test {
 protected:
  void Get(const std::string& who) {
    windows_->Get([this, who](Windows::Window window) {
      granted_ += who;
      held_.push_back(std::move(window));
    });
  }
  void GiveBackOldest() {
    const Windows::Window gone = std::move(held_.front());
    held_.erase(held_.begin());
  }

  const std::shared_ptr<Windows> windows_ = std::make_shared<Windows>(/*windows_max=*/2, /*kept_max=*/1);
  std::string granted_;
  std::vector<Windows::Window> held_;
};

TEST_F(WindowsTest, WhoComesWhenAllAreInUseWaitsForItsTurn) {
  for (const char* who : {"a", "b", "c", "d"}) Get(who);
  EXPECT_EQ(granted_, "ab");
  EXPECT_EQ(held_[0].bytes().size(), kWindowBytesMax);
  EXPECT_NE(held_[0].bytes().data(), held_[1].bytes().data());
  GiveBackOldest();
  EXPECT_EQ(granted_, "abc");
  GiveBackOldest();
  EXPECT_EQ(granted_, "abcd");
  GiveBackOldest();
  GiveBackOldest();
  Get("e");
  EXPECT_EQ(granted_, "abcde");
}

TEST_F(WindowsTest, MemoryIsUsedAgain) {
  Get("a");
  const void* const memory = held_[0].bytes().data();
  GiveBackOldest();
  Get("b");
  EXPECT_EQ(held_[0].bytes().data(), memory);
}

TEST_F(WindowsTest, NobodyIsGrantedOneOnceClosed) {
  for (const char* who : {"a", "b", "c"}) Get(who);
  windows_->Close();
  GiveBackOldest();
  Get("d");
  EXPECT_EQ(granted_, "ab");
}

}  // namespace
}  // namespace cairn
