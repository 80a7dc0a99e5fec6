#include "storage/file/bpdir/writer.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "storage/file/bpdir/directory.h"
#include "storage/io/create_once.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn::bpdir {
namespace {

constexpr std::uint64_t kValues = 5;  // of a block: 40 bytes, padded to 48

std::vector<double> ValuesOf(std::uint32_t step, std::uint32_t writer) {
  std::vector<double> values(kValues);
  for (std::size_t i = 0; i < kValues; ++i) values[i] = 1000.0 * step + 10.0 * writer + static_cast<double>(i);
  return values;
}

bp5::Put Values(const std::string& name, std::uint32_t writer, std::uint32_t writers) {
  bp5::Put put;
  put.name = name;
  put.kind = bp5::Kind::kGlobalArray;
  put.type = bp5::Type::kDouble;
  put.shape = {writers * kValues};
  put.blocks.resize(1);
  put.blocks[0].box.start = {writer * kValues};
  put.blocks[0].box.count = {kValues};
  return put;
}

// A job that writes steps: x in each, another variable from each step on, so that formats change. `idle` more writers
// have records only: with many of them a record in md.idx is longer than what a disk writes at once.
struct Job {
  std::uint32_t idle = 0;
  std::uint32_t subfiles = 2;
  std::vector<bp5::WriterEncoder> encoders = std::vector<bp5::WriterEncoder>(2);
  bp5::WriterEncoder idle_encoder;

  absl::Status Step(Writer& writer) {
    const std::uint32_t step = writer.steps();
    std::vector<bp5::EncodedStep> encoded;
    std::vector<bp5::WriterData> data;
    std::vector<std::uint32_t> map;
    for (std::uint32_t w = 0; w < 2; ++w) {
      const std::vector<double> values = ValuesOf(step, w);
      map.push_back(w % subfiles);
      CAIRN_ASSIGN_OR_RETURN(const std::uint64_t position,
                             writer.WriteData(map.back(), std::as_bytes(std::span(values))));
      data.push_back({.flushed = {}, .position = position});
      std::vector<bp5::Put> puts = {Values("x", w, 2)};
      for (std::uint32_t i = 0; i < step; ++i) puts.push_back(Values(fmt::format("y{}", i), w, 2));
      CAIRN_ASSIGN_OR_RETURN(bp5::EncodedStep record, encoders[w].Encode(puts, 48));
      encoded.push_back(std::move(record));
    }
    CAIRN_ASSIGN_OR_RETURN(const bp5::EncodedStep record, idle_encoder.Encode({}, 0));
    encoded.resize(2 + idle, record);
    data.resize(2 + idle);
    map.resize(2 + idle);
    return writer.EndStep(encoded, data, map);
  }
};

void ExpectStep(Directory& directory, std::uint32_t step) {
  const bp5::Metadata& metadata = directory.metadata();
  const auto x = metadata.FindVariable("x");
  ASSERT_TRUE(x);
  std::vector<double> read(2 * kValues), wanted = ValuesOf(step, 0);
  const std::vector<double> second = ValuesOf(step, 1);
  wanted.insert(wanted.end(), second.begin(), second.end());
  ASSERT_OK_AND_ASSIGN(const bool covered,
                       bp5::ReadSelection(metadata, *x, step, {{0}, {2 * kValues}}, directory.data(),
                                          std::as_writable_bytes(std::span(read))));
  EXPECT_TRUE(covered);
  EXPECT_EQ(read, wanted) << "step " << step;
}

// All steps, whole. Answers how many.
std::uint32_t ExpectSteps(Disk& disk, const std::string& path) {
  absl::StatusOr<std::unique_ptr<Directory>> directory = Directory::Open(ReadFiles(disk, path));
  EXPECT_OK(directory);
  if (!directory.ok()) return ~0u;
  for (std::uint32_t step = 0; step < (*directory)->metadata().steps(); ++step) ExpectStep(**directory, step);
  return (*directory)->metadata().steps();
}

std::uint64_t BytesAt(Disk& disk, const std::string& path) {
  const absl::StatusOr<FileInfo> info = disk.Info(path);
  return info.ok() ? info->bytes : ~std::uint64_t{0};
}

char ActiveFlag(Disk& disk, const std::string& path) {
  const absl::StatusOr<std::string> index = ReadWhole(disk, path + "/md.idx", 1 << 20);
  EXPECT_OK(index);
  return index.ok() && index->size() >= 64 ? (*index)[bp5::kActiveOffset] : 'x';
}

void AppendBytes(Disk& disk, const std::string& path, const std::string& bytes) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<File> file, disk.Open(path, {.writable = true}));
  ASSERT_OK_AND_ASSIGN(const FileInfo info, file->Info());
  ASSERT_OK(file->WriteAt(info.bytes, std::as_bytes(std::span(bytes))));
  ASSERT_OK(file->Sync());
}

