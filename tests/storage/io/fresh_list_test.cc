#include "storage/io/fresh_list.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/io/disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/stale_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;
using Names = std::vector<std::string>;

class FreshListTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(disk_.MakeDirectory("/d", 0700)); }
  void Put(const std::string& path) {
    ASSERT_OK(disk_.Open(path, {.writable = true, .create = true, .exclusive = true}).status());
  }
  FakeDisk disk_;
};

TEST_F(FreshListTest, TellsTheNamesSortedAndLeavesNothing) {
  EXPECT_EQ(FreshList(disk_, "/d").value(), Names{});
  Put("/d/look");
  Put("/d/a");
  ASSERT_OK(disk_.MakeDirectory("/d/b", 0700));
  EXPECT_EQ(FreshList(disk_, "/d").value(), (Names{"a", "b", "look"}));
  EXPECT_EQ(FreshList(disk_, "/d/").value(), (Names{"a", "b", "look"}));
  EXPECT_EQ(disk_.List("/d").value(), (Names{"a", "b", "look"}));
}

TEST_F(FreshListTest, ChangesTheDirectoryBeforeItListsAndAsksForNothingElse) {
  std::vector<FakeOp> seen;
  disk_.SetHook([&seen](FakeOp op, const std::string&) { seen.push_back(op); });
  ASSERT_OK(FreshList(disk_, "/d").status());
  EXPECT_EQ(seen, (std::vector<FakeOp>{FakeOp::kOpen, FakeOp::kRemove, FakeOp::kList}));
}

TEST_F(FreshListTest, TwoLooksUseDifferentNames) {
  std::vector<std::string> works;
  disk_.SetHook([&works](FakeOp op, const std::string& path) {
    if (op == FakeOp::kOpen) works.push_back(path);
  });
  ASSERT_OK(FreshList(disk_, "/d").status());
  ASSERT_OK(FreshList(disk_, "/d").status());
  ASSERT_EQ(works.size(), 2u);
  EXPECT_NE(works[0], works[1]);
  for (const std::string& work : works) EXPECT_TRUE(IsWorkName(BaseOf(work))) << work;
}

TEST_F(FreshListTest, SeesWhatAStaleListingHides) {
  StaleDisk client(disk_);
  EXPECT_EQ(client.List("/d").value(), Names{});
  Put("/d/a");
  EXPECT_EQ(client.List("/d").value(), Names{});
  EXPECT_EQ(FreshList(client, "/d").value(), Names{"a"});
}

TEST_F(FreshListTest, OthersWorkFilesStay) {
  const std::string other = WorkName("/d/look");
  Put(other);
  EXPECT_EQ(FreshList(disk_, "/d").value(), Names{BaseOf(other)});
  EXPECT_OK(disk_.Info(other));
}

TEST_F(FreshListTest, OurWorkFileIsNotToldEvenIfTheListingStillShowsIt) {
  std::string work;
  disk_.SetHook([this, &work](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRemove) work = path;
    if (op != FakeOp::kList) return;
    disk_.SetHook(nullptr);
    Put(work);
  });
  Put("/d/a");
  EXPECT_EQ(FreshList(disk_, "/d").value(), Names{"a"});
  EXPECT_EQ(disk_.List("/d")->size(), 2u);
}

TEST_F(FreshListTest, WhoeverClearsOurWorkFileUpDoesNoHarm) {
  disk_.SetHook([this](FakeOp op, const std::string& path) {
    if (op != FakeOp::kRemove) return;
    disk_.SetHook(nullptr);
    ASSERT_OK(disk_.Remove(path));
  });
  Put("/d/a");
  EXPECT_EQ(FreshList(disk_, "/d").value(), Names{"a"});
}

TEST_F(FreshListTest, ACrashLeavesAtMostAWorkFile) {
  Put("/d/a");
  disk_.SyncAll();
  for (std::uint64_t n = 1; n <= 3; ++n) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      disk_.CrashAt(n);
      EXPECT_STATUS(StatusCode::kUnavailable, FreshList(disk_, "/d"), "crashed");
      disk_.Restart(seed);
      ASSERT_OK_AND_ASSIGN(const Names names, disk_.List("/d"));
      for (const std::string& name : names) EXPECT_TRUE(name == "a" || IsWorkName(name)) << name;
      EXPECT_EQ(names.front(), "a");
      // The next look tells it, as it tells all that is there.
      EXPECT_EQ(FreshList(disk_, "/d").value(), names);
    }
  }
}

TEST_F(FreshListTest, ErrorsAreTheDisks) {
  EXPECT_STATUS(StatusCode::kNotFound, FreshList(disk_, "/none"), "/none");
  Put("/d/a");
  EXPECT_STATUS(StatusCode::kNotFound, FreshList(disk_, "/d/a"), "/d/a");
  disk_.FailOn({.op = FakeOp::kOpen, .status = absl::PermissionDeniedError("not yours")});
  EXPECT_STATUS(StatusCode::kPermissionDenied, FreshList(disk_, "/d"), "not yours");
  disk_.FailOn({.op = FakeOp::kOpen, .status = absl::UnavailableError("read-only")});
  EXPECT_STATUS(StatusCode::kUnavailable, FreshList(disk_, "/d"), "read-only");
  disk_.FailOn({.op = FakeOp::kList, .status = absl::UnavailableError("stale handle")});
  EXPECT_STATUS(StatusCode::kUnavailable, FreshList(disk_, "/d"), "stale handle");
  EXPECT_EQ(disk_.List("/d").value(), Names{"a"});
  disk_.FailOn({.op = FakeOp::kRemove, .status = absl::UnavailableError("EIO")});
  EXPECT_STATUS(StatusCode::kUnavailable, FreshList(disk_, "/d"), "EIO");
}

}  // namespace
}  // namespace cairn
