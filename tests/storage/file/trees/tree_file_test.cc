#include "storage/file/trees/tree_file.h"

#include <gtest/gtest.h>

#include <span>
#include <string>

#include "storage/format/kvtree/tree.h"
#include "storage/io/create_once.h"
#include "storage/io/once_frame.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using absl::StatusCode;

void Put(FakeDisk& disk, const std::string& path, const std::string& text) {
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Open(path, {.writable = true, .create = true}));
  if (!text.empty()) {
    ASSERT_OK(file->WriteAt(0, std::as_bytes(std::span(text))));
  }
}

TEST(TreeFileTest, ARecordIsReadInWhicheverWayItWasMade) {
  FakeDisk disk({.links = false, .renames_new = false});
  kvtree::Tree tree;
  tree.Set("VERSION", std::uint64_t{1});
  ASSERT_OK(CreateFileOnce(disk, "/framed", kvtree::Encode(tree)));
  ASSERT_GT(disk.Info("/framed")->bytes, kvtree::Encode(tree).size());
  ASSERT_OK(ReplaceTree(disk, "/plain", tree));
  for (const char* path : {"/framed", "/plain"}) {
    EXPECT_EQ(ReadTree(disk, path)->GetUnsigned("VERSION").value(), 1u);
    EXPECT_EQ(ReadTreeOnce(disk, path)->GetUnsigned("VERSION").value(), 1u);
  }
}

TEST(TreeFileTest, WhatAPowerFailureLeavesIsNoRecordButMayBeADamagedFile) {
  FakeDisk disk;
  const std::string text = kvtree::Encode(kvtree::Tree());
  Put(disk, "/torn", Frame(text, /*synced=*/false).substr(0, kFrameBytes + 3));
  Put(disk, "/zeros", std::string(100, '\0'));
  Put(disk, "/empty", "");
  for (const char* path : {"/torn", "/zeros", "/empty", "/none"}) {
    EXPECT_STATUS(StatusCode::kNotFound, ReadTreeOnce(disk, path), path);
  }
  EXPECT_STATUS(StatusCode::kNotFound, ReadTree(disk, "/torn"), "/torn");
  EXPECT_STATUS(StatusCode::kDataLoss, ReadTree(disk, "/zeros"), "/zeros") << "SCR's may be damaged so";
}

}  // namespace
}  // namespace cairn