class WriterTest : public ::testing::Test {
 protected:
  static constexpr const char* kPath = "/a/b.bp";

  // Steps, and closed.
  void Write(std::uint32_t steps) {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
    for (std::uint32_t i = 0; i < steps; ++i) ASSERT_OK(job_.Step(*writer));
    ASSERT_OK(writer->Close());
  }
  std::string In(const std::string& name) const { return std::string(kPath) + "/" + name; }

  FakeDisk disk_;
  Job job_;
};

TEST_F(WriterTest, StepsAreThereOnceEnded) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer,
                       Writer::Create(disk_, kPath, {.column_major = true, .id = 7}));
  EXPECT_EQ(ExpectSteps(disk_, kPath), 0u);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    ASSERT_OK(job_.Step(*writer));
    EXPECT_EQ(writer->steps(), i);
    EXPECT_EQ(ExpectSteps(disk_, kPath), i);
    EXPECT_EQ(ActiveFlag(disk_, kPath), 1);
  }
  ASSERT_OK(writer->Close());
  EXPECT_EQ(ActiveFlag(disk_, kPath), 0);
  ASSERT_OK_AND_ASSIGN(const auto directory, Directory::Open(ReadFiles(disk_, kPath)));
  EXPECT_EQ(directory->metadata().header().id, 7u);
  EXPECT_TRUE(directory->metadata().header().column_major);
  EXPECT_EQ(BytesAt(disk_, In("data.0")), 3 * 48u);
}

TEST_F(WriterTest, DataWithoutBytesMakesNoFile) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
  ASSERT_OK_AND_ASSIGN(const std::uint64_t position, writer->WriteData(5, {}));
  EXPECT_EQ(position, 0u);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(In("data.5")), "");
}

TEST_F(WriterTest, NoneIsMadeWhereOneIs) {
  Write(1);
  EXPECT_STATUS(absl::StatusCode::kAlreadyExists, Writer::Create(disk_, kPath, {}), kPath);
  EXPECT_EQ(ExpectSteps(disk_, kPath), 1u);
}

TEST_F(WriterTest, AppendGoesOnBehindTheLastStep) {
  Write(2);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Append(disk_, kPath, false));
  EXPECT_EQ(writer->steps(), 2u);
  EXPECT_EQ(ActiveFlag(disk_, kPath), 1);
  job_ = Job{};
  ASSERT_OK(job_.Step(*writer));
  ASSERT_OK(writer->Close());
  EXPECT_EQ(ExpectSteps(disk_, kPath), 3u);
}

TEST_F(WriterTest, AppendWritesNoKnownFormatAndNoEqualMapAgain) {
  Job job;
  const auto step = [&](Writer& writer) {
    ASSERT_OK_AND_ASSIGN(const bp5::EncodedStep record, job.idle_encoder.Encode({}, 0));
    ASSERT_OK(writer.EndStep({&record, 1}, std::vector<bp5::WriterData>(1), std::vector<std::uint32_t>{0}));
  };
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
    step(*writer);
    ASSERT_OK(writer->Close());
  }
  const std::uint64_t formats = BytesAt(disk_, In("mmd.0")), index = BytesAt(disk_, In("md.idx"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Append(disk_, kPath, false));
  step(*writer);
  ASSERT_OK(writer->Close());
  EXPECT_EQ(BytesAt(disk_, In("mmd.0")), formats);
  EXPECT_EQ(BytesAt(disk_, In("md.idx")), index + 9 + 8 * 4);
}

