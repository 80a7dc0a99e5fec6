#include "storage/ftiff/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "storage/base/status.h"
#include "tests/storage/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

using testing::BlockOffset;
using testing::ChunkOffset;
using testing::DataOf;
using testing::FileOf;
using testing::HashesOf;
using testing::MixedLayout;
using testing::Overwrite;
using testing::ReaderOf;
using testing::Reseal;
using testing::TrailerOffset;

constexpr FileHeader kHeader = {
    .checkpoint_id = 12, .timestamp_ns = 0x1234'5678'9abc'def0, .file_bytes_max = 4711, .partner_bytes = -1};

absl::StatusOr<FileMetadata> Decode(const std::string& file) {
  return DecodeMetadata("sample", file.size(), ReaderOf(file));
}

bool AllChunksGood(const std::string& file, const FileMetadata& metadata) {
  const auto verdict = VerifyData("sample", metadata, ReaderOf(file));
  return verdict.ok() && verdict->bad.empty();
}

TEST(CodecTest, WhatIsEncodedIsDecoded) {
  const FileLayout layout = MixedLayout();
  const std::string file = FileOf(layout, kHeader);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->layout.containers, layout.containers);
  EXPECT_EQ(metadata->layout.block_containers, layout.block_containers);
  EXPECT_EQ(metadata->layout.data_bytes, layout.data_bytes);
  EXPECT_EQ(metadata->chunk_hashes, HashesOf(layout, DataOf(layout)));
  EXPECT_EQ(metadata->file_bytes, file.size());
  EXPECT_EQ(metadata->header.checkpoint_id, 12);
  EXPECT_EQ(metadata->header.timestamp_ns, 0x9abc'def0u) << "only the low 32 bits are stored";
  EXPECT_EQ(metadata->header.file_bytes_max, 4711);
  EXPECT_EQ(metadata->header.partner_bytes, -1);
  EXPECT_TRUE(AllChunksGood(file, *metadata));
}

TEST(CodecTest, AFileWithOneEmptyVariableIs176Bytes) {
  const std::vector<VariableSize> variables = {{1, 0}};
  const std::string file = FileOf(*PlanFresh(variables, Packing::kExact), {});
  EXPECT_EQ(file.size(), 176u);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(HexOf(metadata->chunk_hashes[0]), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_TRUE(AllChunksGood(file, *metadata));
}

TEST(CodecTest, TheLastByteIsZeroAndIgnored) {
  std::string file = FileOf(MixedLayout(), kHeader);
  EXPECT_EQ(file.back(), '\0');
  file.back() = '\x5a';
  EXPECT_TRUE(Decode(file).ok());
}

TEST(CodecTest, TheChecksumLeavesOutContainersWithoutContentAndCoveringThemIsAccepted) {
  const FileLayout layout = MixedLayout();
  std::string file = FileOf(layout, kHeader);
  std::vector<Md5Digest> hashes = HashesOf(layout, DataOf(layout));
  const std::string by_writer = HexOf(Md5(std::as_bytes(std::span(hashes))));
  hashes.pop_back();  // the emptied container
  const std::string by_reader = HexOf(Md5(std::as_bytes(std::span(hashes))));
  EXPECT_EQ(Decode(file)->checksum_hex, by_reader);

  file.replace(TrailerOffset(file), by_writer.size(), by_writer);
  Reseal(&file);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->checksum_hex, by_writer);

  file[TrailerOffset(file)] ^= 1;
  Reseal(&file);
  EXPECT_EQ(Decode(file).status().code(), absl::StatusCode::kDataLoss);
}

TEST(CodecTest, AnyPlanSurvivesEncodingAndDecoding) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 60; ++round) {
    std::set<std::int32_t> ids;
    std::vector<VariableSize> variables;
    const std::size_t count = 1 + random() % 30;
    while (variables.size() < count) {
      const auto id = static_cast<std::int32_t>(random() >> 33);
      if (ids.insert(id).second) variables.push_back({id, random() % 4 == 0 ? 0 : random() >> (random() % 17 + 46)});
    }
    const auto packing = round % 2 == 0 ? Packing::kExact : Packing::kAligned;
    const FileLayout layout = *PlanFresh(variables, packing);
    const FileHeader header = {.checkpoint_id = static_cast<std::int32_t>(round), .timestamp_ns = random()};
    const std::string file = FileOf(layout, header);
    ASSERT_EQ(file.size(), layout.file_bytes(Letter::kF));
    const auto metadata = Decode(file);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    EXPECT_EQ(metadata->layout.containers, layout.containers);
    EXPECT_EQ(metadata->layout.block_containers, layout.block_containers);
    EXPECT_TRUE(AllChunksGood(file, *metadata));
    if (HasFailure()) return;
  }
}

