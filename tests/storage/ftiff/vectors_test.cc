// Files of FTI itself, six releases, against what is known of them (index.json and a JSON for each scenario).

#include <gtest/gtest.h>
#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "storage/base/status.h"
#include "storage/ftiff/codec.h"
#include "storage/ftiff/inspect.h"
#include "tests/storage/ftiff/sample_file.h"
#include "tests/support/vectors.h"

namespace cairn::ftiff {
namespace {

using ::cairn::testing::ReadVector;
using ::cairn::testing::VectorsPath;
using nlohmann::json;
using testing::ReaderOf;

std::string Gunzip(std::string packed, std::size_t bytes) {
  std::string plain(bytes, '\0');
  inflate_state state;
  isal_inflate_init(&state);
  state.crc_flag = ISAL_GZIP;
  state.next_in = reinterpret_cast<std::uint8_t*>(packed.data());
  state.avail_in = static_cast<std::uint32_t>(packed.size());
  state.next_out = reinterpret_cast<std::uint8_t*>(plain.data());
  state.avail_out = static_cast<std::uint32_t>(plain.size());
  EXPECT_EQ(isal_inflate(&state), ISAL_DECOMP_OK);
  EXPECT_EQ(state.avail_out, 0u);
  return plain;
}

std::string Md5Hex(std::string_view bytes) {
  return HexOf(Md5(std::as_bytes(std::span(bytes.data(), bytes.size()))));
}

// The stored bytes of a file that a scenario describes.
std::string Load(const std::string& root, const json& file) {
  std::string bytes = ReadVector(root + "/" + file["stored"].get<std::string>());
  if (file.value("stored_encoding", "") == "gzip") bytes = Gunzip(std::move(bytes), file["size"]);
  EXPECT_EQ(Md5Hex(bytes), file["md5"].get<std::string>());
  return bytes;
}

absl::StatusOr<FileMetadata> Decode(const std::string& bytes) {
  return DecodeMetadata("vector", bytes.size(), ReaderOf(bytes));
}

// Calls `visit` with each scenario of a layout in `layouts` that has files as a run wrote them.
template <typename Visit>
void ForEachFile(std::string_view layouts, Visit visit) {
  const auto root = VectorsPath("ftiff");
  if (!root.has_value()) return;
  const json index = json::parse(ReadVector(*root + "/index.json"));
  for (const json& entry : index["scenarios"]) {
    if (!entry["layout"].is_string()) continue;
    const std::string layout = entry["layout"];
    if (layout.size() != 1 || layouts.find(layout) == std::string_view::npos) continue;
    const json scenario = json::parse(ReadVector(*root + "/" + entry["json"].get<std::string>()));
    for (const json& file : scenario["files"]) {
      SCOPED_TRACE(entry["scenario"].get<std::string>() + "/" + file["name"].get<std::string>());
      visit(*root, layout, file);
    }
  }
}

void ExpectMetadata(const json& file, const FileMetadata& metadata) {
  const json& expected = file["file_meta"];
  EXPECT_EQ(metadata.checksum_hex, expected["checksum"].get<std::string>());
  EXPECT_EQ(HexOf(metadata.record_hash), expected["myhash"].get<std::string>());
  EXPECT_EQ(metadata.header.checkpoint_id, expected["ckptId"].get<std::int32_t>());
  EXPECT_EQ(metadata.file_bytes, expected["ckptSize"].get<std::uint64_t>());
  EXPECT_EQ(metadata.layout.meta_bytes(Letter::kF), expected["metaSize"].get<std::uint64_t>());
  EXPECT_EQ(metadata.layout.data_bytes, expected["dataSize"].get<std::uint64_t>());
  EXPECT_EQ(metadata.header.file_bytes_max, expected["maxFs"].get<std::int64_t>());
  EXPECT_EQ(metadata.header.partner_bytes, expected["ptFs"].get<std::int64_t>());
  EXPECT_EQ(metadata.header.timestamp_ns, expected["timestamp"].get<std::uint64_t>());
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
                                                             .in_file_before = chunk["hasCkpt"],
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
    variables[c.id] += bytes.substr(c.file_offset, c.chunk_bytes);
  }
  ASSERT_EQ(variables.size(), file["vars"].size());
  for (const json& variable : file["vars"]) {
    const std::string& found = variables[variable["id"].get<std::int32_t>()];
    EXPECT_EQ(found.size(), variable["bytes"].get<std::size_t>()) << variable["id"];
    EXPECT_EQ(Md5Hex(found), variable["md5"].get<std::string>()) << variable["id"];
  }
}

// Metadata made from what was decoded equals the file's, byte by byte, except the unused last byte; and, where FTI
// covered containers without content, except the checksum and the record's hash over it.
void ExpectSameBytesEncoded(const json& file, const FileMetadata& metadata, std::string stored) {
  const std::vector<std::byte> encoded = EncodeMetadata(metadata.layout, metadata.chunk_hashes, metadata.header);
  std::string made(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  ASSERT_EQ(made.size(), stored.size());
  made.back() = stored.back();
  const bool emptied = std::any_of(metadata.layout.containers.begin(), metadata.layout.containers.end(),
                                   [](const Container& c) { return !c.has_content; });
  if (emptied) {
    EXPECT_EQ(file["checks"]["reader_ok"], false);
    constexpr std::size_t kBoth = 33 + 16;
    made.replace(made.size() - kLayoutF.file_record_bytes, kBoth,
                 stored.substr(stored.size() - kLayoutF.file_record_bytes, kBoth));
  }
  EXPECT_EQ(made, stored);
}

TEST(FtiVectorsTest, LayoutFIsDecodedVerifiedAndEncodedAgain) {
  int files = 0, bad_files = 0;
  ForEachFile("F", [&](const std::string& root, const std::string&, const json& file) {
    if (file["kind"] == "rs" || file["stored"].is_null()) return;
    const std::string bytes = Load(root, file);
    const auto metadata = Decode(bytes);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    ExpectMetadata(file, *metadata);
    ExpectSameBytesEncoded(file, *metadata, bytes.substr(metadata->layout.data_bytes));
    const auto verdict = VerifyData("vector", *metadata, ReaderOf(bytes));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->bad.empty(), file["checks"]["chunk_hash_ok"].get<bool>());
    if (verdict->bad.empty()) {
      ExpectVariables(file, *metadata, bytes);
    } else {
      ++bad_files;
    }
    ++files;
  });
  if (!VectorsPath("ftiff").has_value()) return;
  EXPECT_GT(files, 80);
  EXPECT_EQ(bad_files, 1) << "the full checkpoint after a differential one";
}

// Of the full-size worked example only the metadata is there; decoding reads nothing else.
TEST(FtiVectorsTest, TheWorkedExampleAtFullSizeIsDecodedFromItsMetadataAlone) {
  int files = 0;
  ForEachFile("F", [&](const std::string&, const std::string&, const json& file) {
    if (!file["stored"].is_null()) return;
    const json& region = file["meta_regions"][0];
    const std::uint64_t begin = region["offset"];
    std::string meta;
    for (std::size_t i = 0; i < region["hex"].get<std::string>().size(); i += 2) {
      meta.push_back(static_cast<char>(std::stoi(region["hex"].get<std::string>().substr(i, 2), nullptr, 16)));
    }
    const ReadAt read = [&, inner = ReaderOf(meta)](std::uint64_t offset, std::span<std::byte> target) {
      return offset < begin ? Internal("the data was read") : inner(offset - begin, target);
    };
    const auto metadata = DecodeMetadata("vector", file["size"], read);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    ExpectMetadata(file, *metadata);
    ExpectSameBytesEncoded(file, *metadata, meta);
    ++files;
  });
  if (VectorsPath("ftiff").has_value()) {
    EXPECT_EQ(files, 7);
  }
}

TEST(FtiVectorsTest, OtherLayoutsAndCodeFilesAreNamed) {
  std::map<std::string, int> files;
  ForEachFile("ABCDEF", [&](const std::string& root, const std::string& layout, const json& file) {
    const bool encoded = file["kind"] == "rs";
    if ((layout == "F" && !encoded) || file["stored"].is_null()) return;
    const absl::Status status = Decode(Load(root, file)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_NE(MessageOf(status).find("layout " + layout), std::string_view::npos) << status;
    EXPECT_EQ(MessageOf(status).find("code file") != std::string_view::npos, encoded) << status;
    ++files[layout];
  });
  if (!VectorsPath("ftiff").has_value()) return;
  for (const char* layout : {"A", "B", "C", "D", "E", "F"}) EXPECT_GT(files[layout], 0) << layout;
}

TEST(FtiVectorsTest, DamagedFilesGetTheirVerdict) {
  const auto root = VectorsPath("ftiff");
  if (!root.has_value()) return;
  const json scenario = json::parse(ReadVector(*root + "/corrupt/corrupt.json"));
  for (const json& file : scenario["files"]) {
    SCOPED_TRACE(file["name"].get<std::string>() + ": " + file["reason"].get<std::string>());
    const std::string bytes = Load(*root, file);
    const auto metadata = Decode(bytes);
    const bool is_f = file["layout"] == "F";
    if (!metadata.ok()) {
      EXPECT_FALSE(is_f && file["must_accept"]) << metadata.status();
      // What is still known as layout A is refused as such, whatever else is wrong with it.
      const bool named = metadata.status().code() == absl::StatusCode::kFailedPrecondition;
      EXPECT_TRUE(named || metadata.status().code() == absl::StatusCode::kDataLoss) << metadata.status();
      EXPECT_FALSE(named && is_f) << metadata.status();
      EXPECT_FALSE(!named && file["must_accept"]) << metadata.status();
      continue;
    }
    EXPECT_TRUE(is_f);
    const auto verdict = VerifyData("vector", *metadata, ReaderOf(bytes));
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_EQ(verdict->bad.empty(), file["must_accept"].get<bool>());
  }
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
