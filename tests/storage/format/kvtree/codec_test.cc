// The file format: worked examples, malformed files, and the files of SCR itself.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <span>
#include <string>

#include "storage/base/checksum.h"
#include "storage/format/kvtree/tree.h"
#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::kvtree {
namespace {

std::string Big(std::uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string Element(const std::string& key, const std::string& packed) {
  return key + std::string(1, '\0') + packed;
}

// A file around packed bytes, right in everything but them.
std::string FileOf(const std::string& packed, bool crc = true) {
  const std::uint64_t bytes = 20 + packed.size() + (crc ? 4 : 0);
  std::string file = Big(0x951fc3f5, 4) + Big(1, 2) + Big(1, 2) + Big(bytes, 8) + Big(crc ? 1 : 0, 4) + packed;
  if (crc) file += Big(Crc32(std::as_bytes(std::span(file.data(), file.size()))), 4);
  return file;
}

absl::Status Refused(const std::string& file) {
  const absl::StatusOr<Tree> tree = Decode("file", file);
  return tree.status();
}

Tree Sample() {
  Tree tree;
  tree.At("FILE").At("/c/a.dat").At("META").Set("SIZE", std::uint64_t{10});
  tree.At("FILE").At("/c/a.dat").At("META").SetBool("COMPLETE", true);
  tree.Set("N", "1");
  return tree;
}

TEST(CodecTest, TheEmptyTreeIsTheTwentyEightBytesOfTheSpecification) {
  const unsigned char expected[] = {0x95, 0x1f, 0xc3, 0xf5, 0, 1, 0, 1, 0, 0, 0,    0,    0,    0,
                                    0,    0x1c, 0,    0,    0, 1, 0, 0, 0, 0, 0x02, 0x14, 0x9a, 0x0e};
  const std::string file(reinterpret_cast<const char*>(expected), sizeof(expected));
  EXPECT_EQ(Encode(Tree()), file);
  const absl::StatusOr<Tree> tree = Decode("empty.kvt", file);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_TRUE(tree->empty());
}

TEST(CodecTest, OnePairIsTheFortySixBytesOfTheSpecification) {
  const unsigned char expected[] = {0x95, 0x1f, 0xc3, 0xf5, 0,   1, 0, 1, 0,   0,   0,    0,    0,    0,   0, 0x2e,
                                    0,    0,    0,    1,    0,   0, 0, 1, 'K', 'E', 'Y',  0,    0,    0,   0, 1,
                                    'V',  'A',  'L',  'U',  'E', 0, 0, 0, 0,   0,   0x84, 0x87, 0x20, 0x8f};
  const std::string file(reinterpret_cast<const char*>(expected), sizeof(expected));
  Tree tree;
  tree.Set("KEY", "VALUE");
  EXPECT_EQ(Encode(tree), file);
  EXPECT_EQ(Print(*Decode("one_pair.kvt", file)), "  KEY\n    VALUE\n");
}

TEST(CodecTest, OrderIsKeptFromFileToFile) {
  Tree tree;
  for (int i = 0; i < 500; ++i) tree.Set("key " + std::to_string(i * 7919 % 500), std::to_string(i));
  const std::string file = Encode(tree);
  const absl::StatusOr<Tree> again = Decode("wide", file);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Print(*again), Print(tree));
  EXPECT_EQ(Encode(*again), file);
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(again->Get("key " + std::to_string(i)).has_value()) << i;
}

TEST(CodecTest, OddKeysSurvive) {
  Tree tree;
  tree.Set("", "");
  tree.Set("line\nbreak", "\xff\xfe\x01");
  tree.Set(std::string(4096, 'n'), std::string(70000, 'v'));
  const absl::StatusOr<Tree> again = Decode("odd", Encode(tree));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->SameAs(tree));
  EXPECT_EQ(again->Get(""), "");
}

TEST(CodecTest, PackedBytesIsTheSizeOfTheTreeInAFile) {
  EXPECT_EQ(PackedBytes(Tree()), 4u);
  EXPECT_EQ(PackedBytes(Sample()), Encode(Sample()).size() - 24);
}

TEST(CodecTest, EveryTruncationAndBitFlipIsRefused) {
  for (const std::string& whole : {Encode(Sample()), FileOf(Big(1, 4) + Element("KEY", Big(0, 4)))}) {
    for (std::size_t n = 0; n < whole.size(); ++n) {
      EXPECT_EQ(Refused(whole.substr(0, n)).code(), n == 0 ? absl::StatusCode::kNotFound : absl::StatusCode::kDataLoss)
          << "cut at " << n;
      for (int bit = 0; bit < 8; ++bit) {
        std::string flipped = whole;
        flipped[n] = static_cast<char>(flipped[n] ^ (1 << bit));
        EXPECT_EQ(Refused(flipped).code(), absl::StatusCode::kDataLoss) << "flip of bit " << bit << " at " << n;
      }
    }
  }
}

