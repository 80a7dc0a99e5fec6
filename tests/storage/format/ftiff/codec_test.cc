#include "storage/format/ftiff/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <set>

#include "storage/base/status.h"
#include "tests/storage/format/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

using testing::BlockOffset;
using testing::ChunkOffset;
using testing::CodeFileOf;
using testing::DataOf;
using testing::FileOf;
using testing::FileRecordOffset;
using testing::HashesOf;
using testing::kLetters;
using testing::MixedLayout;
using testing::Overwrite;
using testing::ReaderOf;
using testing::Reseal;

constexpr FileHeader kHeader = {
    .checkpoint_id = 12, .timestamp_ns = 0x1234'5678'9abc'def0, .file_bytes_max = 4711, .partner_bytes = -1};

absl::StatusOr<FileMetadata> Decode(const std::string& file) {
  return DecodeMetadata("sample", file.size(), ReaderOf(file));
}

bool AllGood(const std::string& file, const FileMetadata& metadata) {
  const auto verdict = VerifyData("sample", metadata, ReaderOf(file));
  return verdict.ok() && verdict->ok();
}

std::string TextOf(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// A file of layout A by the encoders that are tested, around data from `file`.
std::string EncodedInA(const FileLayout& layout, const FileHeader& header, std::string file) {
  const FileLayout placed = Placed(layout, Letter::kA);
  const std::vector<Md5Digest> hashes = HashesOf(layout, DataOf(layout));
  std::size_t first = 0;
  const std::vector<std::vector<std::byte>> blocks = EncodeBlocksA(placed, {}, hashes);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::string block = TextOf(blocks[b]);
    file.replace(placed.containers[first].file_offset - block.size(), block.size(), block);
    first += placed.block_containers[b];
  }
  const Md5Digest checksum = Md5(std::as_bytes(std::span(file)).subspan(kFileRecordBytesA));
  return file.replace(0, kFileRecordBytesA, TextOf(EncodeFileRecordA(placed, header, checksum)));
}

// Each behaviour in all six layouts.
class LayoutsTest : public ::testing::TestWithParam<Letter> {
 protected:
  Letter letter() const { return GetParam(); }
  const RecordTable& table() const { return TableOf(letter()); }
  bool first() const { return table().metadata_first; }
};
INSTANTIATE_TEST_SUITE_P(, LayoutsTest, ::testing::ValuesIn(kLetters),
                         [](const auto& info) { return std::string(1, static_cast<char>(info.param)); });

TEST_P(LayoutsTest, WhatIsEncodedIsDecoded) {
  const FileLayout layout = Placed(MixedLayout(), letter());
  const std::string file = FileOf(letter(), layout, kHeader);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->letter, letter());
  FileLayout expected = layout;
  if (letter() == Letter::kA) expected.containers[3].in_file_before = false;  // it has no such field
  EXPECT_EQ(metadata->layout.containers, expected.containers);
  EXPECT_EQ(metadata->layout.block_containers, layout.block_containers);
  EXPECT_EQ(metadata->layout.data_bytes, 132u) << "of the containers alone";
  std::vector<Md5Digest> hashes = HashesOf(MixedLayout(), DataOf(MixedLayout()));
  if (letter() == Letter::kA) hashes.back() = Md5({});
  EXPECT_EQ(metadata->chunk_hashes, hashes);
  EXPECT_EQ(metadata->file_bytes, file.size());
  EXPECT_EQ(metadata->header.checkpoint_id, first() ? 0 : 12);
  const bool half = letter() == Letter::kE || letter() == Letter::kF;
  EXPECT_EQ(metadata->header.timestamp_ns, half ? 0x9abc'def0u : kHeader.timestamp_ns);
  EXPECT_EQ(metadata->header.file_bytes_max, 4711);
  EXPECT_EQ(metadata->header.partner_bytes, -1);
  EXPECT_TRUE(AllGood(file, *metadata));
}

TEST_P(LayoutsTest, AFileWithOneEmptyVariableIsRecordsAlone) {
  const std::vector<VariableSize> variables = {{1, 0}};
  const std::string file = FileOf(letter(), *PlanFresh(variables, Packing::kExact), {});
  EXPECT_EQ(file.size(), table().file_record_bytes + table().block_record_bytes + table().chunk_record_bytes);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->letter, letter());
  EXPECT_EQ(HexOf(metadata->chunk_hashes[0]), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_TRUE(AllGood(file, *metadata));
}

TEST_P(LayoutsTest, UnusedBytesOfTheFileRecordAreIgnored) {
  std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const std::size_t record = FileRecordOffset(letter(), file);
  const std::size_t begin = letter() == Letter::kA ? 49 : table().file_record_bytes - 1u;
  const std::size_t end = letter() == Letter::kA ? 56 : table().file_record_bytes;
  for (std::size_t i = begin; i < end; ++i) {
    EXPECT_EQ(file[record + i], '\0');
    file[record + i] = '\x5a';
  }
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_TRUE(AllGood(file, *metadata));
}

TEST_P(LayoutsTest, AnyPlanSurvivesEncodingAndDecoding) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 30; ++round) {
    std::set<std::int32_t> ids;
    std::vector<VariableSize> variables;
    const std::size_t count = 1 + random() % 30;
    while (variables.size() < count) {
      const auto id = static_cast<std::int32_t>(random() >> 33);
      if (ids.insert(id).second) variables.push_back({id, random() % 4 == 0 ? 0 : random() >> (random() % 17 + 47)});
    }
    FileLayout layout = *PlanFresh(variables, round % 2 == 0 ? Packing::kExact : Packing::kAligned);
    for (int grown = round % 4; grown > 0; --grown) {
      for (VariableSize& variable : variables) {
        variable.bytes = random() % 3 == 0 ? variable.bytes : random() >> (random() % 17 + 47);
      }
      layout = *PlanNext(layout, /*last_is_restored=*/false, variables, Packing::kExact);
    }
    const FileHeader header = {.checkpoint_id = static_cast<std::int32_t>(round), .timestamp_ns = random()};
    const std::string file = FileOf(letter(), layout, header);
    ASSERT_EQ(file.size(), layout.file_bytes(letter()));
    const auto metadata = Decode(file);
    ASSERT_TRUE(metadata.ok()) << metadata.status();
    FileLayout placed = Placed(layout, letter());
    if (letter() == Letter::kA) {
      for (Container& container : placed.containers) container.in_file_before = false;
    }
    EXPECT_EQ(metadata->layout.containers, placed.containers);
    EXPECT_EQ(metadata->layout.block_containers, layout.block_containers);
    EXPECT_TRUE(AllGood(file, *metadata));
    if (HasFailure()) return;
  }
}

