// Damaged and hostile files of all six layouts: each is refused, or has the content that it had.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>

#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "tests/storage/format/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

using testing::BlockOffset;
using testing::ChunkOffset;
using testing::FileOf;
using testing::FileRecordOffset;
using testing::kLetters;
using testing::MixedLayout;
using testing::Overwrite;
using testing::ReaderOf;
using testing::Reseal;

constexpr FileHeader kHeader = {
    .checkpoint_id = 12, .timestamp_ns = 0x1234'5678'9abc'def0, .file_bytes_max = 4711, .partner_bytes = -1};
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

absl::StatusOr<FileMetadata> Decode(const std::string& file) {
  return DecodeMetadata("sample", file.size(), ReaderOf(file));
}

class DamageTest : public ::testing::TestWithParam<Letter> {
 protected:
  Letter letter() const { return GetParam(); }
  const RecordTable& table() const { return TableOf(letter()); }
  bool first() const { return table().metadata_first; }
};
INSTANTIATE_TEST_SUITE_P(, DamageTest, ::testing::ValuesIn(kLetters),
                         [](const auto& info) { return std::string(1, static_cast<char>(info.param)); });

// What hashes protect. Only in A one covers block and chunk records; elsewhere a file may have other ids, or say other
// things of what was in it before, and hashes of what has no content; in B also whether what is empty has content.
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
    content.chunks.push_back(c.chunk_bytes > 0 ? file.substr(c.file_offset, c.chunk_bytes) : "");
    if (metadata.letter != Letter::kA) c.id = 0;
    if (metadata.letter == Letter::kB) c.has_content = c.chunk_bytes > 0;
    c.in_file_before = false;
  }
  return content;
}

// The content, if decoder and verifier let the file pass; otherwise they call it damaged.
std::optional<Content> Accepted(const std::string& file) {
  const auto metadata = Decode(file);
  if (!metadata.ok()) {
    EXPECT_EQ(metadata.status().code(), absl::StatusCode::kDataLoss) << metadata.status();
    EXPECT_TRUE(MessageOf(metadata.status()).starts_with("sample: ")) << metadata.status();
    return std::nullopt;
  }
  const auto verdict = VerifyData("sample", *metadata, ReaderOf(file));
  EXPECT_TRUE(verdict.ok()) << verdict.status();
  if (!verdict.ok() || !verdict->ok()) return std::nullopt;
  return ContentOf(file, *metadata);
}

TEST_P(DamageTest, AnyTruncationIsRefusedOrLeavesTheContent) {
  const std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const Content whole = *Accepted(file);
  std::size_t accepted = 0;
  for (std::size_t n = 0; n < file.size(); ++n) {
    const std::optional<Content> content = Accepted(file.substr(0, n));
    if (!content.has_value()) continue;
    EXPECT_EQ(*content, whole) << "cut at " << n;
    ++accepted;
  }
  // Of B, the tail of the last but one container and the emptied one need not be there.
  EXPECT_EQ(accepted, letter() == Letter::kB ? 3u + 8u : 0u);
  EXPECT_FALSE(Accepted(file + '\0').has_value());
}

TEST_P(DamageTest, AnyFlippedBitIsRefusedOrLeavesTheContent) {
  const std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const Content whole = *Accepted(file);
  std::set<std::size_t> unprotected;
  for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string damaged = file;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const std::optional<Content> content = Accepted(damaged);
    if (!content.has_value()) continue;
    EXPECT_EQ(*content, whole) << "bit " << bit;
    unprotected.insert(bit / 8);
  }
  if (letter() == Letter::kA) {
    EXPECT_EQ(unprotected, (std::set<std::size_t>{49, 50, 51, 52, 53, 54, 55})) << "the gap alone";
    return;
  }
  // Tails of containers (45 bytes), the record's last byte, the hash of what has no content, the checkpoint id; of the
  // chunks ids, idx and hasCkpt.
  const std::size_t ids = 4 + (table().chunk.index.bytes > 0 ? 4 : 0);
  EXPECT_LE(unprotected.size(), 45 + 1 + 16 + 4 + 5 * (ids + 1));
}

TEST_P(DamageTest, DataOfAnotherCheckpointIsRefused) {
  std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const FileMetadata metadata = *Decode(file);
  // As of a full checkpoint of FTI after a differential one: hashes of all data, but zeros where nothing had changed.
  const Container& container = metadata.layout.containers[0];
  std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(container.file_offset) + 8, 16, '\0');
  const auto verdict = VerifyData("sample", *Decode(file), ReaderOf(file));
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  ASSERT_EQ(verdict->bad.size(), 1u);
  EXPECT_EQ(verdict->bad[0].container, 0u);
  EXPECT_EQ(verdict->bad_checksum.empty(), !first());
}