TEST_F(WriterTest, TheActiveFlagKeepsAnotherWriterOut) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> first, Writer::Create(disk_, kPath, {}));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Writer::Append(disk_, kPath, false), kPath);
  ASSERT_OK(job_.Step(*first));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Writer::Append(disk_, kPath, false), kPath);
  ASSERT_OK(first->Close());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> second, Writer::Append(disk_, kPath, false));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Writer::Append(disk_, kPath, false), kPath);
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> third, Writer::Append(disk_, kPath, true));
  EXPECT_EQ(third->steps(), 1u);
}

TEST_F(WriterTest, AppendWithoutOrWithADamagedIndexIsRefused) {
  EXPECT_STATUS(absl::StatusCode::kNotFound, Writer::Append(disk_, kPath, true), "md.idx");
  ASSERT_OK(MakeDirectories(disk_, kPath));
  ASSERT_OK(CreateFileOnce(disk_, In("md.idx"), "short"));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Writer::Append(disk_, kPath, true), "md.idx");
  ASSERT_OK(ReplaceFile(disk_, In("md.idx"), std::string(64, 'x')));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Writer::Append(disk_, kPath, true), "");
  ASSERT_OK(ReplaceFile(disk_, In("md.idx"), bp5::EncodeIndexHeader({}) + std::string(90, 'x')));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Writer::Append(disk_, kPath, true), "md.idx");
}

TEST_F(WriterTest, AppendCutsOffWhatBelongsToNoStep) {
  Write(2);
  const std::vector<std::string> names = {"md.idx", "md.0", "mmd.0", "data.0"};
  std::vector<std::uint64_t> before;
  for (const std::string& name : names) before.push_back(BytesAt(disk_, In(name)));
  AppendBytes(disk_, In("md.idx"), "s" + std::string("\xf8\0\0\0\0\0\0\0", 8) + std::string(20, 'x'));
  AppendBytes(disk_, In("md.0"), std::string(1000, 'x'));
  AppendBytes(disk_, In("mmd.0"), std::string("\x0c\0\0\0\0", 5));
  AppendBytes(disk_, In("data.0"), std::string(1000, 'x'));
  ASSERT_OK(CreateFileOnce(disk_, In("data.7"), "of a step that never was"));
  ASSERT_OK(CreateFileOnce(disk_, In("data.07"), "not a subfile"));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Append(disk_, kPath, false));
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(BytesAt(disk_, In(names[i])), before[i]) << names[i];
  EXPECT_EQ(BytesAt(disk_, In("data.7")), 0u);
  EXPECT_EQ(BytesAt(disk_, In("data.07")), 13u);
  ASSERT_OK(job_.Step(*writer));
  ASSERT_OK(writer->Close());
  EXPECT_EQ(ExpectSteps(disk_, kPath), 3u);
}

TEST_F(WriterTest, WhatALinkLeadsToIsNeverCutOrWritten) {
  Write(1);
  ASSERT_OK(CreateFileOnce(disk_, "/a/bytes", std::string(4096, 'b')));
  ASSERT_OK(disk_.Symlink("../bytes", In("data.9")));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Append(disk_, kPath, false));
  EXPECT_EQ(BytesAt(disk_, "/a/bytes"), 4096u);
  const std::vector<double> values = ValuesOf(0, 0);
  EXPECT_STATUS(absl::StatusCode::kInvalidArgument, writer->WriteData(9, std::as_bytes(std::span(values))), "data.9");
}

