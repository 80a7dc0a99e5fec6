#include "storage/format/ftiff/inspect.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/storage/format/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

using nlohmann::json;

FileMetadata Sample() {
  const std::string file = testing::FileOf(testing::MixedLayout(), {.checkpoint_id = 12, .timestamp_ns = 77});
  return *DecodeMetadata("sample", file.size(), testing::ReaderOf(file));
}

// The same containers as a file of that layout has them.
FileMetadata SampleIn(Letter letter, FileHeader header) {
  FileMetadata metadata = Sample();
  metadata.letter = letter;
  metadata.header = header;
  metadata.layout = Placed(metadata.layout, letter);
  metadata.file_bytes = metadata.layout.file_bytes(letter);
  return metadata;
}

void ExpectHas(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin\n" << text;
}
void ExpectHasNot(const std::string& text, const std::string& part) {
  EXPECT_EQ(text.find(part), std::string::npos) << part << "\nin\n" << text;
}

// The lines whose first word is `word`, with single spaces.
std::vector<std::string> LinesOf(const std::string& text, std::string_view word) {
  std::vector<std::string> lines;
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      if (line.starts_with(std::string(word) + " ")) lines.push_back(line);
      line.clear();
    } else if (c != ' ' || (!line.empty() && line.back() != ' ')) {
      line += c;
    }
  }
  return lines;
}

TEST(InspectTest, TheListingSaysFirstWhatTheFileIsAndWhoWritesSuchFiles) {
  const std::string text = DescribeText(Sample(), "Ckpt12-Rank0.fti");
  EXPECT_TRUE(text.starts_with("Ckpt12-Rank0.fti: FTI-FF checkpoint file, layout F\n")) << text;
  ExpectHas(text, "FTI after 1.6 (2022), or Cairn\n");
  ExpectHas(text, "all containers, then the records of all blocks, the file record last\n");
  ExpectHas(text, "87 B of 3 variables, in 5 containers of 2 blocks; 1 container is empty\n");
}

TEST(InspectTest, TheListingHasTheFileRecordUnderTheFormatsNames) {
  const FileMetadata metadata = Sample();
  const std::string text = DescribeText(metadata, "sample");
  ExpectHas(text, "\nfile record at offset 446\n");
  EXPECT_EQ(LinesOf(text, "ckptId"), std::vector<std::string>{"ckptId 12 number of the checkpoint"});
  EXPECT_EQ(LinesOf(text, "ckptSize"), std::vector<std::string>{"ckptSize 552 552 B the whole file"});
  EXPECT_EQ(LinesOf(text, "metaSize"), std::vector<std::string>{"metaSize 420 420 B all records"});
  EXPECT_EQ(LinesOf(text, "dataSize"), std::vector<std::string>{"dataSize 132 132 B all containers"});
  EXPECT_EQ(LinesOf(text, "fs"), std::vector<std::string>{"fs 552 552 B the same as ckptSize"});
  EXPECT_EQ(LinesOf(text, "maxFs"), std::vector<std::string>{"maxFs -1 - not level 3"});
  EXPECT_EQ(LinesOf(text, "ptFs"), std::vector<std::string>{"ptFs -1 - not level 2"});
  EXPECT_EQ(LinesOf(text, "timestamp").size(), 1u);
  EXPECT_TRUE(LinesOf(text, "timestamp")[0].starts_with("timestamp 77 the low 32 bits")) << text;
  ExpectHas(text, metadata.checksum_hex);
  ExpectHas(text, HexOf(metadata.record_hash));
}