struct HostileField {
  const char* name;
  std::size_t offset;
  FieldPlace place;
  std::int64_t value;
};

void ExpectRefusal(const std::string& file, Letter letter, HostileField hostile) {
  // Where sizes have 32 bits, the largest and smallest are those of 32.
  if (hostile.place.bytes == 4 && hostile.value == kMax) hostile.value = std::numeric_limits<std::int32_t>::max();
  if (hostile.place.bytes == 4 && hostile.value == kMin) hostile.value = std::numeric_limits<std::int32_t>::min();
  std::string damaged = file;
  Overwrite(&damaged, hostile.offset, hostile.place, hostile.value);
  ASSERT_NE(damaged, file);
  Reseal(&damaged, letter);
  const absl::Status status = Decode(damaged).status();
  const std::string expected =
      fmt::format("sample: offset {}: {} is ", hostile.offset + hostile.place.offset, hostile.name);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << expected << hostile.value;
  EXPECT_TRUE(MessageOf(status).starts_with(expected)) << expected << hostile.value << " gave " << status;
  EXPECT_NE(MessageOf(status).find(", expected "), std::string_view::npos) << status;
}

TEST_P(DamageTest, SizesOfTheFileThatContradictItsLengthAreDataLossNamingFileFieldAndOffset) {
  const std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const std::size_t record = FileRecordOffset(letter(), file);
  const auto length = static_cast<std::int64_t>(file.size());
  for (const std::int64_t value : {length - 1, std::int64_t{0}, std::int64_t{-1}, kMin}) {
    ExpectRefusal(file, letter(), {"fs", record, table().fs, value});
  }
  for (const std::int64_t value : {length - 1, length + 1, std::int64_t{-1}, kMax, kMin}) {
    ExpectRefusal(file, letter(), {"ckptSize", record, table().file_bytes, value});
    if (first()) continue;
    ExpectRefusal(file, letter(), {"metaSize", record, table().meta_bytes, value});
    if (value != length - 1) ExpectRefusal(file, letter(), {"dataSize", record, table().data_bytes, value});
  }
  if (!first()) {
    ExpectRefusal(file, letter(), {"dataSize", record, table().data_bytes, static_cast<std::int64_t>(record) + 1});
  }
}

TEST_P(DamageTest, BlocksAndChunksThatContradictEachOtherAreDataLossNamingFileFieldAndOffset) {
  const FileLayout layout = MixedLayout();
  const std::string file = FileOf(letter(), layout, kHeader);
  const ChunkFields& c = table().chunk;
  const auto block = [&](std::size_t index) { return BlockOffset(layout, index, letter()); };
  const auto chunk = [&](std::size_t index) { return ChunkOffset(layout, index, letter()); };
  const auto blocks = std::vector<HostileField>{
      {"numvars", block(0), table().block_chunks, std::numeric_limits<std::int32_t>::max()},
      {"numvars", block(0), table().block_chunks, std::numeric_limits<std::int32_t>::min()},
      {"numvars", block(0), table().block_chunks, 0},
      {"numvars", block(1), table().block_chunks, -1},
  };
  // Numbers of chunks tell C from D: there, an error says that neither fits.
  const bool c_or_d = letter() == Letter::kC || letter() == Letter::kD;
  for (const HostileField& hostile : blocks) {
    if (!c_or_d) ExpectRefusal(file, letter(), hostile);
  }
  const auto length = static_cast<std::int64_t>(file.size());
  const auto fields = std::vector<HostileField>{
      {"dbsize", block(0), table().block_bytes, 105},
      {"dbsize", block(0), table().block_bytes, 0},
      {"dbsize", block(0), table().block_bytes, kMax},
      {"dbsize", block(1), table().block_bytes, kMin},
      {"id", chunk(2), c.id, -5},
      {"containerid", chunk(0), c.container_id, 1},
      {"containerid", chunk(3), c.container_id, 0},
      {"containerid", chunk(3), c.container_id, -1},
      {"hascontent", chunk(0), c.has_content, 2},
      {"hascontent", chunk(0), c.has_content, 255},
      {"dptr", chunk(0), c.variable_offset, 1},
      {"dptr", chunk(3), c.variable_offset, 0},
      {"dptr", chunk(4), c.variable_offset, -1},
      {"fptr", chunk(0), c.file_offset, kMax},
      {"fptr", chunk(1), c.file_offset, 1},
      {"fptr", chunk(2), c.file_offset, length},
      {"fptr", chunk(4), c.file_offset, -1},
      {"fptr", chunk(4), c.file_offset, 0},
      {"chunksize", chunk(0), c.chunk_bytes, 41},
      {"chunksize", chunk(0), c.chunk_bytes, -1},
      {"chunksize", chunk(0), c.chunk_bytes, kMax},
      {"chunksize", chunk(4), c.chunk_bytes, 1},
      {"containersize", chunk(0), c.container_bytes, kMax},
      {"containersize", chunk(0), c.container_bytes, kMin},
      {"containersize", chunk(4), c.container_bytes, 9},
      {"hascontent", chunk(4), c.has_content, 1},
  };
  for (const HostileField& hostile : fields) ExpectRefusal(file, letter(), hostile);
}

