// Filemaps: what is put is got, files come and go, what is unknown stays.
#include "storage/format/scr/filemap.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/storage/format/scr/sample_meta.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

TEST(FilemapTest, WhatIsPutIsGot) {
  Filemap filemap;
  filemap.files["/ssd/a.dat"] = FullMeta();
  filemap.files["/ssd/b.dat"] = Meta();
  const auto again = GetFilemap(ToTree(filemap));
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->files.size(), 2u);
  ExpectSame(again->files.at("/ssd/a.dat"), FullMeta());
}

TEST(FilemapTest, ARankWithoutFilesHasAnEmptyTree) {
  EXPECT_TRUE(ToTree(Filemap()).empty());
  EXPECT_TRUE(GetFilemap(Tree())->files.empty());
}

TEST(FilemapTest, ChangingAFileKeepsWhatIsUnknown) {
  Tree tree;
  tree.At("DSETDESC").Set("ID", "1");
  tree.At("FILE").At("/ssd/a.dat").Set("NOTE", "kept");
  PutFile("/ssd/a.dat", FullMeta(), tree);
  EXPECT_EQ(tree.FindPath({"FILE", "/ssd/a.dat"})->Get("NOTE"), "kept");
  EXPECT_NE(tree.Find("DSETDESC"), nullptr);
  ExpectSame(GetFilemap(tree)->files.at("/ssd/a.dat"), FullMeta());
}

TEST(FilemapTest, RedundancyDataOfOlderVersionsIsLeftOut) {
  Tree tree;
  PutFile("/ssd/a.dat", FullMeta(), tree);
  PutFile("/ssd/a.xor", FullMeta(), tree);
  tree.At("FILE").At("/ssd/a.xor").At("META").Set("TYPE", "XOR");
  EXPECT_EQ(GetFilemap(tree)->files.size(), 1u);
}

TEST(FilemapTest, PathsThatLeadElsewhereAreDataLossAndNamed) {
  for (const char* path : {"", "a.dat", "/ssd/../etc/passwd", "/ssd/.."}) {
    Tree tree;
    PutFile(path, FullMeta(), tree);
    const absl::Status status = GetFilemap(tree).status();
    EXPECT_EQ(status.code(), kDataLoss) << path;
    EXPECT_NE(status.ToString().find("'" + std::string(path) + "'"), std::string::npos) << status;
  }
  Tree dots;
  PutFile("/ssd/..a/b..", FullMeta(), dots);
  EXPECT_TRUE(GetFilemap(dots).ok());
  Tree bad;
  PutFile("/ssd/a.dat", FullMeta(), bad);
  bad.At("FILE").At("/ssd/a.dat").At("META").Set("SIZE", "x");
  EXPECT_NE(GetFilemap(bad).status().ToString().find("file '/ssd/a.dat': SIZE is 'x'"), std::string::npos);
}

// A filemap of one file, with keys that nobody knows on each level.
Tree WithUnknown(const std::string& path, const std::string& note) {
  Tree tree;
  PutFile(path, FullMeta(), tree);
  tree.At("FILE").At(path).Set("NOTE", note);
  tree.At("FILE").At(path).At("META").Set("NEW", note);
  tree.Set("REDDESC", note);
  return tree;
}

TEST(FilemapTest, TheOlderNameOfAFileIsItsOwn) {
  const Tree tree = WithUnknown("/ssd/dir/a.dat", "x");
  EXPECT_TRUE(meta::Check(meta::kFile, "a.dat", *tree.FindPath({"FILE", "/ssd/dir/a.dat", "META"})));
}

TEST(FilemapTest, AFileIsCopiedWithAllThatIsKnownOfIt) {
  const Tree from = WithUnknown("/ssd/a", "from");
  Tree to = WithUnknown("/ssd/a", "to");
  to.At("FILE").At("/ssd/a").Set("OLD", "1");
  EXPECT_TRUE(CopyFile("/ssd/a", from, to));
  EXPECT_TRUE(to.FindPath({"FILE", "/ssd/a"})->SameAs(*from.FindPath({"FILE", "/ssd/a"})));
  EXPECT_EQ(to.Get("REDDESC"), "to");
  EXPECT_FALSE(CopyFile("/ssd/b", from, to));
  EXPECT_FALSE(CopyFile("/ssd/a", Tree(), to));
  EXPECT_EQ(CountFiles(to), 1u);
}

