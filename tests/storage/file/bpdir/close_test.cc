// A directory that nobody brings steps to any more: Close in storage/file/bpdir/follow.h.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "storage/base/path.h"
#include "storage/file/bpdir/append.h"
#include "storage/file/bpdir/follow.h"
#include "storage/io/create_once.h"
#include "storage/io/disk.h"
#include "tests/storage/file/bpdir/follow_fixture.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

class CloseTest : public FollowTest {
 protected:
  void Spoil(const std::string& name, const std::string& bytes) {
    const std::string path = At(kTo, name);
    ASSERT_OK(WriteSynced(*target_.Open(path, {.writable = true}).value(), Read(target_, path).size(), bytes));
  }
};

TEST_F(CloseTest, WhatIsBehindTheLastWholeStepGoes) {
  Write(3);
  ASSERT_OK(follower_.Step());
  std::map<std::string, std::string> before;
  for (const char* name : {"md.0", "mmd.0", "data.0", "data.1"}) before[name] = Read(target_, At(kTo, name));
  Spoil("md.idx", std::string("s\x20\0\0\0\0\0\0\0 and", 13));
  Spoil("md.0", "half of a step");
  Spoil("mmd.0", std::string(100, '\0'));
  Spoil("data.0", "of a step");
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(3);
  EXPECT_FALSE(IsActive(target_, kTo));
  for (const auto& [name, bytes] : before) EXPECT_TRUE(Read(target_, At(kTo, name)) == bytes) << name;
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(3);
}

TEST_F(CloseTest, RecordsThatAreNotSoundGoWithAllBehindThem) {
  Write(3);
  ASSERT_OK(follower_.Step());
  Spoil("md.idx", std::string(64, '\0'));
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(3);
}

TEST_F(CloseTest, AStepWithoutItsDataGoes) {
  Write(3);
  ASSERT_OK(follower_.Step());
  ASSERT_OK(CutFile(target_, At(kTo, "data.1"), 4800 + 4800 + 100));
  ASSERT_OK(Close(target_, kTo));
  ExpectShows(2);
}

TEST_F(CloseTest, WithoutAStepNothingIsLeft) {
  ASSERT_OK(MakeDirectories(target_, kTo));
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "data.0"), "bytes"));
  ASSERT_OK(CreateFileOnce(target_, At(kTo, "md.idx") + std::string(kWorkSuffix) + "0123456789abcdef", "half"));
  ASSERT_OK(Close(target_, kTo));
  EXPECT_STATUS(absl::StatusCode::kNotFound, target_.Info(kTo), "");
  EXPECT_OK(Close(target_, kTo));
}

TEST_F(CloseTest, WhateverAPowerFailureTakesItCanBeDoneAgain) {
  for (std::uint64_t n = 1;; ++n) {
    Scene scene;
    ASSERT_OK(scene.job.Create(7));
    for (int i = 0; i < 3; ++i) ASSERT_OK(scene.job.Step());
    ASSERT_OK(scene.follower.Step());
    for (const char* name : {"md.idx", "md.0", "data.0"}) {
      const std::string path = At(kTo, name);
      ASSERT_OK(
          WriteSynced(*scene.target.Open(path, {.writable = true}).value(), Read(scene.target, path).size(), "s"));
    }
    scene.target.CrashAt(n);
    const bool closed = Close(scene.target, kTo).ok();
    if (closed) break;
    scene.target.Restart(n);
    EXPECT_EQ(WholeSteps(scene.target, kTo).value_or(0), 3u) << n;
    ASSERT_OK(Close(scene.target, kTo)) << n;
    EXPECT_EQ(WholeSteps(scene.target, kTo).value_or(0), 3u) << n;
    EXPECT_FALSE(IsActive(scene.target, kTo));
  }
}

}  // namespace
}  // namespace cairn::bpdir