TEST_F(WriterTest, WhatDoesNotFitIsRefusedAndHarmless) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
  ASSERT_OK_AND_ASSIGN(const bp5::EncodedStep record, job_.idle_encoder.Encode({}, 0));
  const std::vector<bp5::EncodedStep> two = {record, record};
  const std::vector<std::uint32_t> map = {0, 0};
  std::vector<bp5::WriterData> data(2);
  const auto refused = absl::StatusCode::kInvalidArgument;
  EXPECT_STATUS(refused, writer->EndStep({}, {}, {}), "0 writers");
  EXPECT_STATUS(refused, writer->EndStep(two, std::span(data).first(1), map), "1 places");
  EXPECT_STATUS(refused, writer->EndStep(two, data, std::span(map).first(1)), "1 subfiles");
  EXPECT_STATUS(refused, writer->EndStep(std::vector<bp5::EncodedStep>(2), data, map), "writer 0");
  data[1].flushed.push_back({0, 0});
  EXPECT_STATUS(refused, writer->EndStep(two, data, map), "writer 1");
  ASSERT_OK(job_.Step(*writer));
  EXPECT_EQ(ExpectSteps(disk_, kPath), 1u);
}

TEST_F(WriterTest, ClosedIsClosed) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
  ASSERT_OK(writer->Close());
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, job_.Step(*writer), "closed");
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, writer->WriteData(0, {}), "closed");
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, writer->Close(), "closed");
}

// --- failing storage ---

TEST_F(WriterTest, AFailedSyncIsFinal) {
  for (const char* file : {"data.0", "mmd.0", "md.0", "b.bp"}) {
    SCOPED_TRACE(file);
    FakeDisk disk;
    Job job;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk, kPath, {}));
    const bool directory = std::string_view(file) == "b.bp";
    if (!directory) {
      ASSERT_OK(job.Step(*writer));
    }
    disk.FailOn({.op = directory ? FakeOp::kSyncDirectory : FakeOp::kSync,
                 .path_part = directory ? file : std::string("/") + file});
    EXPECT_STATUS(absl::StatusCode::kUnavailable, job.Step(*writer), "injected");
    EXPECT_STATUS(absl::StatusCode::kUnavailable, job.Step(*writer), "injected");
    EXPECT_STATUS(absl::StatusCode::kUnavailable, writer->WriteData(0, {}), "injected");
    EXPECT_OK(writer->Close());
    EXPECT_EQ(ActiveFlag(disk, kPath), 0);
    EXPECT_EQ(ExpectSteps(disk, kPath), directory ? 0u : 1u);
    disk.Restart(1);
    ASSERT_OK_AND_ASSIGN(const auto closed, Directory::Open(ReadFiles(disk, kPath)));
    EXPECT_OK(closed->ending()) << "nothing of the failed step looks like a lost one";
  }
}

TEST_F(WriterTest, AfterAFailedSyncOfTheIndexTheDirectoryIsToBeTakenOver) {
  for (std::uint64_t nth = 1; nth <= 3; ++nth) {
    SCOPED_TRACE(nth);
    FakeDisk disk;
    Job job;
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk, kPath, {}));
    ASSERT_OK(job.Step(*writer));
    disk.FailOn({.op = FakeOp::kSync, .path_part = "md.idx", .nth = nth});
    EXPECT_STATUS(absl::StatusCode::kUnavailable, job.Step(*writer), "injected");
    EXPECT_STATUS(absl::StatusCode::kUnavailable, writer->Close(), "injected");
    EXPECT_EQ(ActiveFlag(disk, kPath), 1);
    EXPECT_EQ(ExpectSteps(disk, kPath), 1u);
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> next, Writer::Append(disk, kPath, true));
    ASSERT_OK(job.Step(*next));
    ASSERT_OK(next->Close());
    EXPECT_EQ(ExpectSteps(disk, kPath), 2u);
  }
}

TEST_F(WriterTest, AFullDiskFailsTheStepAndKeepsThoseBefore) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
  ASSERT_OK(job_.Step(*writer));
  disk_.SetCapacity(0);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, job_.Step(*writer), "");
  disk_.SetCapacity(UINT64_MAX);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, job_.Step(*writer), "");
  EXPECT_OK(writer->Close());
  EXPECT_EQ(ExpectSteps(disk_, kPath), 1u);
}