TEST(FilemapTest, ErasingTheLastFileLeavesARankWithoutFiles) {
  Tree tree;
  PutFile("/ssd/a", FullMeta(), tree);
  PutFile("/ssd/b", FullMeta(), tree);
  EXPECT_TRUE(EraseFile("/ssd/a", tree));
  EXPECT_FALSE(EraseFile("/ssd/a", tree));
  EXPECT_EQ(GetFilemap(tree)->files.size(), 1u);
  EXPECT_TRUE(EraseFile("/ssd/b", tree));
  EXPECT_TRUE(tree.empty());
  EXPECT_FALSE(EraseFile("/ssd/b", tree));
}

TEST(FilemapTest, MergingTakesFilesWholeAndOtherKeysIfTheyAreMissing) {
  Tree into = WithUnknown("/ssd/a", "into");
  PutFile("/ssd/b", FullMeta(), into);
  Tree from = WithUnknown("/ssd/a", "from");
  PutFile("/ssd/c", FullMeta(), from);
  Descriptor descriptor;
  descriptor.id = 3;
  PutFilemapDescriptor(descriptor, from);
  MergeFilemap(from, into);
  EXPECT_EQ(CountFiles(into), 3u);
  EXPECT_TRUE(into.FindPath({"FILE", "/ssd/a"})->SameAs(*from.FindPath({"FILE", "/ssd/a"})));
  EXPECT_EQ(into.Get("REDDESC"), "into");
  EXPECT_EQ(GetFilemapDescriptor(into)->id, 3u);
  const Tree before = into;
  MergeFilemap(Tree(), into);
  EXPECT_TRUE(into.SameAs(before));
}

TEST(FilemapTest, TheExpectedNumberOfFilesIsKept) {
  Tree tree;
  EXPECT_EQ(GetExpectedFiles(tree).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(CountFiles(tree), 0u);
  PutExpectedFiles(1, tree);
  PutExpectedFiles(2, tree);
  ASSERT_TRUE(GetExpectedFiles(tree).ok());
  EXPECT_EQ(*GetExpectedFiles(tree), 2u);
  for (const std::string text : {"", "-1", "x", "2147483648"}) {
    tree.Set("EXPECT", text);
    EXPECT_EQ(GetExpectedFiles(tree).status().code(), kDataLoss) << text;
    EXPECT_NE(GetExpectedFiles(tree).status().ToString().find("EXPECT"), std::string::npos);
  }
}

TEST(FilemapTest, TheDescriptorOfItsDatasetIsKept) {
  Tree tree;
  EXPECT_EQ(GetFilemapDescriptor(tree).status().code(), absl::StatusCode::kNotFound);
  tree.At("DSETDESC").Set("NEW", "kept");
  Descriptor descriptor;
  descriptor.id = 20;
  descriptor.name = "ckpt.20";
  descriptor.launch = 7;
  descriptor.ranks = 4;
  PutFilemapDescriptor(descriptor, tree);
  const auto got = GetFilemapDescriptor(tree);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->id, 20u);
  EXPECT_EQ(got->name, "ckpt.20");
  EXPECT_EQ(got->launch, 7u);
  EXPECT_EQ(got->ranks, 4u);
  EXPECT_EQ(tree.Find("DSETDESC")->Get("NEW"), "kept");
  EXPECT_TRUE(GetFilemap(tree)->files.empty());
  tree.At("DSETDESC").Set("ID", "x");
  EXPECT_EQ(GetFilemapDescriptor(tree).status().code(), kDataLoss);
  EXPECT_NE(GetFilemapDescriptor(tree).status().ToString().find("DSETDESC: ID is 'x'"), std::string::npos);
}

}  // namespace
}  // namespace cairn::scr