TEST(CodecTest, AnyTruncationIsDataLoss) {
  const std::string file = FileOf(MixedLayout(), kHeader);
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_EQ(Decode(file.substr(0, n)).status().code(), absl::StatusCode::kDataLoss) << "cut at " << n;
  }
  EXPECT_EQ(Decode(file + '\0').status().code(), absl::StatusCode::kDataLoss);
}

// What hashes protect: everything but the checkpoint id, the variables' ids, hasCkpt and hashes of what has no content.
struct Content {
  std::vector<Container> containers;
  std::vector<std::string> chunks;
  FileHeader header;
  bool operator==(const Content& other) const {
    return containers == other.containers && chunks == other.chunks &&
           header.timestamp_ns == other.header.timestamp_ns && header.file_bytes_max == other.header.file_bytes_max &&
           header.partner_bytes == other.header.partner_bytes;
  }
};

Content ContentOf(const std::string& file, const FileMetadata& metadata) {
  Content content{.containers = metadata.layout.containers, .chunks = {}, .header = metadata.header};
  for (Container& c : content.containers) {
    content.chunks.push_back(file.substr(c.file_offset, c.chunk_bytes));
    c.id = 0;
    c.in_file_before = false;
  }
  return content;
}

TEST(CodecTest, AnyFlippedBitIsRefusedOrChangesNothingThatAHashProtects) {
  const std::string file = FileOf(MixedLayout(), kHeader);
  const Content whole = ContentOf(file, *Decode(file));
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto metadata = Decode(damaged);
    if (!metadata.ok()) {
      EXPECT_EQ(metadata.status().code(), absl::StatusCode::kDataLoss) << "bit " << bit;
      ++refused;
    } else if (!AllChunksGood(damaged, *metadata)) {
      ++refused;
    } else {
      EXPECT_EQ(ContentOf(damaged, *metadata), whole) << "bit " << bit;
    }
  }
  // Not refused: unused bytes (45 tail, 1 trailer), stale hash (16), ids (4 + 4 bytes less sign and clashes), hasCkpt.
  EXPECT_GT(refused, file.size() * 8 - 8 * (45 + 1 + 16 + 4 + 5 * 4 + 5));
}

struct HostileField {
  const char* name;
  std::size_t offset;
  FieldPlace place;
  std::int64_t value;
};