TEST_P(DamageTest, ContainersInAnotherOrderAreDataLoss) {
  const FileLayout layout = MixedLayout();
  std::string file = FileOf(letter(), layout, kHeader);
  const std::size_t bytes = table().chunk_record_bytes;
  const std::size_t a = ChunkOffset(layout, 0, letter()), b = ChunkOffset(layout, 2, letter());
  std::swap_ranges(file.begin() + static_cast<std::ptrdiff_t>(a), file.begin() + static_cast<std::ptrdiff_t>(a + bytes),
                   file.begin() + static_cast<std::ptrdiff_t>(b));
  const absl::Status status = Decode(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(MessageOf(status).find("fptr"), std::string_view::npos) << status;
}

TEST_P(DamageTest, ContentBehindAContainerThatIsNotFullIsDataLoss) {
  FileLayout layout = MixedLayout();
  layout.containers[4].has_content = true;
  layout.containers[4].chunk_bytes = 8;
  const absl::Status status = Decode(FileOf(letter(), layout, kHeader)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(MessageOf(status).find("hascontent"), std::string_view::npos) << status;
}

TEST_P(DamageTest, ContainersThatLeaveAGapAreDataLoss) {
  FileLayout layout = MixedLayout();
  layout.data_bytes += 8;
  const absl::Status status = Decode(FileOf(letter(), layout, kHeader)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  const char* expected = first() ? "8 bytes are left" : "the containers have 132 bytes, expected dataSize 140";
  EXPECT_NE(MessageOf(status).find(expected), std::string_view::npos) << status;
}

// A file of nearly 2^60 bytes (2^31 in E), sparse, that says that it holds as many chunks as a field can tell.
TEST_P(DamageTest, HugeCountsClaimNoMemory) {
  const std::uint64_t file_bytes = letter() == Letter::kE ? std::uint64_t{1} << 30 : std::uint64_t{1} << 60;
  const std::string sample = FileOf(letter(), MixedLayout(), kHeader);
  std::string record = sample.substr(FileRecordOffset(letter(), sample), table().file_record_bytes);
  const auto put = [&](FieldPlace place, std::uint64_t value) {
    Overwrite(&record, 0, place, static_cast<std::int64_t>(value));
  };
  put(table().fs, file_bytes);
  put(table().file_bytes, file_bytes);
  put(table().data_bytes, 0);
  put(table().meta_bytes, file_bytes);
  std::string block(table().block_record_bytes, '\0');
  const std::uint64_t rest = file_bytes - 2 * kFileRecordBytesMax - block.size();
  const std::uint64_t chunks =
      std::min<std::uint64_t>(rest / table().chunk_record_bytes, std::numeric_limits<std::int32_t>::max());
  Overwrite(&block, 0, table().block_chunks, static_cast<std::int64_t>(chunks));
  testing::ResealAt(&record, letter(), 0);

  const std::uint64_t record_at = first() ? 0 : file_bytes - record.size();
  const std::uint64_t block_at = first() ? record.size() : 0;
  std::uint64_t bytes_read = 0;
  const auto read = [&](std::uint64_t offset, std::span<std::byte> target) {
    bytes_read += target.size();
    std::fill(target.begin(), target.end(), std::byte{0});
    const auto overlay = [&](std::uint64_t at, const std::string& text) {
      const std::uint64_t begin = std::max(at, offset);
      const std::uint64_t end = std::min(at + text.size(), offset + target.size());
      if (begin < end) std::memcpy(target.data() + (begin - offset), text.data() + (begin - at), end - begin);
    };
    overlay(record_at, record);
    overlay(block_at, block);
    return absl::OkStatus();
  };
  const absl::Status status = DecodeMetadata("sparse", file_bytes, read).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_LT(bytes_read, 1u << 20);
  EXPECT_EQ(DecodeMetadata("sparse", ~std::uint64_t{0}, read).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace cairn::ftiff
