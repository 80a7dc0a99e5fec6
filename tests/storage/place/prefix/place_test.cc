// Where in a prefix the application's files may go, whatever links there are. On the machine's disk: links are
// resolved by the system.
#include "storage/place/prefix/place.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "storage/base/status.h"
#include "storage/io/posix_disk.h"
#include "storage/place/prefix/prefix.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using enum absl::StatusCode;

class PlaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::canonical(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    for (const std::string name : {".scr", ".cairn", "ckpt.5", "ckpt.5.bp", "sub/deep"}) {
      fs::create_directories(prefix() + "/" + name);
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string prefix() const { return (root_ / "run").string(); }
  void Link(const std::string& name, const std::string& target) {
    fs::create_directory_symlink(target, prefix() + "/" + name);
  }
  absl::StatusOr<std::string> Place(const std::string& name) { return RealPlace(*disk_, prefix(), name); }

  fs::path root_;
  std::unique_ptr<Disk> disk_ = MakePosixDisk();
};

TEST_F(PlaceTest, AFileIsWhereItsDirectoryReallyIs) {
  Link("l", "sub");
  Link("sub/up", "..");
  EXPECT_EQ(*Place("x"), "x");
  EXPECT_EQ(*Place("sub/new/x"), "sub/new/x");
  EXPECT_EQ(*Place("l/x"), "sub/x");
  EXPECT_EQ(*Place("l/deep/x"), "sub/deep/x");
  EXPECT_EQ(*Place("l/up/x"), "x");
  EXPECT_EQ(*Place("l/up/l/new/x"), "sub/new/x");
  EXPECT_EQ(*RealDirectory(*disk_, prefix(), "l/up/sub"), "sub");
}

TEST_F(PlaceTest, NoLinkLeadsToTheRecords) {
  Link("l", prefix());
  Link("m", "ckpt.5");
  Link("s", ".scr");
  for (const std::string name : {"l/.scr/index.scr", "l/.cairn/run", "l/.cairn/new/x", "l/ckpt.5/files/x",
                                 "l/ckpt.77/adopting/x", "l/ckpt.5.bp/x", "s/halt.scr", "l/l/s/x"}) {
    EXPECT_STATUS(kFailedPrecondition, Place(name), "belongs to the records");
    EXPECT_STATUS(kFailedPrecondition, RealDirectory(*disk_, prefix(), name.substr(0, name.rfind('/'))), "records");
  }
  for (const std::string name : {"m/Ckpt5-Rank0.fti", "m/rank_0.cat", "l/ckpt.77/rank_0.cat"}) {
    EXPECT_STATUS(kFailedPrecondition, Place(name), "belongs to the records");
  }
  EXPECT_EQ(*Place("m/rank_0.ckpt"), "ckpt.5/rank_0.ckpt");
  EXPECT_OK(Place("l/ckpt.five/x"));
  EXPECT_OK(Place("l/sub/.scr"));
}

TEST_F(PlaceTest, NoLinkLeadsOutOrNowhereAndNothingIsInTheWay) {
  Link("out", root_.string());
  Link("nowhere", "missing");
  std::ofstream(prefix() + "/file") << "bytes";
  EXPECT_STATUS(kFailedPrecondition, Place("out/x"), "outside the prefix");
  EXPECT_STATUS(kFailedPrecondition, Place("nowhere/x"), "leads nowhere");
  EXPECT_STATUS(kFailedPrecondition, Place("file/x"), "in the way");
  EXPECT_STATUS(kFailedPrecondition, Place("sub"), "in the way: a directory");
  EXPECT_OK(Place("file"));
}

TEST_F(PlaceTest, TwoNamesThroughALinkAreOneFile) {
  Link("l", "sub");
  Link("out", root_.string());
  RealNames real(*disk_, prefix());
  EXPECT_EQ(real.Of("l/x"), "sub/x");
  EXPECT_EQ(real.Of("l/deep/y"), "sub/deep/y");
  EXPECT_EQ(real.Of("x"), "x");
  EXPECT_EQ(real.Of("out/x"), "out/x");

  fs::remove_all(prefix() + "/.cairn");  // a prefix makes its own
  ASSERT_OK_AND_ASSIGN(const auto opened, Prefix::Open(*disk_, prefix()));
  const auto commit = [&](DatasetId id, const std::string& name) {
    std::ofstream(prefix() + "/" + name) << id;
    scr::Descriptor descriptor = TestDescriptor(id, 1);
    descriptor.own_files = true;
    catalogue::Catalogue catalogue = EmptyCatalogue(opened->run(), id, 0, 1);
    catalogue.set_files(true);
    *catalogue.add_file() = TestEntry(name, name, std::to_string(id));
    EXPECT_OK(opened->Commit(descriptor, {catalogue}));
    return std::vector<catalogue::Catalogue>{catalogue};
  };
  commit(1, "sub/x");
  ASSERT_OK_AND_ASSIGN(const auto withdrawn, opened->Withdraw(2, {"l/x"}));
  EXPECT_TRUE(withdrawn.contains(1));
  const auto third = commit(3, "l/y");
  commit(4, "sub/y");
  ASSERT_OK(opened->Remove(3, third));  // the file is 4's by now
  EXPECT_TRUE(fs::exists(prefix() + "/sub/y"));
}

}  // namespace
}  // namespace cairn