TEST(CodecTest, FieldsThatContradictEachOtherAreDataLossNamingFileFieldAndOffset) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  const FileLayout layout = MixedLayout();
  const std::string file = FileOf(layout, kHeader);
  const std::size_t trailer = TrailerOffset(file);
  const RecordTable& f = kLayoutF;
  const ChunkFields& c = kLayoutF.chunk;
  const auto length = static_cast<std::int64_t>(file.size());
  const std::vector<HostileField> cases = {
      {"fs", trailer, f.fs, length - 1},
      {"fs", trailer, f.fs, -1},
      {"ckptSize", trailer, f.file_bytes, length + 1},
      {"ckptSize", trailer, f.file_bytes, kMin},
      {"dataSize", trailer, f.data_bytes, -1},
      {"dataSize", trailer, f.data_bytes, kMax},
      {"dataSize", trailer, f.data_bytes, kMin},
      {"dataSize", trailer, f.data_bytes, static_cast<std::int64_t>(trailer) + 1},
      {"metaSize", trailer, f.meta_bytes, -1},
      {"metaSize", trailer, f.meta_bytes, kMax},
      {"numvars", BlockOffset(layout, 0), f.block_chunks, std::numeric_limits<std::int32_t>::max()},
      {"numvars", BlockOffset(layout, 0), f.block_chunks, 0},
      {"numvars", BlockOffset(layout, 1), f.block_chunks, -1},
      {"numvars", BlockOffset(layout, 1), f.block_chunks, 3},
      {"dbsize", BlockOffset(layout, 0), f.block_bytes, 105},
      {"dbsize", BlockOffset(layout, 1), f.block_bytes, kMin},
      {"id", ChunkOffset(layout, 2), c.id, -5},
      {"containerid", ChunkOffset(layout, 0), c.container_id, 1},
      {"containerid", ChunkOffset(layout, 3), c.container_id, 0},
      {"containerid", ChunkOffset(layout, 3), c.container_id, -1},
      {"hascontent", ChunkOffset(layout, 0), c.has_content, 2},
      {"dptr", ChunkOffset(layout, 0), c.variable_offset, 1},
      {"dptr", ChunkOffset(layout, 3), c.variable_offset, 0},
      {"dptr", ChunkOffset(layout, 4), c.variable_offset, -1},
      {"fptr", ChunkOffset(layout, 0), c.file_offset, kMax},
      {"fptr", ChunkOffset(layout, 1), c.file_offset, 0},
      {"fptr", ChunkOffset(layout, 4), c.file_offset, -1},
      {"chunksize", ChunkOffset(layout, 0), c.chunk_bytes, 41},
      {"chunksize", ChunkOffset(layout, 0), c.chunk_bytes, -1},
      {"chunksize", ChunkOffset(layout, 4), c.chunk_bytes, 1},
      {"containersize", ChunkOffset(layout, 0), c.container_bytes, kMax},
      {"containersize", ChunkOffset(layout, 0), c.container_bytes, kMin},
      {"containersize", ChunkOffset(layout, 4), c.container_bytes, 9},
      {"hascontent", ChunkOffset(layout, 4), c.has_content, 1},
  };
  for (const HostileField& hostile : cases) {
    std::string damaged = file;
    Overwrite(&damaged, hostile.offset, hostile.place, hostile.value);
    Reseal(&damaged);
    const absl::Status status = Decode(damaged).status();
    const std::string expected =
        fmt::format("sample: offset {}: {} is ", hostile.offset + hostile.place.offset, hostile.name);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << expected << hostile.value;
    EXPECT_TRUE(MessageOf(status).starts_with(expected)) << expected << hostile.value << " gave " << status;
  }
}