// With each read failing in turn.
TEST_P(LayoutsTest, ErrorsOfTheReaderPassThrough) {
  const std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const ReadAt whole = ReaderOf(file);
  int failed = 0;
  for (int good = 0;; ++good) {
    int calls = 0;
    const ReadAt failing = [&](std::uint64_t offset, std::span<std::byte> target) {
      return calls++ == good ? Unavailable("no disk") : whole(offset, target);
    };
    const absl::Status status = DecodeMetadata("sample", file.size(), failing).status();
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    ++failed;
  }
  EXPECT_GE(failed, 2) << "the file record, then the others";
}

TEST_P(LayoutsTest, NoDataIsRead) {
  const FileLayout layout = *PlanFresh(std::vector<VariableSize>{{1, 5000}, {2, 3000}}, Packing::kExact);
  const FileLayout grown =
      *PlanNext(layout, false, std::vector<VariableSize>{{1, 9000}, {2, 3000}, {3, 700}}, Packing::kExact);
  const std::string file = FileOf(letter(), grown, kHeader);
  const FileLayout placed = Placed(grown, letter());
  const ReadAt read = [&, whole = ReaderOf(file)](std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
    const bool looks_for_a_record = offset + target.size() == file.size() && target.size() <= kFileRecordBytesMax;
    for (const Container& c : placed.containers) {
      const bool apart = offset + target.size() <= c.file_offset || c.file_offset + c.container_bytes <= offset;
      if (!apart && !looks_for_a_record) return Internal("data was read");
    }
    return whole(offset, target);
  };
  const auto metadata = DecodeMetadata("sample", file.size(), read);
  EXPECT_TRUE(metadata.ok()) << metadata.status();
}

