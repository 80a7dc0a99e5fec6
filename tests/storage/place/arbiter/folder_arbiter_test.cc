// The prefix' own folder as an arbiter: on a disk that forgets what was not synced, with each way of making a name
// once, and on a real one.
#include "storage/place/arbiter/folder_arbiter.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tests/storage/place/arbiter/arbiter_contract.h"
#include "tests/storage/place/arbiter/arbiter_site.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

ArbiterSiteMaker Folder(std::string name, std::function<std::unique_ptr<ArbiterPlace>()> place) {
  const auto open = [](Disk& disk, const std::string& prefix, int) { return MakeFolderArbiter(disk, prefix); };
  return {.name = std::move(name), .make = [=] { return std::make_unique<ArbiterSite>(place(), open); }};
}

INSTANTIATE_TEST_SUITE_P(Folder, ArbiterContractTest,
                         ::testing::Values(Folder("Links", [] { return MakeFakePlace(); }),
                                           Folder("NoLinks", [] { return MakeFakePlace({.links = false}); }),
                                           Folder("NoLinksNoNewNames",
                                                  [] { return MakeFakePlace({.links = false, .renames_new = false}); }),
                                           Folder("Posix", [] { return MakePosixPlace(); })),
                         NameOfSite);

class FolderArbiterTest : public ::testing::Test {
 protected:
  FolderArbiterTest() { EXPECT_OK(MakeDirectories(disk_, "/run/.cairn")); }

  FakeDisk disk_;
  const std::unique_ptr<Arbiter> arbiter_ = MakeFolderArbiter(disk_, "/run");
};

TEST_F(FolderArbiterTest, AfterAPowerFailureAtAnyOperationTheRecordIsWholeOrNotThere) {
  bool crashed = true;
  for (std::uint64_t n = 1; crashed; ++n) {
    const std::string name = fmt::format("launch.{}", n);
    disk_.SyncAll();
    disk_.CrashAt(n);
    const absl::Status made = arbiter_->Create(name, "a record");
    crashed = disk_.crashed();
    EXPECT_EQ(made.ok(), !crashed) << n;
    disk_.Restart(/*seed=*/n);
    const auto record = ReadOnce(disk_, "/run/.cairn/" + name, 100);
    if (made.ok() || !absl::IsNotFound(record.status())) {
      ASSERT_OK(record);
      EXPECT_EQ(*record, "a record") << n;
    }
  }
}

// Whoever made it may have died just then.
TEST_F(FolderArbiterTest, ARecordIsDurableInAFolderThatWasNot) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string prefix = fmt::format("/run/{}", seed);
    ASSERT_OK(MakeDirectories(disk_, prefix));
    ASSERT_OK(disk_.MakeDirectory(prefix + "/.cairn", 0700));
    ASSERT_OK(MakeFolderArbiter(disk_, prefix)->Create("launch.1", "a record"));
    disk_.Restart(seed);
    ASSERT_OK_AND_ASSIGN(const auto record, ReadOnce(disk_, prefix + "/.cairn/launch.1", 100));
    EXPECT_EQ(record, "a record");
  }
}

TEST_F(FolderArbiterTest, WithoutItsFolderThereAreNoNames) {
  ASSERT_OK(RemoveTree(disk_, "/run/.cairn"));
  ASSERT_OK_AND_ASSIGN(const auto names, arbiter_->Names());
  EXPECT_TRUE(names.empty());
  EXPECT_STATUS(absl::StatusCode::kNotFound, arbiter_->Create("launch.1", "x"), "");
}

TEST_F(FolderArbiterTest, WhatIsNoLeaseReadsAsEmpty) {
  ASSERT_OK(disk_.MakeDirectory("/run/.cairn/launch.1.1.lease", 0700));
  EXPECT_EQ(*arbiter_->ReadLease("launch.1.1.lease", 100), "");
}

}  // namespace
}  // namespace cairn
