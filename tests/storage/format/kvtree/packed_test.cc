// Levels that stay as they were in their file until someone looks, or changes something.
#include <gtest/gtest.h>

#include <span>

#include <string>
#include <thread>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::kvtree {
namespace {

// Files with ten fields each, as a filemap has them.
Tree Record(int files) {
  Tree tree;
  for (int file = 0; file < files; ++file) {
    Tree& meta = tree.At("FILE").At("/cache/file" + std::to_string(file)).At("META");
    for (int field = 0; field < 10; ++field)
      meta.Set("FIELD" + std::to_string(field), std::uint64_t(file * 10 + field));
  }
  return tree;
}

Tree Read(const std::string& file) {
  auto tree = Decode("record", file);
  EXPECT_TRUE(tree.ok()) << tree.status();
  return tree.ok() ? *std::move(tree) : Tree();
}

std::uint64_t SumOf(const Tree& record) {
  std::uint64_t sum = 0;
  for (const auto& [path, file] : record.Find("FILE")->elements()) {
    for (const auto& [field, value] : file.Find("META")->elements()) sum += std::stoull(value.elements().front().first);
  }
  return sum;
}

void Put32(std::uint32_t value, std::string* bytes) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes->push_back(static_cast<char>(value >> shift));
}

TEST(PackedLevelTest, ReadingChangesNothing) {
  const std::string file = Encode(Record(20));
  const Tree tree = Read(file);
  EXPECT_EQ(Encode(tree), file);
  EXPECT_TRUE(tree.SameAs(Record(20)));
  EXPECT_EQ(SumOf(tree), SumOf(Record(20)));
  EXPECT_EQ(Encode(tree), file);
  EXPECT_EQ(PackedBytes(tree), file.size() - 24);
}

TEST(PackedLevelTest, AChangeIsSeenAndLeavesTheOthersAsTheyWere) {
  Tree tree = Read(Encode(Record(20)));
  Tree* const meta = tree.Find("FILE")->Find("/cache/file7")->Find("META");
  meta->Set("FIELD3", "changed");
  EXPECT_TRUE(meta->Erase("FIELD4"));
  EXPECT_EQ(meta->size(), 9u);
  Tree expected = Record(20);
  expected.At("FILE").At("/cache/file7").At("META").Set("FIELD3", "changed");
  expected.At("FILE").At("/cache/file7").At("META").Erase("FIELD4");
  EXPECT_TRUE(tree.SameAs(expected));
  ASSERT_TRUE(Encodable(tree).ok());
  EXPECT_EQ(Encode(Read(Encode(tree))), Encode(tree));
  EXPECT_TRUE(Read(Encode(tree)).SameAs(expected));
}

TEST(PackedLevelTest, ACopyIsATreeOfItsOwn) {
  const std::string file = Encode(Record(3));
  Tree tree = Read(file);
  Tree copy = tree;
  copy.At("FILE").At("/cache/file1").At("META").Set("FIELD0", "x");
  EXPECT_EQ(Encode(tree), file);
  EXPECT_EQ(tree.FindPath({"FILE", "/cache/file1", "META"})->Get("FIELD0"), "10");
  tree = Tree();
  EXPECT_EQ(copy.FindPath({"FILE", "/cache/file2", "META"})->Get("FIELD9"), "29");
}

TEST(PackedLevelTest, ManyMayLookAtOnce) {
  const Tree tree = Read(Encode(Record(200)));
  const std::uint64_t expected = SumOf(Record(200));
  std::vector<std::uint64_t> sums(8);
  std::vector<std::thread> readers;
  for (std::uint64_t& sum : sums) readers.emplace_back([&tree, &sum] { sum = SumOf(tree) + Encode(tree).size(); });
  for (std::thread& reader : readers) reader.join();
  for (const std::uint64_t sum : sums) EXPECT_EQ(sum, expected + Encode(tree).size());
}

TEST(PackedLevelTest, EqualKeysInOneAreOne) {
  std::string level;
  Put32(9, &level);
  for (const char* key : {"A", "B", "C", "D", "E", "F", "G", "H", "A"}) {
    level += key;
    level.push_back('\0');
    Put32(1, &level);
    level += level.size() % 2 == 0 ? "x" : "yy";
    level.push_back('\0');
    Put32(0, &level);
  }
  std::string body;
  Put32(1, &body);
  body += std::string("KEY") + '\0' + level;
  std::string file("\x95\x1f\xc3\xf5\0\1\0\1\0\0\0\0", 12);
  Put32(static_cast<std::uint32_t>(20 + body.size() + 4), &file);
  Put32(1, &file);
  file += body;
  Put32(Crc32(std::as_bytes(std::span(file))), &file);
  Tree tree = Read(file);
  EXPECT_EQ(tree.Find("KEY")->size(), 8u);
  tree.At("KEY").Set("Z", "1");
  EXPECT_EQ(Read(Encode(tree)).Find("KEY")->size(), 9u);
}

TEST(PackedLevelTest, OneThatComesToLieTooDeepIsNotEncodable) {
  const Tree source = Read(Encode(Record(1)));
  Tree deep;
  Tree* below = &deep;
  for (int level = 0; level < kDepthMax - 2; ++level) below = &below->At("k");
  *below = *source.FindPath({"FILE", "/cache/file0", "META"});
  EXPECT_TRUE(Encodable(deep).ok());  // fields and their values are the last two levels
  Tree deeper;
  deeper.At("k") = std::move(deep);
  EXPECT_EQ(Encodable(deeper).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cairn::kvtree
