// Directories that are not as a follower would like them: half rewritten, growing all the time, of any size.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "storage/base/checksum.h"
#include "storage/file/bpdir/follow.h"
#include "storage/io/create_once.h"
#include "storage/io/posix_disk.h"
#include "tests/support/fake_disk.h"
#include "tests/support/growing_bp5.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

constexpr const char* kFrom = "/cache/ds/fields.bp";
constexpr const char* kTo = "/prefix/run/fields.bp";

bool Always(std::uint64_t) {
  return true;
}

std::string Read(Disk& disk, const std::string& path) {
  return ReadWhole(disk, path, 1 << 30).value_or("");
}

void Put(Disk& disk, const std::string& path, const std::string& bytes) {
  const auto file = disk.Open(path, {.writable = true});
  ASSERT_OK(file);
  ASSERT_OK((*file)->Truncate(0));
  ASSERT_OK(WriteSynced(**file, 0, bytes));
}

// The bytes of the entries of mmd.0 that a reader takes for complete.
std::size_t CompleteEntries(const std::string& formats) {
  constexpr std::uint64_t kHeader = 16;
  std::size_t at = 0;
  while (formats.size() - at >= kHeader) {
    std::uint64_t lengths[2];
    std::memcpy(lengths, formats.data() + at, sizeof lengths);
    const std::uint64_t left = formats.size() - at - kHeader;
    if (lengths[0] > left || lengths[1] > left - lengths[0]) break;
    at += kHeader + lengths[0] + lengths[1];
  }
  return at;
}

TEST(FollowTornTest, FormatsThatAreHalfRewrittenAreNotBelieved) {
  FakeDisk source;
  GrowingBp5 job(source, kFrom);
  ASSERT_OK(job.Create(7));
  for (int i = 0; i < 4; ++i) ASSERT_OK(job.Step());
  std::map<std::string, std::string> whole;
  for (const char* name : {"md.idx", "md.0", "mmd.0"}) whole[name] = Read(source, std::string(kFrom) + "/" + name);
  const std::string& formats = whole["mmd.0"];
  ASSERT_EQ(CompleteEntries(formats), formats.size());
  for (std::size_t k = 1; k <= formats.size(); ++k) {
    for (const auto& [name, bytes] : whole) Put(source, std::string(kFrom) + "/" + name, bytes);
    FakeDisk target;
    Follower follower({source, kFrom, target, kTo}, Always);
    ASSERT_OK(follower.Step());
    // The job starts over.
    Put(source, std::string(kFrom) + "/md.idx", whole["md.idx"].substr(0, kIndexHeaderBytes));
    Put(source, std::string(kFrom) + "/mmd.0", formats.substr(0, formats.size() - k));
    ASSERT_OK(follower.Step()) << k;
    for (const auto& [name, bytes] : whole) Put(source, std::string(kFrom) + "/" + name, bytes);
    bool inside = false, good = true;
    target.SetHook([&](FakeOp op, const std::string&) {
      if (inside || (op != FakeOp::kWrite && op != FakeOp::kSync)) return;
      inside = true;
      const std::string there = Read(target, std::string(kTo) + "/mmd.0");
      good &= formats.starts_with(there.substr(0, CompleteEntries(there)));
      inside = false;
    });
    ASSERT_OK(follower.Step()) << k;
    target.SetHook(nullptr);
    ASSERT_TRUE(good) << k << ": an entry was shown that is none";
    ASSERT_OK_AND_ASSIGN(const std::uint32_t shown, WholeSteps(target, kTo));
    ASSERT_EQ(shown, 4u) << k;
    ASSERT_TRUE(Read(target, std::string(kTo) + "/mmd.0") == formats) << k;
  }
}

// What is behind the entries in use when the job starts over may be another by the time it is used.
TEST(FollowTornTest, FormatsThatNoStepUsesAnyMoreAreBroughtAnew) {
  FakeDisk source, target;
  GrowingBp5 job(source, kFrom);
  ASSERT_OK(job.Create(7));
  for (int i = 0; i < 4; ++i) ASSERT_OK(job.Step());
  Follower follower({source, kFrom, target, kTo}, Always);
  ASSERT_OK(follower.Step());
  const std::string index = Read(source, std::string(kFrom) + "/md.idx");
  Put(source, std::string(kFrom) + "/md.idx", index.substr(0, kIndexHeaderBytes));
  ASSERT_OK(follower.Step());
  EXPECT_EQ(Read(target, std::string(kTo) + "/mmd.0"), "");
}

TEST(FollowTornTest, RecordsTooShortForAHeaderAreJustWritten) {
  FakeDisk disk;
  ASSERT_OK(MakeDirectories(disk, "/d"));
  for (const std::size_t bytes : {0, 1, 7, 8, 14, 15, 16, 17, 40}) {
    const std::string path = "/d/" + std::to_string(bytes), records(bytes, 'r');
    auto file = disk.Open(path, {.writable = true, .create = true});
    ASSERT_OK(file);
    ASSERT_OK(AppendAtOnce(**file, 0, records, kLengthInFormats));
    EXPECT_EQ(Read(disk, path), records);
  }
}

