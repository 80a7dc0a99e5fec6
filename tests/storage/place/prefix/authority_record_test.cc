// <prefix>/.cairn/authority.<run>: made once, for its owner's eyes.
#include "storage/place/prefix/authority_record.h"

#include <gtest/gtest.h>

#include <string>

#include "storage/file/trees/tree_file.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kAlreadyExists = absl::StatusCode::kAlreadyExists;
constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kPermissionDenied = absl::StatusCode::kPermissionDenied;

constexpr char kPrefix[] = "/pfs";

RunId RunOf(std::uint8_t byte) {
  RunId run;
  run.bytes.fill(std::byte{byte});
  return run;
}

// Names that end so are another user's.
class ForeignDisk final : public FakeDisk {
 public:
  absl::StatusOr<FileInfo> Info(const std::string& path) override {
    auto info = FakeDisk::Info(path);
    if (info.ok() && !foreign.empty() && path.ends_with(foreign)) ++info->uid;
    return info;
  }
  std::string foreign;
};

class AuthorityRecordTest : public ::testing::Test {
 protected:
  AuthorityRecordTest() {
    EXPECT_OK(MakeDirectories(disk_, kPrefix));
    disk_.SyncAll();
  }
  absl::Status Make(std::uint8_t run, const std::string& key = "key\nof lines\n") {
    return authority_record::Make(disk_, kPrefix, RunOf(run), {.key = key, .certificate = "certificate"});
  }
  absl::StatusOr<AuthorityRecord> Read(std::uint8_t run) { return authority_record::Read(disk_, kPrefix, RunOf(run)); }
  void SetMode(const std::string& path, std::uint32_t mode) {
    EXPECT_OK(disk_.SetModeAndTimes(path, mode, timespec{}, timespec{}));
  }

  ForeignDisk disk_;
  const std::string path_ = authority_record::PathOf(kPrefix, RunOf(1));
};

TEST_F(AuthorityRecordTest, EachRunHasItsOwnMadeOnceAndDurable) {
  EXPECT_STATUS(kNotFound, Read(1), "");
  ASSERT_OK(Make(1));
  EXPECT_STATUS(kAlreadyExists, Make(1, "another"), "");
  EXPECT_STATUS(kNotFound, Read(2), "");
  ASSERT_OK(Make(2, "second"));
  disk_.Restart(1);
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord first, Read(1));
  EXPECT_EQ(first.key, "key\nof lines\n");
  EXPECT_EQ(first.certificate, "certificate");
  ASSERT_OK_AND_ASSIGN(const AuthorityRecord second, Read(2));
  EXPECT_EQ(second.key, "second");
  EXPECT_EQ(path_, "/pfs/.cairn/authority.01010101010101010101010101010101");
}

TEST_F(AuthorityRecordTest, NobodyElseCanReadIt) {
  ASSERT_OK(Make(1));
  ASSERT_OK_AND_ASSIGN(const FileInfo file, disk_.Info(path_));
  EXPECT_EQ(file.mode & 07777, 0600u);
  ASSERT_OK_AND_ASSIGN(const FileInfo folder, disk_.Info("/pfs/.cairn"));
  EXPECT_EQ(folder.mode & 07777, 0700u);
}

TEST_F(AuthorityRecordTest, OneThatOthersCanReadIsNotTrusted) {
  ASSERT_OK(Make(1));
  for (const std::uint32_t mode : {0640u, 0604u, 0620u, 0602u, 0666u}) {
    SetMode(path_, mode);
    EXPECT_STATUS(kPermissionDenied, Read(1), "lets others read the key");
  }
  SetMode(path_, 0400);
  EXPECT_OK(Read(1));
  SetMode("/pfs/.cairn", 0755);
  EXPECT_STATUS(kPermissionDenied, Read(1), "/pfs/.cairn");
  EXPECT_STATUS(kPermissionDenied, Make(2), "/pfs/.cairn");
}

TEST_F(AuthorityRecordTest, AnotherUsersIsNotTrusted) {
  ASSERT_OK(Make(1));
  disk_.foreign = "authority." + RunOf(1).Hex();
  EXPECT_STATUS(kPermissionDenied, Read(1), "belongs to user");
  disk_.foreign = ".cairn";
  EXPECT_STATUS(kPermissionDenied, Read(1), "belongs to user");
  EXPECT_STATUS(kPermissionDenied, Make(2), "belongs to user");
}

TEST_F(AuthorityRecordTest, ALinkIsNotFollowed) {
  ASSERT_OK(Make(1));
  ASSERT_OK(disk_.Symlink(path_, authority_record::PathOf(kPrefix, RunOf(2))));
  EXPECT_STATUS(kPermissionDenied, Read(2), "no regular file");
}

TEST_F(AuthorityRecordTest, WhatIsDamagedOrAnothersIsNotTaken) {
  ASSERT_OK(Make(1));
  ASSERT_OK_AND_ASSIGN(kvtree::Tree tree, ReadTreeOnce(disk_, path_));
  const auto with = [&](const char* key, const std::string& value) {
    kvtree::Tree changed = tree;
    if (value.empty()) {
      changed.Erase(key);
    } else {
      changed.Set(key, value);
    }
    EXPECT_OK(ReplaceTree(disk_, path_, changed));
    return Read(1);
  };
  EXPECT_STATUS(kDataLoss, with("RUN", RunOf(2).Hex()), "not the run of the file's name");
  EXPECT_STATUS(kDataLoss, with("RUN", ""), "RUN");
  EXPECT_STATUS(kDataLoss, with("KEY", ""), "KEY");
  EXPECT_STATUS(kDataLoss, with("CERTIFICATE", ""), "CERTIFICATE");
  EXPECT_STATUS(kFailedPrecondition, with("VERSION", "2"), "this program knows 1");
  ASSERT_OK(ReplaceTree(disk_, path_, tree));
  disk_.FlipBit(path_, 300);
  EXPECT_STATUS(kDataLoss, Read(1), path_);
}

}  // namespace
}  // namespace cairn
