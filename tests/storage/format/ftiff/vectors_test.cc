// Files of FTI itself, six releases, against what is known of them (index.json and a JSON for each scenario).

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/inspect.h"
#include "tests/storage/format/ftiff/replay.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/vectors.h"

namespace cairn::ftiff {
namespace {

using ::cairn::testing::ReadVector;
using ::cairn::testing::VectorsPath;
using nlohmann::json;
using testing::LoadVector;
using testing::ReaderOf;

std::string Md5Hex(std::string_view bytes) {
  return HexOf(Md5(std::as_bytes(std::span(bytes.data(), bytes.size()))));
}

absl::StatusOr<FileMetadata> Decode(const std::string& bytes) {
  return DecodeMetadata("vector", bytes.size(), ReaderOf(bytes));
}

// Calls `visit` with each file of each scenario of one layout, all six of them.
template <typename Visit>
void ForEachFile(Visit visit) {
  const auto root = VectorsPath("ftiff");
  if (!root.has_value()) return;
  const json index = json::parse(ReadVector(*root + "/index.json"));
  for (const json& entry : index["scenarios"]) {
    if (!entry["layout"].is_string() || entry["layout"].get<std::string>().size() != 1) continue;
    const json scenario = json::parse(ReadVector(*root + "/" + entry["json"].get<std::string>()));
    for (const json& file : scenario["files"]) {
      SCOPED_TRACE(entry["scenario"].get<std::string>() + "/" + file["name"].get<std::string>());
      visit(*root, static_cast<Letter>(entry["layout"].get<std::string>()[0]), file);
    }
  }
}

bool TimeIsWhole(Letter letter) {
  return letter != Letter::kE && letter != Letter::kF;
}

std::uint64_t TimeOf(Letter letter, const json& fields) {
  const auto time = static_cast<std::uint64_t>(fields["timestamp"].get<std::int64_t>());
  return TimeIsWhole(letter) ? time : time & 0xffff'ffff;
}

void ExpectMetadata(const json& file, Letter letter, const FileMetadata& metadata) {
  const json& expected = file["file_meta"];
  EXPECT_EQ(metadata.letter, letter);
  EXPECT_EQ(metadata.checksum_hex, expected["checksum"].get<std::string>());
  EXPECT_EQ(HexOf(metadata.record_hash), expected["myhash"].get<std::string>());
  EXPECT_EQ(metadata.header.checkpoint_id, expected.value("ckptId", 0));
  EXPECT_EQ(metadata.file_bytes, expected["ckptSize"].get<std::uint64_t>());
  EXPECT_EQ(metadata.file_bytes, expected["fs"].get<std::uint64_t>());
  EXPECT_EQ(metadata.layout.file_bytes(letter), metadata.file_bytes);
  EXPECT_EQ(metadata.layout.meta_bytes(letter),
            expected.value("metaSize", metadata.file_bytes - metadata.layout.data_bytes));
  EXPECT_EQ(metadata.layout.data_bytes, expected.value("dataSize", metadata.layout.data_bytes));
  EXPECT_EQ(metadata.header.file_bytes_max, expected["maxFs"].get<std::int64_t>());
  EXPECT_EQ(metadata.header.partner_bytes, expected["ptFs"].get<std::int64_t>());
  EXPECT_EQ(metadata.header.timestamp_ns, TimeOf(letter, expected));
  EXPECT_EQ(metadata.layout.containers, Placed(metadata.layout, letter).containers);
  std::size_t next = 0;
  ASSERT_EQ(metadata.layout.block_containers.size(), file["blocks"].size());
  for (std::size_t b = 0; b < file["blocks"].size(); ++b) {
    const json& block = file["blocks"][b];
    EXPECT_EQ(metadata.layout.block_containers[b], block["numvars"].get<std::uint32_t>());
    for (const json& chunk : block["vars"]) {
      ASSERT_LT(next, metadata.layout.containers.size());
      EXPECT_EQ(metadata.layout.containers[next], (Container{.id = chunk["id"],
                                                             .index = chunk["containerid"],
                                                             .has_content = chunk["hascontent"],
                                                             .in_file_before = chunk.value("hasCkpt", false),
                                                             .variable_offset = chunk["dptr"],
                                                             .file_offset = chunk["fptr"],
                                                             .chunk_bytes = chunk["chunksize"],
                                                             .container_bytes = chunk["containersize"]}));
      EXPECT_EQ(HexOf(metadata.chunk_hashes[next]), chunk["hash"].get<std::string>());
      ++next;
    }
  }
  EXPECT_EQ(next, metadata.layout.containers.size());
}

// The variables, put together from their chunks, are what the run had in memory.
void ExpectVariables(const json& file, const FileMetadata& metadata, const std::string& bytes) {
  std::map<std::int32_t, std::string> variables;
  for (const Container& c : metadata.layout.containers) {
    if (c.chunk_bytes > 0) variables[c.id] += bytes.substr(c.file_offset, c.chunk_bytes);
    variables.try_emplace(c.id);
  }
  ASSERT_EQ(variables.size(), file["vars"].size());
  for (const json& variable : file["vars"]) {
    const std::string& found = variables[variable["id"].get<std::int32_t>()];
    EXPECT_EQ(found.size(), variable["bytes"].get<std::size_t>()) << variable["id"];
    EXPECT_EQ(Md5Hex(found), variable["md5"].get<std::string>()) << variable["id"];
  }
}

std::string TextOf(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Bytes of `made` that need not be those of `stored`.
void Mask(std::string* made, const std::string& stored, std::size_t offset, std::size_t bytes) {
  ASSERT_EQ(made->size(), stored.size());
  made->replace(offset, bytes, stored, offset, bytes);
}

constexpr std::size_t kChecksumAndHash = kChecksumBytes + sizeof(Md5Digest);

// Metadata made from what was decoded equals the file's, byte by byte, except the unused last byte; and, where FTI
// covered containers without content, except the checksum and the record's hash over it.
void ExpectSameBytesInF(const json& file, const FileMetadata& metadata, const std::string& stored) {
  std::string made = TextOf(EncodeMetadata(metadata.layout, metadata.chunk_hashes, metadata.header));
  ASSERT_EQ(made.size(), stored.size());
  Mask(&made, stored, made.size() - 1, 1);
  const bool emptied = std::any_of(metadata.layout.containers.begin(), metadata.layout.containers.end(),
                                   [](const Container& c) { return !c.has_content; });
  if (emptied) {
    EXPECT_EQ(file["checks"]["reader_ok"], false);
    Mask(&made, stored, made.size() - kLayoutF.file_record_bytes, kChecksumAndHash);
  }
  EXPECT_EQ(made, stored);
}

// In A: all but the three bytes of the gap in each chunk record, and so the checksum, too; it is the file's own here.
void ExpectSameBytesInA(const FileMetadata& metadata, const ReadAt& read) {
  const auto stored_at = [&read](std::uint64_t offset, std::size_t bytes) {
    std::string stored(bytes, '\0');
    EXPECT_TRUE(read(offset, std::as_writable_bytes(std::span(stored))).ok());
    return stored;
  };
  Md5Digest checksum;
  for (std::size_t i = 0; i < checksum.size(); ++i) {
    checksum[i] = static_cast<std::byte>(std::stoi(metadata.checksum_hex.substr(2 * i, 2), nullptr, 16));
  }
  EXPECT_EQ(TextOf(EncodeFileRecordA(metadata.layout, metadata.header, checksum)), stored_at(0, kFileRecordBytesA));
  std::size_t first = 0;
  const std::vector<std::vector<std::byte>> blocks =
      EncodeBlocksA(metadata.layout, metadata.registered, metadata.chunk_hashes);
  ASSERT_EQ(blocks.size(), metadata.layout.block_containers.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    std::string made = TextOf(blocks[b]);
    const std::string stored = stored_at(metadata.layout.containers[first].file_offset - made.size(), made.size());
    first += metadata.layout.block_containers[b];
    constexpr std::size_t kGap = 13, kGapBytes = 3;
    for (std::size_t at = kLayoutA.block_record_bytes; at < made.size(); at += kLayoutA.chunk_record_bytes) {
      Mask(&made, stored, at + kGap, kGapBytes);
    }
    EXPECT_EQ(made, stored) << "block " << b;
  }
}

// Tells whether the file is whole.
bool ExpectWholeFile(const json& file, Letter letter, const std::string& bytes) {
  const auto metadata = Decode(bytes);
  EXPECT_TRUE(metadata.ok()) << metadata.status();
  if (!metadata.ok()) return false;
  ExpectMetadata(file, letter, *metadata);
  if (letter == Letter::kF) ExpectSameBytesInF(file, *metadata, bytes.substr(metadata->layout.data_bytes));
  if (letter == Letter::kA) ExpectSameBytesInA(*metadata, ReaderOf(bytes));
  EXPECT_EQ(DecodeEncoded("vector", bytes.size(), ReaderOf(bytes)).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const bool whole = file["checks"]["chunk_hash_ok"];
  for (const std::size_t threads : {1, 3}) {
    const auto verdict = VerifyData("vector", *metadata, ReaderOf(bytes), threads);
    EXPECT_TRUE(verdict.ok()) << verdict.status();
    if (verdict.ok()) {
      EXPECT_EQ(verdict->ok(), whole);
    }
  }
  if (whole) ExpectVariables(file, *metadata, bytes);
  return whole;
}

TEST(FtiVectorsTest, CheckpointFilesOfAllLayoutsAreDecodedVerifiedAndInAAndFEncodedAgain) {
  std::map<Letter, int> files;
  std::map<std::string, int> kinds;
  std::vector<std::string> bad;
  ForEachFile([&](const std::string& root, Letter letter, const json& file) {
    if (file["kind"] == "rs" || file["stored"].is_null()) return;
    if (!ExpectWholeFile(file, letter, LoadVector(root, file))) bad.push_back(file["stored"]);
    ++files[letter];
    ++kinds[file["kind"]];
  });
  if (!VectorsPath("ftiff").has_value()) return;
  EXPECT_GT(files[Letter::kA], 30);
  EXPECT_EQ(files[Letter::kB], 4);
  EXPECT_EQ(files[Letter::kC], 4);
  EXPECT_EQ(files[Letter::kD], 4);
  EXPECT_GT(files[Letter::kE], 15);
  EXPECT_GT(files[Letter::kF], 80);
  for (const char* kind : {"ckpt", "partner", "dcp"}) EXPECT_GT(kinds[kind], 0) << kind;
  // A full checkpoint after a differential one has the data of neither.
  EXPECT_EQ(bad, std::vector<std::string>{"dcp-then-full-F/Ckpt2-Rank0.fti"});
}

// The regions of a file whose data is not there; reading anything else fails.
class MetadataRegions {
 public:
  explicit MetadataRegions(const json& file) {
    for (const json& region : file["meta_regions"]) {
      const std::string hex = region["hex"];
      std::string& bytes = regions_[region["offset"].get<std::uint64_t>()];
      for (std::size_t i = 0; i < hex.size(); i += 2) {
        bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
      }
    }
  }

  absl::Status Read(std::uint64_t offset, std::span<std::byte> target) const {
    const auto after = regions_.upper_bound(offset);
    if (after == regions_.begin()) return Internal("offset {}: the data was read", offset);
    const auto& [begin, bytes] = *std::prev(after);
    if (offset - begin > bytes.size() || target.size() > bytes.size() - (offset - begin)) {
      return Internal("offset {}: the data was read", offset);
    }
    std::memcpy(target.data(), bytes.data() + (offset - begin), target.size());
    return absl::OkStatus();
  }
  const std::string& last() const { return regions_.rbegin()->second; }

 private:
  std::map<std::uint64_t, std::string> regions_;
};

// Of the full-size worked example only the metadata is there; decoding reads nothing else, except that a record is
// looked for at the end of files that have it in front.
TEST(FtiVectorsTest, TheWorkedExampleAtFullSizeIsDecodedFromItsMetadataAlone) {
  std::map<Letter, int> files;
  ForEachFile([&](const std::string&, Letter letter, const json& file) {
    if (!file["stored"].is_null()) return;
    const std::uint64_t file_bytes = file["size"];
    const MetadataRegions regions(file);
    const ReadAt read = [&](std::uint64_t offset, std::span<std::byte> target) {
      const bool tail = letter == Letter::kA && offset + target.size() == file_bytes && target.size() < 128;
      return tail ? absl::OkStatus() : regions.Read(offset, target);
    };
    const auto metadata = DecodeMetadata("vector", file_bytes, read);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    ExpectMetadata(file, letter, *metadata);
    if (letter == Letter::kF) ExpectSameBytesInF(file, *metadata, regions.last());
    if (letter == Letter::kA) ExpectSameBytesInA(*metadata, read);
    ++files[letter];
  });
  if (!VectorsPath("ftiff").has_value()) return;
  EXPECT_EQ(files[Letter::kA], 7);
  EXPECT_EQ(files[Letter::kF], 7);
}

// metaSize and dataSize are whatever the memory held there, and the record's hash covers them. In A that is so of the
// gap, which no hash covers.
void ExpectSameBytesEncoded(const EncodedFile& encoded, const std::string& stored) {
  const RecordTable& table = TableOf(encoded.letter);
  std::string made = TextOf(EncodeEncodedRecord(encoded));
  ASSERT_EQ(made.size(), stored.size());
  if (encoded.letter == Letter::kF) {
    for (const FieldPlace place : {table.meta_bytes, table.data_bytes}) Mask(&made, stored, place.offset, place.bytes);
    Mask(&made, stored, kMetadataHashOffset, sizeof(Md5Digest));
    Mask(&made, stored, made.size() - 1, 1);
  } else {
    constexpr std::size_t kGap = kChecksumAndHash, kGapBytes = 7;
    Mask(&made, stored, kGap, kGapBytes);
  }
  EXPECT_EQ(made, stored);
}

TEST(FtiVectorsTest, CodeFilesAreDecodedAndInAAndFEncodedAgain) {
  std::map<Letter, int> files;
  ForEachFile([&](const std::string& root, Letter letter, const json& file) {
    if (file["kind"] != "rs") return;
    const std::string bytes = LoadVector(root, file);
    const auto encoded = DecodeEncoded("vector", bytes.size(), ReaderOf(bytes));
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    const json& expected = file["file_meta"];
    EXPECT_EQ(encoded->letter, letter);
    EXPECT_EQ(encoded->checkpoint_id, expected.value("ckptId", 0));
    EXPECT_EQ(encoded->timestamp_ns, TimeOf(letter, expected));
    EXPECT_EQ(encoded->code_bytes, file["trailer_offset"].get<std::uint64_t>());
    EXPECT_EQ(encoded->code_bytes, expected["maxFs"].get<std::uint64_t>());
    EXPECT_EQ(encoded->checkpoint_bytes, expected["ckptSize"].get<std::uint64_t>());
    EXPECT_EQ(encoded->checksum_hex, Md5Hex(bytes.substr(0, encoded->code_bytes)));
    if (letter != Letter::kE) ExpectSameBytesEncoded(*encoded, bytes.substr(encoded->code_bytes));
    EXPECT_EQ(Decode(bytes).status().code(), absl::StatusCode::kFailedPrecondition);
    ++files[letter];
  });
  if (!VectorsPath("ftiff").has_value()) return;
  EXPECT_EQ(files[Letter::kA], 4);
  EXPECT_EQ(files[Letter::kE], 3);
  EXPECT_EQ(files[Letter::kF], 12);
}

TEST(FtiVectorsTest, DamagedFilesGetTheirVerdict) {
  const auto root = VectorsPath("ftiff");
  if (!root.has_value()) return;
  const json scenario = json::parse(ReadVector(*root + "/corrupt/corrupt.json"));
  std::map<std::string, int> files;
  for (const json& file : scenario["files"]) {
    SCOPED_TRACE(file["name"].get<std::string>() + ": " + file["reason"].get<std::string>());
    const std::string bytes = LoadVector(*root, file);
    const auto metadata = Decode(bytes);
    ++files[file["layout"]];
    if (!metadata.ok()) {
      EXPECT_FALSE(file["must_accept"]) << metadata.status();
      EXPECT_EQ(metadata.status().code(), absl::StatusCode::kDataLoss) << metadata.status();
      continue;
    }
    const auto verdict = VerifyData("vector", *metadata, ReaderOf(bytes), 2);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->ok(), file["must_accept"].get<bool>());
  }
  EXPECT_EQ(files["A"], 12);
  EXPECT_EQ(files["F"], 13);
}

TEST(FtiVectorsTest, TheListingOfAFileOfFtiHasAllItsChunks) {
  const auto root = VectorsPath("ftiff");
  if (!root.has_value()) return;
  const std::string bytes = ReadVector(*root + "/types-F/Ckpt1-Rank0.fti");
  const json scenario = json::parse(ReadVector(*root + "/types-F/types-F.json"));
  const json& blocks = scenario["files"][0]["blocks"];
  const auto metadata = Decode(bytes);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  const json described = DescribeJson(*metadata, "types");
  ASSERT_EQ(described["blocks"].size(), blocks.size());
  EXPECT_EQ(described["blocks"][0]["chunks"], blocks[0]["vars"]);
  EXPECT_EQ(described["blocks"][0]["dbsize"], blocks[0]["dbsize"]);
}

}  // namespace
}  // namespace cairn::ftiff