// A run of records costs a read for each 64 KiB, wherever it is; a block apart from the others, one more.
TEST_P(LayoutsTest, RecordsAreReadInRuns) {
  std::vector<VariableSize> variables;
  for (std::int32_t id = 0; id < 5000; ++id) variables.push_back({id, 1});
  FileLayout layout = *PlanFresh(variables, Packing::kExact);
  for (std::int32_t id = 5000; id < 5100; ++id) {
    variables.push_back({id, 1});
    layout = *PlanNext(layout, false, variables, Packing::kExact);
  }
  const std::string file = FileOf(letter(), layout, kHeader);
  int reads = 0;
  const ReadAt read = [&, whole = ReaderOf(file)](std::uint64_t offset, std::span<std::byte> target) {
    ++reads;
    return whole(offset, target);
  };
  const auto metadata = DecodeMetadata("sample", file.size(), read);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  const auto runs = static_cast<int>(layout.meta_bytes(letter()) >> 16) + 1;
  const int looks = 5;                                                         // for the file record
  const int walks = letter() == Letter::kC || letter() == Letter::kD ? 3 : 1;  // to tell them apart
  EXPECT_LE(reads, looks + walks * runs + (first() ? 101 : 0));
}

TEST_P(LayoutsTest, AChecksumThatIsNoDigestIsDataLoss) {
  for (const std::size_t at : {0, 31, 32}) {
    std::string file = FileOf(letter(), MixedLayout(), kHeader);
    file[FileRecordOffset(letter(), file) + at] = 'F';  // of capital letters, or no end
    Reseal(&file, letter());
    const absl::Status status = Decode(file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    const std::string expected = fmt::format("sample: offset {}: checksum is ", FileRecordOffset(letter(), file));
    EXPECT_TRUE(MessageOf(status).starts_with(expected)) << status;
  }
}

// What FTI leaves after a power loss: all data, but not the last bytes with the metadata. Where metadata is in front
// the file record is there, and the length tells.
TEST_P(LayoutsTest, AFileWithoutItsLastBytesIsDataLoss) {
  const FileLayout layout = *PlanFresh(std::vector<VariableSize>{{1, 20000}}, Packing::kExact);
  const std::string file = FileOf(letter(), layout, kHeader);
  for (const std::size_t lost : {100, 106, 250, 4096}) {
    const absl::Status status = Decode(file.substr(0, file.size() - lost)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << lost;
  }
}

class TrailerLayoutsTest : public LayoutsTest {};
INSTANTIATE_TEST_SUITE_P(, TrailerLayoutsTest, ::testing::Values(Letter::kC, Letter::kD, Letter::kE, Letter::kF),
                         [](const auto& info) { return std::string(1, static_cast<char>(info.param)); });

TEST_P(TrailerLayoutsTest, TheChecksumMayCoverContainersWithoutContentOrLeaveThemOut) {
  std::string file = FileOf(letter(), MixedLayout(), kHeader);
  const FileMetadata by_reader = *Decode(file);
  const std::string by_writer = HexOf(Md5(std::as_bytes(std::span(by_reader.chunk_hashes))));
  ASSERT_NE(by_reader.checksum_hex, by_writer);

  file.replace(FileRecordOffset(letter(), file), by_writer.size(), by_writer);
  Reseal(&file, letter());
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->checksum_hex, by_writer);

  char& digit = file[FileRecordOffset(letter(), file)];
  digit = digit == '0' ? '1' : '0';
  Reseal(&file, letter());
  EXPECT_EQ(Decode(file).status().code(), absl::StatusCode::kDataLoss);
}

TEST(CodecTest, LayoutFIsEncodedAsTheTablesSay) {
  EXPECT_EQ(FileOf(MixedLayout(), kHeader), FileOf(Letter::kF, MixedLayout(), kHeader));
}

TEST(CodecTest, TheWrittenChecksumLeavesOutContainersWithoutContent) {
  std::vector<Md5Digest> hashes = HashesOf(MixedLayout(), DataOf(MixedLayout()));
  hashes.pop_back();  // the emptied container
  EXPECT_EQ(Decode(FileOf(MixedLayout(), kHeader))->checksum_hex, HexOf(Md5(std::as_bytes(std::span(hashes)))));
}

TEST(CodecTest, LayoutAIsEncodedAsTheTablesSayAndHasTheHashOfNothingWhereContentWasLost) {
  const std::string file = FileOf(Letter::kA, MixedLayout(), kHeader);
  std::string blank = file;  // only the data is kept
  for (std::size_t b = 0; b < 2; ++b) {
    const std::size_t records = 12 + 64 * MixedLayout().block_containers[b];
    blank.replace(BlockOffset(MixedLayout(), b, Letter::kA), records, records, '?');
  }
  EXPECT_EQ(EncodedInA(MixedLayout(), kHeader, blank), file);
  EXPECT_EQ(HexOf(Decode(file)->chunk_hashes.back()), "d41d8cd98f00b204e9800998ecf8427e");
}

// A container for each variable, in blocks of the given numbers of them.
FileLayout Blocks(std::span<const std::uint32_t> chunks, std::int32_t first_id) {
  FileLayout layout;
  for (const std::uint32_t count : chunks) {
    for (std::uint32_t i = 0; i < count; ++i) {
      layout.containers.push_back({.id = first_id++, .chunk_bytes = 8, .container_bytes = 8});
      layout.data_bytes += 8;
    }
    layout.block_containers.push_back(count);
  }
  return Placed(std::move(layout), Letter::kF);
}

// In D the second block's first id is read as a number of chunks of C, which end where they should.
TEST(CodecTest, AFileOfDWhoseRecordsFitCByChanceIsOfD) {
  const std::uint32_t blocks[] = {3, 28};
  const std::string file = FileOf(Letter::kD, Blocks(blocks, /*first_id=*/26 - 3), kHeader);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->letter, Letter::kD);
}

