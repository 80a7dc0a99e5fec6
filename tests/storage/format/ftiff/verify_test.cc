// The check of the data: which chunk is bad, on any number of threads.

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "tests/storage/format/ftiff/sample_file.h"

namespace cairn::ftiff {
namespace {

using testing::FileOf;
using testing::kLetters;
using testing::MixedLayout;
using testing::ReaderOf;

FileMetadata Decoded(const std::string& file) {
  absl::StatusOr<FileMetadata> metadata = DecodeMetadata("sample", file.size(), ReaderOf(file));
  EXPECT_TRUE(metadata.ok()) << metadata.status();
  return metadata.ok() ? *std::move(metadata) : FileMetadata{};
}

Verdict Verified(const std::string& file, const FileMetadata& metadata, std::size_t threads) {
  absl::StatusOr<Verdict> verdict = VerifyData("sample", metadata, ReaderOf(file), threads);
  EXPECT_TRUE(verdict.ok()) << verdict.status();
  return verdict.ok() ? *std::move(verdict) : Verdict{.bad = {}, .bad_checksum = "unread"};
}

std::string ManyContainers(Letter letter) {
  std::vector<VariableSize> variables = {{100, (1 << 20) + 77}, {101, 300'000}};
  for (std::int32_t id = 0; id < 60; ++id) variables.push_back({id, static_cast<std::uint64_t>(id) * 63});
  return FileOf(letter, *PlanFresh(variables, Packing::kExact), {});
}

TEST(VerifyDataTest, DamagedContainersAreNamedInFileOrderAndTailsAreNotLookedAt) {
  std::string file = FileOf(MixedLayout(), {});
  const FileMetadata metadata = Decoded(file);
  file[71] = 'x';   // tail of container 2
  file[128] = 'x';  // container 4, which has no content
  EXPECT_TRUE(Verified(file, metadata, 1).ok());
  file[104] = 'x';
  file[0] = 'x';
  for (const std::size_t threads : {0, 1, 2, 3, 9}) {
    const Verdict verdict = Verified(file, metadata, threads);
    EXPECT_FALSE(verdict.ok());
    EXPECT_TRUE(verdict.bad_checksum.empty());
    ASSERT_EQ(verdict.bad.size(), 2u);
    EXPECT_EQ(verdict.bad[0].container, 0u);
    EXPECT_EQ(verdict.bad[1].container, 3u);
    EXPECT_NE(verdict.bad[1].why.find("sample: offset 104: MD5 of the 17 bytes of container 1 of variable 3"),
              std::string::npos)
        << verdict.bad[1].why;
  }
}

TEST(VerifyDataTest, ChunksOfManyPiecesAndMoreChunksThanLanesAreHashedOnAnyNumberOfThreads) {
  for (const Letter letter : kLetters) {
    SCOPED_TRACE(static_cast<char>(letter));
    std::string file = ManyContainers(letter);
    const FileMetadata metadata = Decoded(file);
    const std::vector<Container>& containers = metadata.layout.containers;
    for (const std::size_t threads : {1, 2, 3, 5, 64}) EXPECT_TRUE(Verified(file, metadata, threads).ok());
    file[containers[0].file_offset + (1 << 20)] ^= 1;
    file[containers[61].file_offset + containers[61].chunk_bytes - 1] ^= 1;
    for (const std::size_t threads : {1, 2, 3, 5, 64}) {
      const Verdict verdict = Verified(file, metadata, threads);
      ASSERT_EQ(verdict.bad.size(), 2u);
      EXPECT_EQ(verdict.bad[0].container, 0u);
      EXPECT_EQ(verdict.bad[1].container, 61u);
      EXPECT_EQ(verdict.bad_checksum.empty(), letter != Letter::kA && letter != Letter::kB);
    }
  }
}

TEST(VerifyDataTest, TheChecksumOfACoversAllBehindTheFileRecord) {
  const std::string file = FileOf(Letter::kA, MixedLayout(), {});
  const FileMetadata metadata = Decoded(file);
  const std::size_t gap = testing::ChunkOffset(MixedLayout(), 1, Letter::kA) + 13;
  const std::size_t tail = metadata.layout.containers[2].file_offset + 40;
  for (const std::size_t at : {gap, tail, file.size() - 1}) {
    for (const std::size_t threads : {1, 2}) {
      std::string damaged = file;
      damaged[at] = 'x';
      const Verdict verdict = Verified(damaged, Decoded(damaged), threads);
      EXPECT_TRUE(verdict.bad.empty());
      EXPECT_FALSE(verdict.ok());
      EXPECT_NE(verdict.bad_checksum.find("sample: offset 0: checksum is " + metadata.checksum_hex + ", expected "),
                std::string::npos)
          << verdict.bad_checksum;
    }
  }
}

TEST(VerifyDataTest, TheChecksumOfBCoversTheChunks) {
  std::string file = FileOf(Letter::kB, MixedLayout(), {});
  FileMetadata metadata = Decoded(file);
  file[metadata.layout.containers[2].file_offset + 40] = 'x';  // a tail
  EXPECT_TRUE(Verified(file, metadata, 1).ok());
  // Chunk hashes that fit other data do not help.
  file[metadata.layout.containers[0].file_offset] = 'x';
  metadata.chunk_hashes[0] = Md5(std::as_bytes(std::span(file)).subspan(metadata.layout.containers[0].file_offset, 40));
  const Verdict verdict = Verified(file, metadata, 2);
  EXPECT_TRUE(verdict.bad.empty());
  EXPECT_FALSE(verdict.bad_checksum.empty());
}

TEST(VerifyDataTest, EachThreadHasItsOwnContainersAndTheCallersIsOne) {
  const std::string file = ManyContainers(Letter::kF);
  const FileMetadata metadata = Decoded(file);
  for (const std::size_t threads : {1, 2, 4}) {
    std::mutex mutex;
    std::set<std::thread::id> readers;
    std::uint64_t bytes = 0;
    const ReadAt read = [&, whole = ReaderOf(file)](std::uint64_t offset, std::span<std::byte> target) {
      const std::lock_guard lock(mutex);
      readers.insert(std::this_thread::get_id());
      bytes += target.size();
      return whole(offset, target);
    };
    const auto verdict = VerifyData("sample", metadata, read, threads);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    EXPECT_TRUE(readers.contains(std::this_thread::get_id()));
    EXPECT_LE(readers.size(), threads);
    EXPECT_EQ(bytes, metadata.layout.data_bytes) << "each byte once";
    if (threads > 1) {
      EXPECT_GT(readers.size(), 1u);
    }
  }
}

TEST(VerifyDataTest, ErrorsOfTheReaderPassThroughFromAnyThread) {
  for (const Letter letter : {Letter::kA, Letter::kF}) {
    const std::string file = ManyContainers(letter);
    const FileMetadata metadata = Decoded(file);
    for (const std::size_t bad : {std::size_t{0}, metadata.layout.containers.size() - 1}) {
      const std::uint64_t begin = metadata.layout.containers[bad].file_offset;
      const ReadAt read = [&, whole = ReaderOf(file)](std::uint64_t offset, std::span<std::byte> target) {
        return offset <= begin && begin < offset + target.size() ? Unavailable("no disk") : whole(offset, target);
      };
      for (const std::size_t threads : {1, 2, 3}) {
        EXPECT_EQ(VerifyData("sample", metadata, read, threads).status().code(), absl::StatusCode::kUnavailable);
      }
    }
  }
}

TEST(VerifyDataTest, AReaderThatThrowsIsAnErrorOnAnyThread) {
  const std::string file = ManyContainers(Letter::kF);
  const FileMetadata metadata = Decoded(file);
  const ReadAt read = [](std::uint64_t, std::span<std::byte>) -> absl::Status { throw std::bad_alloc(); };
  for (const std::size_t threads : {1, 2}) {
    EXPECT_EQ(VerifyData("sample", metadata, read, threads).status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(VerifyDataTest, AFileWithoutContainersIsWhole) {
  for (const Letter letter : kLetters) {
    const std::string file = FileOf(letter, FileLayout{}, {});
    const FileMetadata metadata = Decoded(file);
    for (const std::size_t threads : {1, 2}) EXPECT_TRUE(Verified(file, metadata, threads).ok());
  }
}

}  // namespace
}  // namespace cairn::ftiff