TEST(CodecTest, ErrorsNameFileSectionAndOffset) {
  const std::string whole = Encode(Sample());
  const auto expect = [](const std::string& file, const std::string& text) {
    EXPECT_EQ(std::string(Refused(file).message()).find(text), 0u) << Refused(file);
  };
  const auto flipped = [&whole](std::size_t at) {
    std::string file = whole;
    file[at] ^= 1;
    return file;
  };
  expect(whole.substr(0, 1), "file: kvtree header, offset 1: ");
  expect(whole.substr(0, 19), "file: kvtree header, offset 19: ");
  expect(flipped(3), "file: kvtree header, offset 0: ");
  expect(flipped(5), "file: kvtree header, offset 4: ");
  expect(flipped(7), "file: kvtree header, offset 4: ");
  expect(whole.substr(0, whole.size() - 1), "file: kvtree header, offset 8: ");
  expect(flipped(19), "file: kvtree header, offset 16: flags say no CRC, but 4 bytes follow");
  const std::string crc = "file: kvtree CRC, offset " + std::to_string(whole.size() - 4) + ": ";
  for (const std::size_t at : {std::size_t{16}, std::size_t{20}, whole.size() - 5, whole.size() - 1}) {
    expect(flipped(at), crc);
  }
  expect(FileOf(Big(1, 4) + "unterminated"), "file: kvtree tree, offset 24: ");
  expect(FileOf(Big(9, 4)), "file: kvtree tree, offset 20: ");
}

TEST(CodecTest, BytesBehindTheDeclaredSizeAreTheCallers) {
  const std::string header = Encode(Sample());
  std::uint64_t declared = 0;
  const absl::StatusOr<Tree> tree = Decode("redundancy file", header + "payload", &declared);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_TRUE(tree->SameAs(Sample()));
  EXPECT_EQ(declared, header.size());
}

TEST(CodecTest, AFileWithoutCrcIsReadIfItEndsWithItsTree) {
  const std::string packed = Big(1, 4) + Element("A", Big(0, 4));
  EXPECT_TRUE(Refused(FileOf(packed, /*crc=*/false)).ok());
  EXPECT_EQ(Refused(FileOf(packed + "slack", /*crc=*/false)).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Refused(FileOf(packed + "slack", /*crc=*/true)).ok());
}

TEST(CodecTest, CountsThatCannotFitAreRefusedBeforeAnythingIsReserved) {
  const std::string empty = Big(0, 4);
  EXPECT_EQ(Refused(FileOf(Big(0xffffffff, 4))).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Refused(FileOf(Big(0xffffffff, 4) + Element("A", empty))).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Refused(FileOf(Big(2, 4) + Element("A", empty))).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Refused(FileOf(Big(2, 4) + Element("A", empty) + Element("", empty))).ok());

  // Each count alone would fit into what follows it, all together do not.
  std::string nested;
  constexpr int kLevels = 200;
  for (int level = kLevels; level > 0; --level) {
    const std::uint64_t left = 1 << 20;
    nested += Big(left / 5, 4) + std::string(1, '\0');
  }
  nested += std::string(2 << 20, '\0');
  EXPECT_EQ(Refused(FileOf(nested)).code(), absl::StatusCode::kDataLoss);
}

TEST(CodecTest, AKeyWithoutAnEndIsRefused) {
  EXPECT_EQ(Refused(FileOf(Big(1, 4) + "unterminated")).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Refused(FileOf(Big(1, 4) + Element("child is cut", "\1\1\1"))).code(), absl::StatusCode::kDataLoss);
}

std::string Nested(int levels) {
  std::string packed;
  for (int i = 0; i < levels; ++i) packed += Big(1, 4) + Element("k", "");
  return packed + Big(0, 4);
}