TEST(CodecTest, ContainersThatDoNotReachTheMetadataAreDataLoss) {
  FileLayout layout = MixedLayout();
  layout.data_bytes += 8;
  const auto metadata = Decode(FileOf(layout, kHeader));
  EXPECT_EQ(metadata.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(MessageOf(metadata.status()).find("132 bytes, expected dataSize 140"), std::string_view::npos);
}

TEST(CodecTest, ContentBehindAContainerThatIsNotFullIsDataLoss) {
  FileLayout layout = MixedLayout();
  layout.containers[4].has_content = true;
  layout.containers[4].chunk_bytes = 8;
  const auto metadata = Decode(FileOf(layout, kHeader));
  EXPECT_EQ(metadata.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(MessageOf(metadata.status()).find("hascontent"), std::string_view::npos) << metadata.status();
}

// A sparse file of 2^60 bytes that says that nearly all of it is metadata.
TEST(CodecTest, HugeCountsClaimNoMemory) {
  constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 60;
  std::string trailer = FileOf(MixedLayout(), kHeader).substr(132 + 2 * 12 + 5 * 58);
  Overwrite(&trailer, 0, kLayoutF.fs, kFileBytes);
  Overwrite(&trailer, 0, kLayoutF.file_bytes, kFileBytes);
  Overwrite(&trailer, 0, kLayoutF.data_bytes, 0);
  Overwrite(&trailer, 0, kLayoutF.meta_bytes, kFileBytes);
  Reseal(&trailer);
  std::string block(kLayoutF.block_record_bytes, '\0');
  Overwrite(&block, 0, kLayoutF.block_chunks, std::numeric_limits<std::int32_t>::max());
  std::uint64_t bytes_read = 0;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> target) {
    bytes_read += target.size();
    std::fill(target.begin(), target.end(), std::byte{0});
    if (offset == 0) std::memcpy(target.data(), block.data(), std::min(block.size(), target.size()));
    if (offset == kFileBytes - trailer.size()) std::memcpy(target.data(), trailer.data(), target.size());
    return absl::OkStatus();
  };
  EXPECT_EQ(DecodeMetadata("sparse", kFileBytes, read).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_LT(bytes_read, 1u << 20);
  EXPECT_EQ(DecodeMetadata("sparse", ~std::uint64_t{0}, read).status().code(), absl::StatusCode::kDataLoss);
}

TEST(CodecTest, ErrorsOfTheReaderPassThrough) {
  const std::string file = FileOf(MixedLayout(), kHeader);
  const FileMetadata metadata = *Decode(file);
  const ReadAt whole = ReaderOf(file);
  for (int good = 0; good < 2; ++good) {  // the trailer, then the other records
    int calls = 0;
    const ReadAt failing = [&](std::uint64_t offset, std::span<std::byte> target) {
      return calls++ < good ? whole(offset, target) : Unavailable("no disk");
    };
    EXPECT_EQ(DecodeMetadata("sample", file.size(), failing).status().code(), absl::StatusCode::kUnavailable);
  }
  const ReadAt failing = [](std::uint64_t, std::span<std::byte>) { return Unavailable("no disk"); };
  EXPECT_EQ(VerifyData("sample", metadata, failing).status().code(), absl::StatusCode::kUnavailable);
}

TEST(VerifyDataTest, DamagedContainersAreNamedInFileOrderAndTailsAreNotLookedAt) {
  std::string file = FileOf(MixedLayout(), kHeader);
  const FileMetadata metadata = *Decode(file);
  file[71] = 'x';   // tail of container 2
  file[128] = 'x';  // container 4, which has no content
  EXPECT_TRUE(AllChunksGood(file, metadata));
  file[104] = 'x';
  file[0] = 'x';
  const auto verdict = VerifyData("sample", metadata, ReaderOf(file));
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_EQ(verdict->bad.size(), 2u);
  EXPECT_EQ(verdict->bad[0].container, 0u);
  EXPECT_EQ(verdict->bad[1].container, 3u);
  EXPECT_NE(verdict->bad[1].why.find("sample: offset 104: MD5 of the 17 bytes of container 1 of variable 3"),
            std::string::npos)
      << verdict->bad[1].why;
}

TEST(VerifyDataTest, ChunksOfManyPiecesAndMoreChunksThanLanesAreHashed) {
  std::vector<VariableSize> variables = {{100, (5 << 20) + 77}, {101, 3 << 20}};
  for (std::int32_t id = 0; id < 40; ++id) variables.push_back({id, static_cast<std::uint64_t>(id) * 63});
  std::string file = FileOf(*PlanFresh(variables, Packing::kExact), kHeader);
  const FileMetadata metadata = *Decode(file);
  EXPECT_TRUE(AllChunksGood(file, metadata));
  file[5 << 20] ^= 1;
  file[metadata.layout.data_bytes - 1] ^= 1;
  const auto verdict = VerifyData("sample", metadata, ReaderOf(file));
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_EQ(verdict->bad.size(), 2u);
  EXPECT_EQ(verdict->bad[0].container, 0u);
  EXPECT_EQ(verdict->bad[1].container, 41u);
}

}  // namespace
}  // namespace cairn::ftiff
