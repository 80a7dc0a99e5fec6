// Whole files; that they equal FTI's own is in example_test.cc.
#include "storage/format/ftiff/write.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <random>

#include "storage/base/status.h"
#include "storage/format/ftiff/variables.h"
#include "tests/storage/format/ftiff/by_index.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/support/status_matchers.h"

namespace cairn::ftiff {
namespace {

using testing::DataOf;
using testing::HashesOf;
using testing::MixedLayout;
using testing::ReaderOf;

constexpr std::uint64_t kMiB = 1 << 20;
constexpr Letter kWritten[] = {Letter::kA, Letter::kF};
constexpr FileHeader kHeader{
    .checkpoint_id = 7, .timestamp_ns = 0x1234'5678'9abc'def0, .file_bytes_max = 4096, .partner_bytes = 11};

// Variables in memory, with the reads that were made.
class Source {
 public:
  explicit Source(const FileLayout& layout) {
    for (const Container& c : layout.containers) {
      std::string& bytes = variables_[c.id];
      if (c.has_content) bytes.resize(c.variable_offset + c.chunk_bytes);
    }
    for (auto& [id, bytes] : variables_) {
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(id * 31 + i * 7 + (i >> 8) + 1);
    }
  }

  std::string& operator[](std::int32_t id) { return variables_[id]; }
  std::uint64_t bytes_read() const { return bytes_read_; }
  int reads() const { return reads_; }
  void FailAt(int read) { fail_at_ = read; }
  // Called before each read.
  void OnRead(std::function<void(int)> on_read) { on_read_ = std::move(on_read); }

  ReadVariable reader() {
    return [this](std::int32_t id, std::uint64_t offset, std::span<std::byte> target) -> absl::Status {
      if (on_read_) on_read_(reads_);
      if (reads_++ == fail_at_) return Unavailable("the source is gone");
      EXPECT_LE(target.size(), 8 * kMiB);
      bytes_read_ += target.size();
      return ReaderOf(variables_.at(id))(offset, target);
    };
  }

 private:
  std::map<std::int32_t, std::string> variables_;
  std::uint64_t bytes_read_ = 0;
  int reads_ = 0;
  int fail_at_ = -1;
  std::function<void(int)> on_read_;
};

// A file that grows by writes, with their places. It holds the writer to its order.
class Target {
 public:
  explicit Target(Letter letter) : letter_(letter) {
    if (letter == Letter::kA) bytes_.resize(kFileRecordBytesA, '?');
  }

  const std::string& bytes() const { return bytes_; }
  int writes() const { return writes_; }
  void FailAt(int write) { fail_at_ = write; }

  WriteAt writer() {
    return [this](std::uint64_t offset, std::span<const std::byte> bytes) -> absl::Status {
      EXPECT_FALSE(ended_) << "a write after the last one";
      EXPECT_LE(bytes.size(), 8 * kMiB);
      if (writes_++ == fail_at_) {
        ended_ = true;
        return ResourceExhausted("the target is full");
      }
      const auto* from = reinterpret_cast<const char*>(bytes.data());
      if (letter_ == Letter::kA && offset == 0) {
        EXPECT_EQ(bytes.size(), kFileRecordBytesA);
        std::memcpy(bytes_.data(), from, std::min<std::size_t>(bytes.size(), kFileRecordBytesA));
        ended_ = true;
      } else {
        EXPECT_EQ(offset, bytes_.size()) << "a gap or an overlap";
        bytes_.append(from, bytes.size());
      }
      return absl::OkStatus();
    };
  }

 private:
  const Letter letter_;
  std::string bytes_;
  int writes_ = 0;
  int fail_at_ = -1;
  bool ended_ = false;
};

FileToWrite What(Letter letter, FileLayout layout, std::vector<Md5Digest> hashes = {}) {
  return {.letter = letter, .header = kHeader, .layout = std::move(layout), .chunk_hashes = std::move(hashes)};
}

std::vector<Md5Digest> TrueHashes(const FileLayout& layout, Source& source) {
  std::vector<Md5Digest> hashes;
  for (const Container& c : layout.containers) {
    const std::string_view chunk =
        c.has_content ? std::string_view(source[c.id]).substr(c.variable_offset, c.chunk_bytes) : "old";
    hashes.push_back(Md5(std::as_bytes(std::span(chunk.data(), chunk.size()))));
  }
  return hashes;
}

// The file is whole and sound, has the variables, and is what `written` says.
void ExpectFile(const FileMetadata& written, const std::string& file, Source& source) {
  EXPECT_EQ(written.file_bytes, file.size());
  const auto decoded = DecodeMetadata("written", file.size(), ReaderOf(file));
  ASSERT_OK(decoded);
  EXPECT_EQ(decoded->letter, written.letter);
  EXPECT_EQ(decoded->header.checkpoint_id, written.header.checkpoint_id);
  EXPECT_EQ(decoded->header.timestamp_ns, written.header.timestamp_ns);
  EXPECT_EQ(decoded->header.file_bytes_max, written.header.file_bytes_max);
  EXPECT_EQ(decoded->header.partner_bytes, written.header.partner_bytes);
  EXPECT_EQ(decoded->layout.block_containers, written.layout.block_containers);
  EXPECT_EQ(decoded->layout.data_bytes, written.layout.data_bytes);
  EXPECT_EQ(decoded->chunk_hashes, written.chunk_hashes);
  EXPECT_EQ(decoded->checksum_hex, written.checksum_hex);
  EXPECT_EQ(decoded->record_hash, written.record_hash);
  EXPECT_EQ(decoded->registered, written.registered);
  std::vector<Container> containers = written.layout.containers;
  if (written.letter == Letter::kA) {  // has no such field
    for (Container& c : containers) c.in_file_before = false;
  }
  EXPECT_EQ(decoded->layout.containers, containers);

  const auto verdict = VerifyData("written", *decoded, ReaderOf(file));
  ASSERT_OK(verdict);
  EXPECT_TRUE(verdict->ok());
  const Variables variables(decoded->layout);
  for (const VariableSize& variable : variables.sizes()) {
    std::string bytes(variable.bytes, '?');
    ASSERT_OK(variables.Read("written", variable.id, 0, std::as_writable_bytes(std::span(bytes)), ReaderOf(file)));
    EXPECT_TRUE(bytes == source[variable.id]) << variable.id;
  }
  for (const Container& c : decoded->layout.containers) {
    const std::string_view tail =
        std::string_view(file).substr(c.file_offset + c.chunk_bytes, c.container_bytes - c.chunk_bytes);
    EXPECT_EQ(tail.find_first_not_of('\0'), std::string_view::npos) << "container " << c.index << " of " << c.id;
  }
}

// Many small chunks, chunks over several buffers, odd sizes, tails; in three blocks.
FileLayout LargeLayout() {
  std::vector<VariableSize> variables;
  for (std::int32_t id = 100; id < 9100; ++id) variables.push_back({id, static_cast<std::uint64_t>(id % 70)});
  variables.push_back({1, 9 * kMiB + 13});
  FileLayout layout = *PlanNext({}, false, variables, Packing::kExact);
  variables.push_back({2, 5 * kMiB - 1});
  variables.back().bytes = 5 * kMiB - 1;
  layout = *PlanNext(layout, true, variables, Packing::kExact);
  variables.back().bytes = kMiB + 3;
  variables[0].bytes += 4 * kMiB;
  return *PlanNext(layout, false, variables, Packing::kExact);
}

TEST(WriteFileTest, ASoundFileInBothLayoutsWithAndWithoutHashes) {
  for (const FileLayout& layout : {MixedLayout(), LargeLayout()}) {
    for (const Letter letter : kWritten) {
      for (const bool with_hashes : {false, true}) {
        Source source(layout);
        Target target(letter);
        const FileToWrite what =
            What(letter, layout, with_hashes ? TrueHashes(layout, source) : std::vector<Md5Digest>());
        const auto written = WriteFile(what, source.reader(), target.writer());
        ASSERT_OK(written);
        ExpectFile(*written, target.bytes(), source);
      }
    }
  }
}

TEST(WriteFileTest, LayoutFIsTheBytesAndThenTheMetadata) {
  const FileLayout layout = MixedLayout();
  const std::string data = DataOf(layout);
  const ReadVariable read = [&](std::int32_t id, std::uint64_t offset, std::span<std::byte> target) {
    return Variables(layout).Read("sample", id, offset, target, ReaderOf(data));
  };
  Target target(Letter::kF);
  ASSERT_OK(WriteFile(What(Letter::kF, layout, HashesOf(layout, data)), read, target.writer()));
  EXPECT_EQ(target.bytes(), testing::FileOf(layout, kHeader));
}

TEST(WriteFileTest, TheLayoutMayHaveAnyOffsets) {
  for (const Letter letter : kWritten) {
    std::vector<std::string> files;
    for (const Letter offsets : kWritten) {
      Source source(MixedLayout());
      Target target(letter);
      ASSERT_OK(WriteFile(What(letter, Placed(MixedLayout(), offsets)), source.reader(), target.writer()));
      files.push_back(target.bytes());
    }
    EXPECT_EQ(files[0], files[1]);
  }
}

TEST(WriteFileTest, WhatTheLayoutCannotHoldIsNotInTheResult) {
  for (const Letter letter : kWritten) {
    Source source(MixedLayout());
    Target target(letter);
    const auto written = WriteFile(What(letter, MixedLayout()), source.reader(), target.writer());
    ASSERT_OK(written);
    EXPECT_EQ(written->header.checkpoint_id, letter == Letter::kA ? 0 : 7);
    EXPECT_EQ(written->header.timestamp_ns, letter == Letter::kA ? kHeader.timestamp_ns : 0x9abc'def0u);
  }
}

TEST(WriteFileTest, AContainerWithoutContentKeepsItsLastHashInFOnly) {
  const FileLayout layout = MixedLayout();
  ASSERT_FALSE(layout.containers[4].has_content);
  for (const Letter letter : kWritten) {
    for (const bool with_hashes : {false, true}) {
      Source source(layout);
      Target target(letter);
      const std::vector<Md5Digest> given = TrueHashes(layout, source);
      const auto written = WriteFile(What(letter, layout, with_hashes ? given : std::vector<Md5Digest>()),
                                     source.reader(), target.writer());
      ASSERT_OK(written);
      EXPECT_EQ(written->chunk_hashes[4], with_hashes && letter == Letter::kF ? given[4] : Md5({}));
    }
  }
}

TEST(WriteFileTest, EachVariableIsReadOnceExceptForAWithoutHashes) {
  const FileLayout layout = LargeLayout();
  std::uint64_t bytes = 0;
  for (const Container& c : layout.containers) bytes += c.chunk_bytes;
  for (const Letter letter : kWritten) {
    for (const bool with_hashes : {false, true}) {
      Source source(layout);
      Target target(letter);
      ASSERT_OK(WriteFile(What(letter, layout, with_hashes ? TrueHashes(layout, source) : std::vector<Md5Digest>()),
                          source.reader(), target.writer()));
      EXPECT_EQ(source.bytes_read(), letter == Letter::kA && !with_hashes ? 2 * bytes : bytes);
    }
  }
}

TEST(WriteFileTest, BytesThatDoNotHaveTheHashGivenAreDataLoss) {
  const FileLayout layout = MixedLayout();
  for (const Letter letter : kWritten) {
    for (std::size_t i = 0; i < layout.containers.size(); ++i) {
      Source source(layout);
      Target target(letter);
      FileToWrite what = What(letter, layout, TrueHashes(layout, source));
      what.chunk_hashes[i][3] ^= std::byte{1};
      const auto written = WriteFile(what, source.reader(), target.writer());
      const Container& c = layout.containers[i];
      if (!c.has_content) {
        EXPECT_OK(written);
        continue;
      }
      EXPECT_STATUS(absl::StatusCode::kDataLoss, written, fmt::format("container {} of variable {}: ", c.index, c.id));
      EXPECT_STATUS(absl::StatusCode::kDataLoss, written, HexOf(what.chunk_hashes[i]));
      EXPECT_EQ(target.writes(), 0);
    }
  }
}

TEST(WriteFileTest, ASingleWrongByteFarInIsFound) {
  const FileLayout layout = LargeLayout();
  for (const Letter letter : kWritten) {
    Source source(layout);
    Target target(letter);
    const FileToWrite what = What(letter, layout, TrueHashes(layout, source));
    source[1][9 * kMiB + 12] ^= 1;
    EXPECT_STATUS(absl::StatusCode::kDataLoss, WriteFile(what, source.reader(), target.writer()), "of variable 1:");
  }
}

TEST(WriteFileTest, BytesThatChangeBetweenTheTwoReadsOfAAreDataLoss) {
  const FileLayout layout = MixedLayout();
  Source counting(layout);
  Target unused(Letter::kA);
  ASSERT_OK(WriteFile(What(Letter::kA, layout), counting.reader(), unused.writer()));
  Source source(layout);
  Target target(Letter::kA);
  source.OnRead([&](int read) {
    if (read == counting.reads() / 2) source[5][29] ^= 1;
  });
  EXPECT_STATUS(absl::StatusCode::kDataLoss, WriteFile(What(Letter::kA, layout), source.reader(), target.writer()),
                "as first read");
}

TEST(WriteFileTest, ErrorsOfEveryReadPassThroughAndEndIt) {
  for (const Letter letter : kWritten) {
    Source counting(MixedLayout());
    Target unused(letter);
    ASSERT_OK(WriteFile(What(letter, MixedLayout()), counting.reader(), unused.writer()));
    ASSERT_GT(counting.reads(), 2);
    for (int read = 0; read < counting.reads(); ++read) {
      Source source(MixedLayout());
      Target target(letter);
      source.FailAt(read);
      EXPECT_STATUS(absl::StatusCode::kUnavailable,
                    WriteFile(What(letter, MixedLayout()), source.reader(), target.writer()), "the source is gone");
      EXPECT_EQ(source.reads(), read + 1);
      EXPECT_LT(target.writes(), unused.writes());
    }
  }
}

// A source whose variable is shorter than the layout says answers so itself.
TEST(WriteFileTest, AShortVariableIsAnErrorOfTheRead) {
  for (const Letter letter : kWritten) {
    Source source(MixedLayout());
    source[3].pop_back();
    Target target(letter);
    EXPECT_STATUS(absl::StatusCode::kDataLoss, WriteFile(What(letter, MixedLayout()), source.reader(), target.writer()),
                  "in a file of 56");
  }
}

TEST(WriteFileTest, ErrorsOfEveryWritePassThroughAndEndIt) {
  const FileLayout layout = LargeLayout();
  for (const Letter letter : kWritten) {
    Source source(layout);
    Target counting(letter);
    ASSERT_OK(WriteFile(What(letter, layout), source.reader(), counting.writer()));
    ASSERT_GT(counting.writes(), 4);
    for (int write = 0; write < counting.writes(); ++write) {
      Target target(letter);
      target.FailAt(write);
      EXPECT_STATUS(absl::StatusCode::kResourceExhausted,
                    WriteFile(What(letter, layout), source.reader(), target.writer()), "the target is full");
      EXPECT_EQ(target.writes(), write + 1);
    }
  }
}

TEST(WriteFileTest, ALayoutWhoseSumsAreWrongIsRefusedUnwritten) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::vector<std::function<void(FileLayout*)>> damages = {
      [](FileLayout* l) { l->containers[0].chunk_bytes = l->containers[0].container_bytes + 1; },
      [](FileLayout* l) { l->containers[4].chunk_bytes = 1; },  // has no content
      [](FileLayout* l) { l->containers[0].container_bytes = kMost; },
      [](FileLayout* l) {  // fits without the metadata
        l->containers[4].container_bytes += kMost - l->data_bytes;
        l->data_bytes = kMost;
      },
      [](FileLayout* l) { l->containers[0].container_bytes = std::numeric_limits<std::uint64_t>::max(); },
      [](FileLayout* l) { l->data_bytes += 1; },
      [](FileLayout* l) { l->block_containers.pop_back(); },
      [](FileLayout* l) { l->block_containers[0] = std::numeric_limits<std::uint32_t>::max(); },
  };
  for (const Letter letter : kWritten) {
    for (std::size_t i = 0; i < damages.size(); ++i) {
      SCOPED_TRACE(i);
      Source source(MixedLayout());
      Target target(letter);
      FileLayout layout = MixedLayout();
      damages[i](&layout);
      EXPECT_STATUS(absl::StatusCode::kInvalidArgument,
                    WriteFile(What(letter, layout), source.reader(), target.writer()), "");
      EXPECT_EQ(source.reads(), 0);
      EXPECT_EQ(target.writes(), 0);
    }
  }
}

// The containers come from an older order; what counts is the one in which the application registers now.
TEST(WriteFileTest, InATheIndexFollowsTheOrderOfRegistrationNotThatOfTheContainers) {
  for (const FileLayout& layout : {MixedLayout(), LargeLayout()}) {
    std::vector<std::int32_t> registered;
    const Variables variables(layout);
    for (const VariableSize& variable : variables.sizes()) registered.insert(registered.begin(), variable.id);
    Source source(layout);
    Target target(Letter::kA);
    FileToWrite what = What(Letter::kA, layout);
    what.registered = registered;
    const auto written = WriteFile(what, source.reader(), target.writer());
    ASSERT_OK(written);
    ExpectFile(*written, target.bytes(), source);
    const std::vector<std::string> contents = testing::ContentsByIndex(target.bytes());
    ASSERT_EQ(contents.size(), registered.size());
    for (std::size_t i = 0; i < contents.size(); ++i) EXPECT_TRUE(contents[i] == source[registered[i]]) << i;
    EXPECT_EQ(written->registered, registered);
  }
}

TEST(WriteFileTest, InAVariablesThatAreNotThoseRegisteredAreRefusedUnwritten) {
  const std::vector<std::vector<std::int32_t>> wrong = {{3, 9}, {3, 9, 5, 5}, {3, 9, 5, 6}, {3, 9, 6}};
  for (const std::vector<std::int32_t>& registered : wrong) {
    Source source(MixedLayout());
    Target target(Letter::kA);
    FileToWrite what = What(Letter::kA, MixedLayout());
    what.registered = registered;
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, WriteFile(what, source.reader(), target.writer()), "regist");
    EXPECT_EQ(target.writes(), 0);
  }
}

TEST(WriteFileTest, RandomListsMakeSoundFiles) {
  const std::uint64_t seed = testing::TestSeed();
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    FileLayout layout;
    std::vector<VariableSize> variables;
    for (std::int32_t step = 0; step < 6; ++step) {
      variables.push_back({step, 0});
      for (VariableSize& variable : variables) variable.bytes = random() % 5 == 0 ? 0 : random() % 300;
      const auto next = PlanNext(layout, step == 3, variables, round % 2 == 0 ? Packing::kExact : Packing::kAligned);
      ASSERT_OK(next);
      layout = *next;
      for (const Letter letter : kWritten) {
        Source source(layout);
        Target target(letter);
        const auto written = WriteFile(What(letter, layout), source.reader(), target.writer());
        ASSERT_OK(written);
        ExpectFile(*written, target.bytes(), source);
      }
    }
  }
}

}  // namespace
}  // namespace cairn::ftiff