// In C the last bytes of a hash are read as a number of chunks of D.
TEST(CodecTest, AFileOfCWhoseRecordsFitDByChanceIsOfC) {
  const std::uint32_t blocks[] = {32};
  FileLayout layout = Blocks(blocks, 1);
  layout.containers[29].has_content = false;
  layout.containers[29].chunk_bytes = 0;
  std::string file = FileOf(Letter::kC, layout, kHeader);
  const std::size_t hash = ChunkOffset(layout, 29, Letter::kC) + kLayoutC.chunk.hash_offset;
  Overwrite(&file, hash + 12, {0, 4, true}, 2);
  const auto metadata = Decode(file);
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->letter, Letter::kC);
}

TEST(CodecTest, RecordsThatFitNeitherCNorDAreDataLoss) {
  std::string file = FileOf(Letter::kC, MixedLayout(), kHeader);
  Overwrite(&file, BlockOffset(MixedLayout(), 1, Letter::kC), kLayoutC.block_chunks, 3);
  const absl::Status status = Decode(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(MessageOf(status).find("sample: offset 132: "), std::string_view::npos) << status;
}

// FTI 1.2 does not write behind the last bytes that it needs, and does not extend the file.
TEST(CodecTest, AFileOfBMayEndBehindItsLastContentOrRecord) {
  for (const bool emptied : {false, true}) {
    FileLayout layout = MixedLayout();
    if (emptied) {
      layout.containers[3].has_content = false;
      layout.containers[3].chunk_bytes = 0;
    }
    const FileLayout placed = Placed(layout, Letter::kB);
    const std::string file = FileOf(Letter::kB, layout, kHeader);
    const std::size_t needed = placed.containers[3].file_offset + (emptied ? 0 : 17);
    for (std::size_t length = needed - 80; length <= file.size(); ++length) {
      const std::string cut = file.substr(0, length);
      const auto metadata = Decode(cut);
      if (length < needed) {
        EXPECT_EQ(metadata.status().code(), absl::StatusCode::kDataLoss) << length;
        continue;
      }
      ASSERT_TRUE(metadata.ok()) << length << ": " << metadata.status();
      EXPECT_EQ(metadata->layout.containers, placed.containers);
      EXPECT_EQ(metadata->file_bytes, file.size());
      EXPECT_TRUE(AllGood(cut, *metadata)) << length;
    }
    EXPECT_EQ(Decode(file + '\0').status().code(), absl::StatusCode::kDataLoss);
  }
}

// A file with one variable that fills it, of which only the records are there.
absl::StatusOr<FileMetadata> DecodeSparse(Letter letter, std::uint64_t file_bytes) {
  const RecordTable& table = TableOf(letter);
  const std::uint64_t meta_bytes = table.file_record_bytes + table.block_record_bytes + table.chunk_record_bytes;
  const std::uint64_t data_bytes = file_bytes - meta_bytes;
  FileLayout layout = *PlanFresh(std::vector<VariableSize>{{1, 0}}, Packing::kExact);
  std::string records = FileOf(letter, layout, kHeader);
  const auto put = [&](std::size_t at, FieldPlace place, std::uint64_t value) {
    Overwrite(&records, at, place, static_cast<std::int64_t>(value));
  };
  put(0, table.block_bytes, data_bytes);
  put(ChunkOffset(layout, 0, letter), table.chunk.chunk_bytes, data_bytes);
  put(ChunkOffset(layout, 0, letter), table.chunk.container_bytes, data_bytes);
  const std::size_t record = FileRecordOffset(letter, records);
  put(record, table.file_bytes, file_bytes);
  put(record, table.fs, file_bytes);
  put(record, table.data_bytes, data_bytes);
  put(record, table.meta_bytes, meta_bytes);
  Reseal(&records, letter);
  return DecodeMetadata("sparse", file_bytes,
                        [&, inner = ReaderOf(records)](std::uint64_t offset, std::span<std::byte> target) {
                          if (offset >= data_bytes) return inner(offset - data_bytes, target);
                          // Records of A and B are looked for at the front, if that at the end does not fit.
                          if (offset > 0 || target.size() > kFileRecordBytesA) return Internal("data was read");
                          std::fill(target.begin(), target.end(), std::byte{0});
                          return absl::OkStatus();
                        });
}

TEST(CodecTest, SizesOfEHave31Bits) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int32_t>::max();
  const auto largest = DecodeSparse(Letter::kE, kMax);
  ASSERT_TRUE(largest.ok()) << largest.status();
  EXPECT_EQ(largest->layout.data_bytes, kMax - 82 - 8 - 50);
  const absl::Status beyond = DecodeSparse(Letter::kE, kMax + 1).status();
  EXPECT_EQ(beyond.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(MessageOf(beyond).find("fs is -2147483648, expected the file's length 2147483648"), std::string_view::npos)
      << beyond;
  EXPECT_EQ(DecodeSparse(Letter::kE, (std::uint64_t{1} << 32) + 4096).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(DecodeSparse(Letter::kF, kMax + 1).ok());
}

absl::StatusOr<EncodedFile> DecodeCode(const std::string& file) {
  return DecodeEncoded("sample", file.size(), ReaderOf(file));
}

TEST_P(LayoutsTest, ACodeFileIsDecodedAndIsNoCheckpointFile) {
  const std::string code(500, 'c');
  const auto encoded = DecodeCode(CodeFileOf(letter(), code, 321));
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(encoded->letter, letter() == Letter::kD ? Letter::kC : letter());
  EXPECT_EQ(encoded->checkpoint_id, first() ? 0 : 12);
  EXPECT_EQ(encoded->timestamp_ns, 77u);
  EXPECT_EQ(encoded->code_bytes, 500u);
  EXPECT_EQ(encoded->checkpoint_bytes, 321u);
  EXPECT_EQ(encoded->checksum_hex, HexOf(Md5(std::as_bytes(std::span(code)))));
  EXPECT_EQ(Decode(CodeFileOf(letter(), code, 321)).status().code(), absl::StatusCode::kFailedPrecondition);

  const std::string checkpoint = FileOf(letter(), MixedLayout(), kHeader);
  EXPECT_EQ(DecodeCode(checkpoint).status().code(), absl::StatusCode::kFailedPrecondition);
}

// FTI leaves metaSize, dataSize and, after a repair, ckptId as the memory was.
TEST_P(LayoutsTest, WhatACodeFileLeavesUninitializedIsIgnored) {
  std::string file = CodeFileOf(letter(), std::string(500, 'c'), 321);
  for (const FieldPlace place : {table().meta_bytes, table().data_bytes, table().checkpoint_id}) {
    Overwrite(&file, 500, place, static_cast<std::int64_t>(0x9182'7364'5566'7788));
  }
  testing::ResealAt(&file, letter(), 500);
  const auto encoded = DecodeCode(file);
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  EXPECT_EQ(encoded->checkpoint_bytes, 321u);
  EXPECT_EQ(encoded->checkpoint_id, first() ? 0 : 0x5566'7788);
}

TEST_P(LayoutsTest, ACodeFileWhoseSizesDoNotFitIsDataLoss) {
  const std::string code(500, 'c');
  const std::string file = CodeFileOf(letter(), code, 321);
  for (std::size_t n = 0; n < file.size(); ++n) {
    EXPECT_EQ(DecodeCode(file.substr(0, n)).status().code(), absl::StatusCode::kDataLoss) << n;
  }
  EXPECT_EQ(DecodeCode(file + std::string(16, '\0')).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(DecodeCode("more" + file).status().code(), absl::StatusCode::kDataLoss);
  for (const std::int64_t bytes : {-1, 0, 10, 501}) {
    const absl::Status status = DecodeCode(CodeFileOf(letter(), code, static_cast<std::uint64_t>(bytes))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << bytes;
    const std::string expected =
        fmt::format("sample: offset {}: ckptSize is {}", 500 + table().file_bytes.offset, bytes);
    EXPECT_TRUE(MessageOf(status).starts_with(expected)) << status;
  }
}

TEST(CodecTest, RecordsOfCodeFilesAreEncodedAsTheTablesSay) {
  for (const Letter letter : {Letter::kA, Letter::kF}) {
    const std::string file = CodeFileOf(letter, std::string(500, 'c'), 321);
    EXPECT_EQ(TextOf(EncodeEncodedRecord(*DecodeCode(file))), file.substr(500));
  }
}

TEST(CodecTest, AFileWhoseDataEndLikeAnotherFileIsWhatItIs) {
  for (const Letter outer : {Letter::kA, Letter::kB}) {
    for (const Letter inner : {Letter::kC, Letter::kD, Letter::kE, Letter::kF}) {
      for (const bool is_code : {false, true}) {
        const std::string data = is_code ? CodeFileOf(inner, "code bytes", 10) : FileOf(inner, MixedLayout(), kHeader);
        const auto layout = PlanFresh(std::vector<VariableSize>{{1, 100}, {2, data.size()}}, Packing::kExact);
        ASSERT_TRUE(layout.ok());
        std::string file = FileOf(outer, *layout, kHeader);
        file.replace(file.size() - data.size(), data.size(), data);
        const auto metadata = Decode(file);
        ASSERT_TRUE(metadata.ok()) << metadata.status();
        EXPECT_EQ(metadata->letter, outer);
        EXPECT_EQ(metadata->layout.containers, Placed(*layout, outer).containers);
      }
    }
  }
}

TEST(CodecTest, NothingElseIsAFileOfFti) {
  for (const std::string& bytes : {std::string(), std::string(50, 'x'), std::string(5000, '\0')}) {
    EXPECT_EQ(Decode(bytes).status().code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ(DecodeCode(bytes).status().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace cairn::ftiff
