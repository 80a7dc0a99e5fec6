// A job that writes a BP5 directory on one disk, and another disk to which the directory is brought, for the tests of
// storage/file/bpdir/follow.h.
#ifndef CAIRN_TESTS_STORAGE_FILE_BPDIR_FOLLOW_FIXTURE_H_
#define CAIRN_TESTS_STORAGE_FILE_BPDIR_FOLLOW_FIXTURE_H_

#include <absl/status/status.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "storage/file/bpdir/append.h"
#include "storage/file/bpdir/follow.h"
#include "storage/io/disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {

inline constexpr const char* kFrom = "/cache/ds/fields.bp";
inline constexpr const char* kTo = "/prefix/run/fields.bp";

inline bool Always(std::uint64_t) {
  return true;
}

inline std::string At(const std::string& folder, const std::string& name) {
  return folder + "/" + name;
}

inline std::uint64_t InodeOf(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  return info.ok() ? info->inode : 0;
}

inline std::string Read(Disk& disk, const std::string& path) {
  return ReadWhole(disk, path, 1 << 30).value_or("nothing");
}

class FollowTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(job_.Create(7)); }
  void Write(std::uint32_t steps) {
    for (std::uint32_t i = 0; i < steps; ++i) ASSERT_OK(job_.Step());
  }
  Ends ends() { return {source_, kFrom, target_, kTo}; }
  void ExpectShows(std::uint32_t steps) {
    ASSERT_OK_AND_ASSIGN(const std::uint32_t shown, WholeSteps(target_, kTo));
    EXPECT_EQ(shown, steps);
  }
  // Cuts a file of the source, or gives it back what was cut.
  std::string CutSource(const std::string& name, std::uint64_t bytes) {
    const std::string path = At(kFrom, name), whole = Read(source_, path);
    EXPECT_OK(source_.Open(path, {.writable = true}).value()->Truncate(whole.size() - bytes));
    return whole;
  }
  void PutSource(const std::string& name, const std::string& bytes) {
    EXPECT_OK(WriteSynced(*source_.Open(At(kFrom, name), {.writable = true}).value(), 0, bytes));
  }

  FakeDisk source_, target_;
  GrowingBp5 job_{source_, kFrom};
  Follower follower_{ends(), Always};
};

// What one run of a job does on the target, with a fault somewhere.
struct Scene {
  FakeDisk source, target;
  GrowingBp5 job{source, kFrom};
  Follower follower{{source, kFrom, target, kTo}, Always};

  Scene() {
    EXPECT_OK(MakeDirectories(target, "/prefix/run"));
    target.SyncAll();
  }
  // Steps, a cut, steps. Answers whether all of it worked.
  bool Play() {
    bool good = true;
    const auto step = [&](std::uint32_t steps) {
      for (std::uint32_t i = 0; i < steps; ++i) EXPECT_OK(job.Step());
      good &= follower.Step().ok();
    };
    EXPECT_OK(job.Create(7));
    step(1);
    step(3);
    EXPECT_OK(job.CutTo(2, 4));
    step(0);
    step(2);
    EXPECT_OK(job.CutTo(1, 5));
    step(3);
    return good;
  }
};

// What is shown is whole, whatever was lost.
inline void ExpectConsistent(Disk& disk, const std::string& what) {
  const auto shown = WholeSteps(disk, kTo);
  EXPECT_TRUE(shown.ok() || absl::IsNotFound(shown.status())) << what << ": " << shown.status();
}

}  // namespace cairn::bpdir

#endif  // CAIRN_TESTS_STORAGE_FILE_BPDIR_FOLLOW_FIXTURE_H_