TEST(FollowTornTest, AStepEndsHoweverFastTheWriterIs) {
  FakeDisk source, target;
  GrowingBp5 job(source, kFrom);
  ASSERT_OK(job.Create(7));
  ASSERT_OK(job.Step());
  Follower follower({source, kFrom, target, kTo}, Always);
  constexpr std::uint32_t kStepsMax = 30;
  target.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kSync && path.ends_with("data.0") && job.steps() < kStepsMax) {
      EXPECT_OK(job.Step());
    }
  });
  ASSERT_OK(follower.Step());
  EXPECT_EQ(follower.followed().flushed, 1u);
  EXPECT_TRUE(follower.followed().more);
  target.SetHook(nullptr);
  ASSERT_OK(follower.Step());
  EXPECT_EQ(follower.followed().flushed, job.steps());
  EXPECT_FALSE(follower.followed().more);
}

TEST(FollowTornTest, ASubfileHasOneNameOnly) {
  for (const std::uint32_t subfile : {0u, 1u, 7u, 10u, 4294967295u}) {
    EXPECT_EQ(SubfileOf(DataName(subfile)), subfile);
    EXPECT_TRUE(IsOfDirectory(DataName(subfile)));
  }
  for (const char* name : {"data.", "data.007", "data.00", "data.-1", "data.+1", "data.1 ", "data.1.old", "data.x",
                           "data.4294967296", "Data.1", "data1"}) {
    EXPECT_EQ(SubfileOf(name), std::nullopt) << name;
    EXPECT_FALSE(IsOfDirectory(name)) << name;
  }
}

// --- Files of any size ---

std::string EmptyFolder(const std::string& name) {
  const std::string path = ::testing::TempDir() + "/" + name;
  const auto disk = MakePosixDisk();
  EXPECT_OK(RemoveTree(*disk, path));
  EXPECT_OK(MakeDirectories(*disk, path));
  return path;
}

TEST(FollowSizeTest, ADirectoryIsClosedWhateverIsBehindItsMetadata) {
  const auto disk = MakePosixDisk();
  const std::string path = EmptyFolder("closed") + "/fields.bp";
  GrowingBp5 job(*disk, path);
  ASSERT_OK(job.Create(7));
  for (int i = 0; i < 3; ++i) ASSERT_OK(job.Step());
  const std::string metadata = Read(*disk, path + "/md.0");
  ASSERT_EQ(::truncate((path + "/md.0").c_str(), off_t{3} << 30), 0);
  ASSERT_OK(Close(*disk, path));
  EXPECT_TRUE(Read(*disk, path + "/md.0") == metadata);
  ASSERT_OK_AND_ASSIGN(const std::uint32_t shown, WholeSteps(*disk, path));
  EXPECT_EQ(shown, 3u);
  EXPECT_FALSE(IsActive(*disk, path));
}

// No memory has room for what a catalogue may claim.
TEST(FollowSizeTest, RecordsOfAnySizeAreComparedAndCopiedInPieces) {
  FakeDisk source, target;
  GrowingBp5 job(source, kFrom);
  ASSERT_OK(job.Create(7));
  ASSERT_OK(job.Step());
  catalogue::FileEntry entry;
  entry.set_bytes(std::uint64_t{1} << 62);
  entry.add_crc32c(0);
  std::string damaged;
  for (const char* name : {"mmd.0", "md.idx"}) {
    EXPECT_STATUS(absl::StatusCode::kDataLoss, Finish({source, kFrom, target, kTo}, {{name, &entry}}, Always, &damaged),
                  name);
  }
}

// Their first bytes are written last, and all are checked.
TEST(FollowSizeTest, RecordsOfManyBlocksAreCopiedWhole) {
  std::string formats(3 * kCrcBlockBytes + 5, 'f');
  for (std::size_t i = 0; i < formats.size(); i += 101) formats[i] = static_cast<char>(i / 101);
  catalogue::FileEntry entry;
  entry.set_bytes(formats.size());
  for (std::size_t at = 0; at < formats.size(); at += kCrcBlockBytes) {
    const std::string_view block = std::string_view(formats).substr(at, kCrcBlockBytes);
    entry.add_crc32c(Crc32c(std::as_bytes(std::span(block.data(), block.size()))));
  }
  FakeDisk source, target;
  ASSERT_OK(MakeDirectories(source, kFrom));
  const std::string from = std::string(kFrom) + "/mmd.0", to = std::string(kTo) + "/mmd.0";
  ASSERT_OK(CreateFileOnce(source, from, formats));
  std::string damaged;
  ASSERT_OK(Finish({source, kFrom, target, kTo}, {{"mmd.0", &entry}}, Always, &damaged));
  EXPECT_TRUE(Read(target, to) == formats);
  for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{20}, 2 * kCrcBlockBytes + 9, formats.size() - 1}) {
    source.FlipBit(from, 8 * at);
    FakeDisk another;
    EXPECT_STATUS(absl::StatusCode::kDataLoss,
                  Finish({source, kFrom, another, kTo}, {{"mmd.0", &entry}}, Always, &damaged), "CRC32C");
    source.FlipBit(from, 8 * at);
  }
}

}  // namespace
}  // namespace cairn::bpdir