TEST(InspectTest, TheListingHasTheVariablesThenBlocksWithALineForEachChunk) {
  const FileMetadata metadata = Sample();
  const std::string text = DescribeText(metadata, "sample");
  EXPECT_EQ(LinesOf(text, "id")[0], "id bytes containers");
  EXPECT_EQ(LinesOf(text, "3")[0], "3 57 57 B 2");
  EXPECT_EQ(LinesOf(text, "9")[0], "9 0 0 B 1");
  EXPECT_EQ(LinesOf(text, "5")[0], "5 30 30 B 2, 1 empty");
  ExpectHas(text, "\nblock 1: numvars 3, dbsize 104 (104 B), records at offset 132\n");
  ExpectHas(text, "\nblock 2: numvars 2, dbsize 28 (28 B), records at offset 318\n");
  EXPECT_EQ(LinesOf(text, "id")[1], "id containerid hascontent dptr fptr chunksize containersize hash");
  EXPECT_EQ(LinesOf(text, "3")[1], "3 0 1 0 0 40 40 " + HexOf(metadata.chunk_hashes[0]));
  EXPECT_EQ(LinesOf(text, "3")[2], "3 1 1 40 104 17 20 " + HexOf(metadata.chunk_hashes[3]) + " partly filled");
  EXPECT_EQ(LinesOf(text, "5")[2], "5 1 0 64 124 0 8 " + HexOf(metadata.chunk_hashes[4]) + " empty");
}

TEST(InspectTest, NoLineEndsInSpaces) {
  ExpectHasNot(DescribeText(Sample(), "sample"), " \n");
}

TEST(InspectTest, LayoutsAAndBHaveTheirRecordsInFrontAndCountThemToTheBlocks) {
  for (const auto& [letter, file_record, chunk] :
       {std::tuple(Letter::kA, 96u, 64u), std::tuple(Letter::kB, 90u, 62u)}) {
    const FileMetadata metadata = SampleIn(letter, {.timestamp_ns = 1'520'000'000'123'456'789});
    const std::string text = DescribeText(metadata, "sample");
    ExpectHas(text, "the file record, then block after block");
    ExpectHas(text, "file record at offset 0\n");
    ExpectHas(text, "only the file's name tells it");
    ExpectHas(text, "2018-03-02 14:13:20 UTC\n");
    ExpectHasNot(text, "metaSize");
    ExpectHasNot(text, "dataSize");
    const std::uint64_t dbsize = 12 + 3 * chunk + 104;
    ExpectHas(text, fmt::format("block 1: numvars 3, dbsize {} (", dbsize));
    ExpectHas(text, fmt::format("records at offset {}\n", file_record));
    ExpectHas(text, fmt::format("records at offset {}\n", file_record + dbsize));
    const json described = DescribeJson(metadata, "sample");
    EXPECT_EQ(described["record_offset"], 0);
    EXPECT_FALSE(described["file"].contains("ckptId"));
    EXPECT_FALSE(described["file"].contains("dataSize"));
    EXPECT_EQ(described["blocks"][1]["meta_offset"], file_record + dbsize);
    EXPECT_EQ(described["blocks"][0]["chunks"][0].contains("hasCkpt"), letter == Letter::kB);
  }
}

TEST(InspectTest, EveryLayoutNamesItsReleases) {
  std::set<std::string> releases;
  for (const Letter letter : {Letter::kA, Letter::kB, Letter::kC, Letter::kD, Letter::kE, Letter::kF}) {
    const std::string text = DescribeText(SampleIn(letter, {}), "x");
    ExpectHas(text, fmt::format("checkpoint file, layout {}\n", static_cast<char>(letter)));
    ExpectHas(text, std::string(ReleasesOf(letter)) + "\n");
    EXPECT_EQ(DescribeJson(SampleIn(letter, {}), "x")["layout"], std::string(1, static_cast<char>(letter)));
    releases.insert(std::string(ReleasesOf(letter)));
  }
  EXPECT_EQ(releases.size(), 6u);
}

TEST(InspectTest, LevelsTwoAndThreeShowInTheFileRecord) {
  const std::string text = DescribeText(SampleIn(Letter::kF, {.file_bytes_max = 5000, .partner_bytes = 2048}), "x");
  EXPECT_TRUE(LinesOf(text, "maxFs")[0].starts_with("maxFs 5000 4.9 KiB level 3")) << text;
  EXPECT_TRUE(LinesOf(text, "ptFs")[0].starts_with("ptFs 2048 2.0 KiB level 2")) << text;
}

TEST(InspectTest, AClockThatFailedIsNamed) {
  const FileMetadata metadata = SampleIn(Letter::kC, {.timestamp_ns = ~std::uint64_t{0}});
  ExpectHas(DescribeText(metadata, "x"), "the writer's clock failed");
  EXPECT_EQ(DescribeJson(metadata, "x")["file"]["timestamp"], -1);
}

