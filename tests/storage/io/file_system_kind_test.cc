#include "storage/io/file_system_kind.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace cairn {
namespace {

TEST(FileSystemKindTest, EachKindIsInTheTableOnceAndHasANameOfItsOwn) {
  std::set<std::uint64_t> types;
  std::set<std::string_view> names;
  for (const FileSystemKind& kind : FileSystemKinds()) {
    EXPECT_TRUE(types.insert(kind.type).second) << kind.name;
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_EQ(FindFileSystemKind(kind.type), &kind);
    EXPECT_EQ(InodesCount(kind.type), kind.inodes_count) << kind.name;
  }
}

TEST(FileSystemKindTest, ThereIsAReasonWhereInodesDoNotCountAndOnlyThere) {
  for (const FileSystemKind& kind : FileSystemKinds()) EXPECT_EQ(kind.why.empty(), kind.inodes_count) << kind.name;
}

// The numbers as <linux/magic.h> and the vendors' sources have them.
TEST(FileSystemKindTest, ParallelFileSystemsAndThoseOfNodesAreKnown) {
  const auto expect = [](std::uint64_t type, std::string_view name, bool inodes_count) {
    const FileSystemKind* const kind = FindFileSystemKind(type);
    ASSERT_NE(kind, nullptr) << name;
    EXPECT_EQ(kind->name, name);
    EXPECT_EQ(kind->inodes_count, inodes_count) << name;
  };
  expect(0x0BD00BD0, "Lustre", true);
  expect(0x47504653, "GPFS", true);
  expect(0x19830326, "BeeGFS", true);
  expect(0x00C36400, "CephFS", true);
  expect(0x6969, "NFS", true);
  expect(0xEF53, "ext2/3/4", true);
  expect(0x58465342, "XFS", true);
  expect(0x9123683E, "Btrfs", true);
  expect(0x2FC12FC1, "ZFS", true);
  expect(0xF2F52010, "F2FS", true);
  expect(0x01021994, "tmpfs", true);
  expect(0x794C7630, "overlayfs", false);
  expect(0x65735546, "FUSE", false);
  expect(0x01021997, "9P", false);
  expect(0xFF534D42, "CIFS", false);
  expect(0xFE534D42, "SMB2", false);
}

TEST(FileSystemKindTest, InodesOfAnUnknownKindDoNotCount) {
  for (const std::uint64_t type : {std::uint64_t{0}, std::uint64_t{0x12345678}, UINT64_MAX, 0xFFFFFFFF0000EF53}) {
    EXPECT_EQ(FindFileSystemKind(type), nullptr) << type;
    EXPECT_FALSE(InodesCount(type)) << type;
  }
}

}  // namespace
}  // namespace cairn
