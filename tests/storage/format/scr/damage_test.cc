// Damaged and odd files of each of SCR's records: what is damaged is refused and named, what is only odd is not.
#include <gtest/gtest.h>

#include <climits>
#include <map>
#include <regex>
#include <string>

#include "storage/format/kvtree/json.h"
#include "storage/format/scr/records.h"
#include "storage/format/scr/redset_records.h"
#include "tests/storage/format/scr/sample_meta.h"
#include "tests/storage/format/scr/sample_records.h"
#include "tests/storage/format/scr/scr_vectors.h"

namespace cairn::scr {
namespace {

using kvtree::Tree;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;

// "<path>: kvtree <section>, offset <where>: ", where in the file.
void ExpectRefused(const std::string& path, const std::string& file, const std::string& what) {
  const absl::Status status = kvtree::Decode(path, file).status();
  ASSERT_EQ(status.code(), kDataLoss) << path << ": " << what;
  const std::string message(status.message());
  ASSERT_TRUE(message.starts_with(path + ": kvtree ")) << message;
  static const std::regex kPlace("^(header|tree|CRC), offset ([0-9]+): .+");
  std::smatch place;
  const std::string rest = message.substr(path.size() + 9);
  ASSERT_TRUE(std::regex_match(rest, place, kPlace)) << message;
  ASSERT_LE(std::stoull(place[2]), file.size()) << message;
}

// `file` ends where its tree and CRC do.
void ExpectEveryDamageIsRefused(const std::string& path, const std::string& file) {
  ASSERT_TRUE(kvtree::Decode(path, file).ok()) << path;
  for (std::size_t at = 1; at < file.size(); ++at) {
    ExpectRefused(path, file.substr(0, at), "cut at " + std::to_string(at));
  }
  EXPECT_EQ(kvtree::Decode(path, "").status().code(), absl::StatusCode::kNotFound);
  std::string flipped = file;
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      ExpectRefused(path, flipped, "bit " + std::to_string(bit) + " at " + std::to_string(at));
      flipped[at] = file[at];
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(RecordDamageTest, EveryTruncationAndBitFlipOfEachRecordIsRefused) {
  const auto records = testing::SampleRecords();
  EXPECT_EQ(records.size(), 14u);
  for (const auto& [name, tree] : records) ExpectEveryDamageIsRefused(name, kvtree::Encode(tree));
}

TEST(RecordDamageTest, SamplesAreReadAsTheRecordsThatTheyAre) {
  auto records = testing::SampleRecords();
  EXPECT_EQ(GetFilemap(records["filemap_0"])->files.size(), 2u);
  EXPECT_EQ(*GetExpectedFiles(records["filemap_0"]), CountFiles(records["filemap_0"]));
  EXPECT_EQ(GetCacheEntries(records["cindex.scrinfo"])->size(), 1u);
  EXPECT_EQ(GetFlushEntries(records["flush.scr"])->size(), 1u);
  EXPECT_EQ(GetIndex(records["index.scr"])->datasets.size(), 2u);
  EXPECT_TRUE(GetSummary(records["summary.scr"]).ok());
  EXPECT_EQ(GetHalt(records["halt.scr"])->checkpoints_left, 5u);
  EXPECT_EQ(*GetNodes(records["nodes.scr"]), 3u);
  EXPECT_TRUE(GetOwnership(records["reddesc.er.shuffile"]).ok());
  EXPECT_EQ(*GetEncodeState(records["reddesc.er.er"]), EncodeState::kEncoded);
  for (const auto& [name, tree] : records) {
    const auto parsed = ParseRedsetName(name);
    if (!parsed) continue;
    if (parsed->what == RedsetName::What::kHeader) {
      EXPECT_TRUE(GetRedundancyHeader(tree).ok()) << name << GetRedundancyHeader(tree).status();
    }
    if (parsed->what == RedsetName::What::kDescriptor) {
      EXPECT_TRUE(GetSetDescriptors(tree).ok()) << name << GetSetDescriptors(tree).status();
    }
  }
}

TEST(RecordDamageTest, OddNamesAreNamesLikeOthers) {
  for (const std::string& name : {std::string("two\nlines"), std::string(4096, 'n'), std::string("\xff\x01"),
                                  std::string("NAME"), std::string("1")}) {
    IndexEntry entry;
    entry.descriptor.id = 7;
    entry.descriptor.name = name;
    Tree index;
    PutIndexEntry(entry, index);
    SetCurrent(name, index);
    const auto decoded = kvtree::Decode("index.scr", kvtree::Encode(index));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(FindByName(name, *decoded), 7u);
    EXPECT_EQ(GetIndex(*decoded)->current, name);

    Tree filemap;
    Meta meta = FullMeta();
    meta.original = meta.name = name.substr(0, 255);
    PutFile("/c/" + meta.name, meta, filemap);
    const auto again = kvtree::Decode("filemap", kvtree::Encode(filemap));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(GetFilemap(*again)->files.at("/c/" + meta.name).name, meta.name);
  }
}

TEST(RecordDamageTest, APathThatNoFileCanHaveIsRefusedAndShownShort) {
  Tree longest;
  PutFile("/" + std::string(PATH_MAX - 2, 'p'), Meta(), longest);
  EXPECT_TRUE(GetFilemap(longest).ok()) << GetFilemap(longest).status();
  Tree longer;
  PutFile("/" + std::string(PATH_MAX - 1, 'p'), Meta(), longer);
  EXPECT_EQ(GetFilemap(longer).status().code(), kDataLoss);
  EXPECT_LT(GetFilemap(longer).status().message().size(), 400u);
}

TEST(RecordDamageTest, ANameWithANulIsNotEncodable) {
  Tree filemap;
  PutFile(std::string("/c/a\0b", 6), FullMeta(), filemap);
  EXPECT_EQ(kvtree::Encodable(filemap).code(), absl::StatusCode::kInvalidArgument);
}

// The first file of each role, as far as its tree goes.
TEST(RecordDamageVectorTest, EveryTruncationAndBitFlipOfScrsFilesIsRefused) {
  std::map<std::string, const testing::ScrVector*> of_role;
  const auto vectors = testing::ScrVectors("");
  for (const testing::ScrVector& vector : vectors) {
    if (vector.print && vector.role != "KVTree file" && vector.bytes.size() < 2000)
      of_role.emplace(vector.role, &vector);
  }
  for (const auto& [role, vector] : of_role) {
    ExpectEveryDamageIsRefused(vector->path, vector->bytes.substr(0, vector->declared_bytes));
  }
  if (!vectors.empty()) {
    EXPECT_GE(of_role.size(), 18u);
  }
}

// What is behind the tree is a payload: it is neither read nor missed here.
TEST(RecordDamageVectorTest, PayloadsAreLeftToOthers) {
  for (const testing::ScrVector& vector : testing::ScrVectors("redundancy file (xor)", "xor_np4")) {
    EXPECT_GT(vector.bytes.size(), vector.declared_bytes) << vector.path;
    const auto whole = kvtree::Decode(vector.path, vector.bytes);
    const auto header = kvtree::Decode(vector.path, vector.bytes.substr(0, vector.declared_bytes));
    ASSERT_TRUE(whole.ok() && header.ok()) << vector.path;
    EXPECT_EQ(kvtree::JsonText(*whole), kvtree::JsonText(*header)) << vector.path;
  }
}

}  // namespace
}  // namespace cairn::scr
