// META, whole and field by field.
#include "storage/format/scr/meta.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/storage/format/scr/sample_meta.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

TEST(MetaTest, WhatIsPutIsGot) {
  Tree tree;
  PutMeta(FullMeta(), tree);
  const auto meta = GetMeta(tree);
  ASSERT_TRUE(meta.ok()) << meta.status();
  ExpectSame(*meta, FullMeta());
}

TEST(MetaTest, BothNamingsAreWritten) {
  Tree tree;
  PutMeta(FullMeta(), tree);
  EXPECT_EQ(tree.Get("PATH"), "/mnt/pfs/demo/step_000020/sub1");
  EXPECT_EQ(tree.Get("ORIGPATH"), tree.Get("PATH"));
  EXPECT_EQ(tree.Get("NAME"), "a.dat");
  EXPECT_EQ(tree.Get("ORIGNAME"), tree.Get("NAME"));
  EXPECT_EQ(tree.Get("TYPE"), "FULL");
  EXPECT_EQ(tree.Get("MODE"), "33184");
  EXPECT_EQ(tree.Get("CKPT"), "20");
  EXPECT_EQ(tree.Get("CRC"), "0x1b39e4e4");
}

TEST(MetaTest, OlderNamesAreRead) {
  Tree tree;
  tree.Set("FILE", "a.dat");
  tree.Set("ORIGPATH", "/old");
  tree.Set("ORIGNAME", "b.dat");
  const auto meta = GetMeta(tree);
  ASSERT_TRUE(meta.ok()) << meta.status();
  EXPECT_EQ(meta->directory, "/old");
  EXPECT_EQ(meta->name, "b.dat");
  tree.Set("PATH", "/new");
  EXPECT_EQ(GetMeta(tree)->directory, "/new");
}

TEST(MetaTest, AbsentFieldsAreNoErrorAndAreRemovedWhenPut) {
  const auto empty = GetMeta(Tree());
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_FALSE(empty->complete);
  EXPECT_FALSE(empty->crc32.has_value());
  Tree tree;
  tree.Set("UNKNOWN", "kept");
  PutMeta(FullMeta(), tree);
  PutMeta(Meta(), tree);
  for (const char* key : {"CRC", "CKPT", "PATH", "NAME", "ORIG", "ORIGPATH", "ORIGNAME"}) {
    EXPECT_EQ(tree.Find(key), nullptr) << key;
  }
  EXPECT_EQ(tree.Get("UNKNOWN"), "kept");
}

TEST(MetaTest, FieldsThatCannotBeAreDataLoss) {
  const std::pair<const char*, const char*> bad[] = {
      {"PATH", "relative"},
      {"PATH", "/a/../b"},
      {"PATH", "/.."},
      {"NAME", "a/b"},
      {"NAME", ".."},
      {"SIZE", "-1"},
      {"MODE", "4294967296"},
      {"UID", "4294967296"},
      {"COMPLETE", "2"},
      {"CRC", "x"},
      {"ATIME_NSECS", "1000000000"},
      {"MTIME_SECS", "soon"},
      {"RANKS", "2147483648"},
      {"RANK", "2147483648"},
      {"TYPE", "RS"},
      {"SIZE", "9223372036854775808"},
      {"CKPT", "-5"},
  };
  for (const auto& [key, value] : bad) {
    Tree tree;
    PutMeta(FullMeta(), tree);
    tree.Set(key, value);
    EXPECT_EQ(GetMeta(tree).status().code(), kDataLoss) << key << " " << value;
  }
}

// Sets a field in a tree that has another value for it, gets and checks it.
template <typename T>
void ExpectField(const meta::Field<T>& field, const T& value, const T& other) {
  Tree tree;
  tree.Set("UNKNOWN", "kept");
  EXPECT_EQ(meta::Get(field, tree).status().code(), absl::StatusCode::kNotFound) << field.key;
  EXPECT_NE(meta::Get(field, tree).status().ToString().find(field.key), std::string::npos);
  EXPECT_FALSE(meta::Check(field, value, tree)) << field.key;
  meta::Set(field, other, tree);
  EXPECT_FALSE(meta::Check(field, value, tree)) << field.key;
  meta::Set(field, value, tree);
  EXPECT_TRUE(meta::Get(field, tree).ok()) << field.key << ": " << meta::Get(field, tree).status();
  EXPECT_TRUE(meta::Check(field, value, tree)) << field.key;
  EXPECT_FALSE(meta::Check(field, other, tree)) << field.key;
  EXPECT_EQ(tree.Get("UNKNOWN"), "kept");
}

TEST(MetaFieldTest, EachIsSetGotAndChecked) {
  for (const auto& field : {meta::kFile, meta::kOrig, meta::kName}) ExpectField<std::string>(field, "a", "b");
  ExpectField<std::string>(meta::kPath, "/p", "/q");
  ExpectField(meta::kType, FileType::kFull, FileType::kXor);
  ExpectField(meta::kType, FileType::kXor, FileType::kPartner);
  ExpectField(meta::kType, FileType::kPartner, FileType::kFull);
  ExpectField(meta::kComplete, true, false);
  ExpectField(meta::kSize, std::uint64_t{9223372036854775807u}, std::uint64_t{0});
  ExpectField(meta::kCheckpoint, std::uint64_t{2147483647u}, std::uint64_t{0});
  for (const auto& field : {meta::kRanks, meta::kRank, meta::kMode}) ExpectField(field, 2147483647u, 0u);
  for (const auto& field : {meta::kCrc, meta::kUid, meta::kGid}) ExpectField(field, 4294967295u, 0u);
  for (const auto& field : {meta::kAtime, meta::kCtime, meta::kMtime}) {
    ExpectField(field, {-1, 999999999}, {-1, 999999998});
    ExpectField(field, {1795160217, 0}, {1795160218, 0});
  }
}

TEST(MetaFieldTest, AFieldThatCannotBeIsNotWhatIsAskedFor) {
  Tree tree;
  tree.Set("SIZE", "many");
  tree.Set("TYPE", "RS");
  EXPECT_EQ(meta::Get(meta::kSize, tree).status().code(), kDataLoss);
  EXPECT_FALSE(meta::Check(meta::kSize, 0, tree));
  EXPECT_EQ(meta::Get(meta::kType, tree).status().code(), kDataLoss);
  EXPECT_FALSE(meta::Check(meta::kType, FileType::kFull, tree));
}

TEST(MetaFieldTest, TheCurrentNameComesBeforeTheOlder) {
  Tree tree;
  tree.Set("ORIGNAME", "old");
  EXPECT_TRUE(meta::Check(meta::kName, "old", tree));
  tree.Set("NAME", "new");
  EXPECT_TRUE(meta::Check(meta::kName, "new", tree));
  meta::Set(meta::kName, "both", tree);
  EXPECT_EQ(tree.Get("ORIGNAME"), "both");
}

TEST(MetaFieldTest, TheFirstOfSeveralValuesCounts) {
  Tree tree;
  tree.At("SIZE").At("1");
  tree.At("SIZE").At("2");
  EXPECT_TRUE(meta::Check(meta::kSize, 2, tree));
}

TEST(CachedFileTest, IsGoodIfCompleteAndOfItsSize) {
  Meta meta = FullMeta();
  EXPECT_TRUE(CheckCached(meta, meta.bytes).ok());
  EXPECT_EQ(CheckCached(meta, meta.bytes - 1).code(), kDataLoss);
  meta.complete = false;
  EXPECT_EQ(CheckCached(meta, meta.bytes).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cairn::scr