TEST(InspectTest, AFileWithoutContainersIsListed) {
  FileMetadata metadata;
  metadata.file_bytes = metadata.layout.file_bytes(Letter::kF);
  ExpectHas(DescribeText(metadata, "x"), "0 B of 0 variables, in 0 containers of 0 blocks\n");
  EXPECT_EQ(DescribeJson(metadata, "x")["blocks"], json::array());
}

TEST(InspectTest, TheJsonHasTheSameUnderTheFormatsNames) {
  const json described = DescribeJson(Sample(), "Ckpt12-Rank0.fti");
  EXPECT_EQ(described["name"], "Ckpt12-Rank0.fti");
  EXPECT_EQ(described["layout"], "F");
  EXPECT_EQ(described["releases"], ReleasesOf(Letter::kF));
  EXPECT_EQ(described["file"]["ckptId"], 12);
  EXPECT_EQ(described["file"]["fs"], 132 + 420);
  EXPECT_EQ(described["variables"], json::parse(R"([{"id": 3, "bytes": 57, "containers": 2},
                                                    {"id": 9, "bytes": 0, "containers": 1},
                                                    {"id": 5, "bytes": 30, "containers": 2}])"));
  EXPECT_EQ(described["blocks"].size(), 2u);
  EXPECT_EQ(described["blocks"][1]["numvars"], 2);
  EXPECT_EQ(described["blocks"][1]["meta_offset"], 318);
  const json& chunk = described["blocks"][1]["chunks"][0];
  EXPECT_EQ(chunk["id"], 3);
  EXPECT_EQ(chunk["containerid"], 1);
  EXPECT_EQ(chunk["hascontent"], true);
  EXPECT_EQ(chunk["hasCkpt"], true);
  EXPECT_EQ(chunk["dptr"], 40);
  EXPECT_EQ(chunk["fptr"], 104);
  EXPECT_EQ(chunk["chunksize"], 17);
  EXPECT_EQ(chunk["containersize"], 20);
}

TEST(InspectTest, ACodeFileHasNoVariablesAndSaysWhatItIsFor) {
  const EncodedFile encoded{.letter = Letter::kF,
                            .checkpoint_id = 3,
                            .timestamp_ns = 9,
                            .code_bytes = 6646,
                            .checkpoint_bytes = 4634,
                            .checksum_hex = std::string(32, 'c')};
  const std::string text = DescribeText(encoded, "Ckpt3-RSed0.fti");
  EXPECT_TRUE(text.starts_with("Ckpt3-RSed0.fti: FTI-FF level 3 code file, layout F\n")) << text;
  ExpectHas(text, "6.5 KiB that help to rebuild lost checkpoint files");
  ExpectHas(text, "file record at offset 6646\n");
  EXPECT_TRUE(LinesOf(text, "ckptSize")[0].starts_with("ckptSize 4634 ")) << text;
  EXPECT_TRUE(LinesOf(text, "maxFs")[0].starts_with("maxFs 6646 ")) << text;
  ExpectHas(text, std::string(32, 'c') + "  MD5 of the code bytes\n");
  const json described = DescribeJson(encoded, "Ckpt3-RSed0.fti");
  EXPECT_EQ(described["layout"], "F");
  EXPECT_EQ(described["file"]["ckptId"], 3);
  EXPECT_EQ(described["file"]["fs"], 6646);
  EXPECT_EQ(described["file"]["ckptSize"], 4634);
  EXPECT_FALSE(described.contains("blocks"));
}

TEST(InspectTest, ACodeFileOfCOrDSaysSoAndOneOfAHasNoId) {
  EXPECT_EQ(DescribeJson(EncodedFile{.letter = Letter::kC, .checksum_hex = {}}, "x")["layout"], "C or D");
  ExpectHas(DescribeText(EncodedFile{.letter = Letter::kC, .checksum_hex = {}}, "x"), "FTI 1.3 (2019) or FTI 1.4.0");
  EXPECT_FALSE(DescribeJson(EncodedFile{.letter = Letter::kA, .checksum_hex = {}}, "x")["file"].contains("ckptId"));
}

}  // namespace
}  // namespace cairn::ftiff