TEST_F(WriterTest, EachFileIsDurableBeforeTheNextIsWritten) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Create(disk_, kPath, {}));
  std::vector<std::string> log;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kWrite && op != FakeOp::kSync && op != FakeOp::kSyncDirectory) return;
    const std::string entry = (op == FakeOp::kWrite ? "write " : "sync ") + BaseOf(path);
    if (log.empty() || log.back() != entry) log.push_back(entry);
  });
  job_.subfiles = 1;
  ASSERT_OK(job_.Step(*writer));
  disk_.SetHook(nullptr);
  const std::vector<std::string> wanted = {"write data.0", "sync data.0",  "sync b.bp",   "write mmd.0",  "sync mmd.0",
                                           "write mmd.0",  "sync mmd.0",   "write mmd.0", "sync mmd.0",   "write md.0",
                                           "sync md.0",    "write md.idx", "sync md.idx", "write md.idx", "sync md.idx",
                                           "write md.idx", "sync md.idx"};
  EXPECT_EQ(log, wanted);
}

// --- crashes ---

struct Life {
  bool created = false;
  std::uint32_t ended = 0;  // steps
  bool whole = false;       // nothing failed
};

// Two steps, closed, gone on with, two more.
Life Live(Disk& disk, const std::string& path, Job job) {
  Life life;
  const auto steps = [&](absl::StatusOr<std::unique_ptr<Writer>> writer) {
    if (!writer.ok()) return false;
    life.created = true;
    for (int i = 0; i < 2; ++i) {
      if (!job.Step(**writer).ok()) return false;
      ++life.ended;
    }
    return (*writer)->Close().ok();
  };
  life.whole = steps(Writer::Create(disk, path, {})) && steps(Writer::Append(disk, path, false));
  return life;
}

void ExpectWholeAfterCrash(FakeDisk& disk, const std::string& path, const Life& life) {
  if (!disk.Info(path + "/md.idx").ok()) {
    EXPECT_FALSE(life.created);
    return;
  }
  const std::uint32_t steps = ExpectSteps(disk, path);
  EXPECT_TRUE(steps == life.ended || steps == life.ended + 1) << steps << " of " << life.ended;
  Job job;
  {
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Writer> writer, Writer::Append(disk, path, true));
    EXPECT_EQ(writer->steps(), steps);
    ASSERT_OK(job.Step(*writer));
    ASSERT_OK(writer->Close());
  }
  EXPECT_EQ(ExpectSteps(disk, path), steps + 1);
  ASSERT_OK_AND_ASSIGN(const auto directory, Directory::Open(ReadFiles(disk, path)));
  EXPECT_EQ(directory->metadata().index_bytes(), BytesAt(disk, path + "/md.idx"));
  EXPECT_EQ(directory->metadata().metadata_bytes(), BytesAt(disk, path + "/md.0"));
  EXPECT_EQ(directory->metadata().formats_bytes(), BytesAt(disk, path + "/mmd.0"));
}

void CrashEverywhere(std::uint32_t idle, std::uint64_t seeds) {
  for (std::uint64_t n = 1;; ++n) {
    bool reached = true;
    for (std::uint64_t seed = 0; seed < seeds && reached; ++seed) {
      FakeDisk disk;
      Job job;
      job.idle = idle;
      disk.CrashAt(n);
      const Life life = Live(disk, "/a/b.bp", std::move(job));
      reached = disk.crashed();
      EXPECT_NE(reached, life.whole);
      disk.Restart(1000 * n + seed);
      ExpectWholeAfterCrash(disk, "/a/b.bp", life);
      ASSERT_FALSE(::testing::Test::HasFailure()) << "operation " << n << ", seed " << seed;
    }
    if (!reached) break;
  }
}

TEST(WriterCrashTest, EveryEndedStepAndNoHalfOneSurvives) {
  CrashEverywhere(0, 12);
}

TEST(WriterCrashTest, RecordsLongerThanADiskWritesAtOnceAreWholeOrNotThere) {
  CrashEverywhere(700, 3);
}

}  // namespace
}  // namespace cairn::bpdir