TEST(CodecTest, NestingIsLimited) {
  EXPECT_TRUE(Refused(FileOf(Nested(kDepthMax))).ok());
  EXPECT_EQ(Refused(FileOf(Nested(kDepthMax + 1))).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(Refused(FileOf(Nested(1'000'000))).code(), absl::StatusCode::kDataLoss);
}

TEST(CodecTest, TreesOfEqualKeysAreMerged) {
  const std::string empty = Big(0, 4);
  const std::string packed =
      Big(3, 4) + Element("A", Big(1, 4) + Element("1", empty)) +
      Element("A", Big(2, 4) + Element("2", empty) + Element("1", Big(1, 4) + Element("x", empty))) +
      Element("B", empty);
  const absl::StatusOr<Tree> tree = Decode("file", FileOf(packed));
  ASSERT_TRUE(tree.ok()) << tree.status();
  Tree expected;
  expected.At("A").At("1").At("x");
  expected.At("A").At("2");
  expected.At("B");
  EXPECT_TRUE(tree->SameAs(expected)) << Print(*tree);
}

// Merged again on each level, a subtree would cost its size times the depth; many equal keys, their number squared.
TEST(CodecTest, EqualKeysCostNoMoreThanOthers) {
  std::string wide = Big(100'000, 4);
  for (int i = 0; i < 100'000; ++i) {
    wide += Element(i % 2 == 0 ? "same" : std::to_string(i), Big(1, 4) + Element(std::to_string(i), Big(0, 4)));
  }
  std::string deep = wide;
  for (int level = 0; level < 200; ++level) {
    deep = Big(2, 4) + Element("k", Big(1, 4) + Element("k", Big(0, 4))) + Element("k", deep);
  }
  const absl::StatusOr<Tree> tree = Decode("file", FileOf(deep));
  ASSERT_TRUE(tree.ok()) << tree.status();
  const Tree* level = &*tree;
  while (level->size() == 1) level = level->Find("k");
  EXPECT_EQ(level->Find("same")->size(), 50'000u);
}

TEST(CodecTest, WhatCannotBeReadAgainIsNotEncodable) {
  EXPECT_TRUE(Encodable(Sample()).ok());

  Tree nul;
  nul.At("A").At(std::string("x\0y", 3));
  EXPECT_EQ(Encodable(nul).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(Encodable(nul).ToString().find("key 'x?y' has a NUL at 1"), std::string::npos) << Encodable(nul);
  EXPECT_DEATH(Encode(nul), "check failed");

  Tree deep;
  Tree* end = &deep;
  for (int i = 0; i < kDepthMax; ++i) end = &end->At("k");
  EXPECT_TRUE(Encodable(deep).ok());
  EXPECT_TRUE(Decode("deep", Encode(deep)).ok());
  end->At("k");
  EXPECT_EQ(Encodable(deep).code(), absl::StatusCode::kInvalidArgument);

  Tree large;
  large.At(std::string(kFileBytesMax - 24 - 4 - 5, 'k'));
  EXPECT_TRUE(Decode("large", Encode(large)).ok());
  large.At("");
  EXPECT_EQ(Encodable(large).code(), absl::StatusCode::kInvalidArgument);
}

TEST(CodecTest, ADeclaredSizeAboveTheLimitIsRefused) {
  std::string file = Encode(Tree());
  file.resize(kFileBytesMax + 1);
  const std::string declared = Big(kFileBytesMax + 1, 8);
  file.replace(8, 8, declared);
  EXPECT_EQ(Refused(file).code(), absl::StatusCode::kDataLoss);
  file.replace(8, 8, Big(std::uint64_t{1} << 62, 8));
  EXPECT_EQ(Refused(file).code(), absl::StatusCode::kDataLoss);
}

Tree RandomTree(std::mt19937_64& random, int depth) {
  Tree tree;
  const std::uint64_t width = depth == 0 ? 60 : random() % 5;
  for (std::uint64_t i = 0; i < width; ++i) {
    std::string key(random() % 20, '\0');
    for (char& byte : key) byte = static_cast<char>(1 + random() % 255);
    Tree& child = tree.At(key);
    if (depth < 4) child = RandomTree(random, depth + 1);
  }
  return tree;
}

TEST(CodecTest, RandomTreesComeBackAsTheyWere) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device()();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20; ++round) {
    const Tree tree = RandomTree(random, 0);
    const absl::StatusOr<Tree> again = Decode("random", Encode(tree));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(Print(*again), Print(tree));
    ASSERT_TRUE(again->SameAs(tree));
  }
}

TEST(CodecVectorTest, FilesOfScrPrintAsScrPrintsThemAndAreWrittenBackByteForByte) {
  int files = 0;
  for (const testing::ScrVector& vector : testing::ScrVectors("")) {
    if (!vector.print) continue;
    ++files;
    std::uint64_t declared = 0;
    const absl::StatusOr<Tree> tree = Decode(vector.path, vector.bytes, &declared);
    ASSERT_TRUE(tree.ok()) << tree.status();
    EXPECT_EQ(declared, vector.declared_bytes) << vector.path;
    EXPECT_EQ(Print(*tree), *vector.print) << vector.path;
    EXPECT_EQ(Encode(*tree), vector.bytes.substr(0, declared)) << vector.path;
  }
  if (std::getenv("CAIRN_SHARED") != nullptr) {
    EXPECT_GT(files, 500);
  }
}

TEST(CodecVectorTest, MalformedFilesAreAnsweredAsRecommended) {
  for (const testing::MalformedTree& malformed : testing::MalformedTrees()) {
    const absl::StatusOr<Tree> tree = Decode(malformed.path, malformed.bytes);
    if (malformed.bytes.empty()) {
      EXPECT_EQ(tree.status().code(), absl::StatusCode::kNotFound);
    } else if (malformed.recommended.starts_with("reject")) {
      EXPECT_EQ(tree.status().code(), absl::StatusCode::kDataLoss) << malformed.path;
    } else {
      ASSERT_TRUE(tree.ok()) << tree.status();
      Tree shown = *tree;
      // Merging may change the order, which carries no meaning; what is merged here prints in order if sorted.
      if (malformed.path.ends_with("duplicate_keys.kvt")) shown.Sort();
      EXPECT_EQ(Print(shown), malformed.print + "\n") << malformed.path;
    }
  }
}

}  // namespace
}  // namespace cairn::kvtree
