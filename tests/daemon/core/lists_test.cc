// Container lists through the daemon: from checkpoint to checkpoint, over a restore, over a restart of the daemon.
// FTI-FF specification, section 5. Here with FTI's own packing, whose lists tell the most, and at 1/1000 of the sizes.
#include <gtest/gtest.h>

#include <optional>
#include <span>

#include "storage/format/ftiff/codec.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/gate.h"
#include "tests/storage/format/ftiff/by_index.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

struct Row {
  std::int32_t id, index;
  bool has_content, in_file_before;
  std::uint64_t dptr, fptr, chunk, container;
  friend bool operator==(const Row&, const Row&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.id << "/" << row.index << " content " << row.has_content << " before " << row.in_file_before
               << " dptr " << row.dptr << " fptr " << row.fptr << " chunk " << row.chunk << " of " << row.container;
  }
};
using Rows = std::vector<Row>;

// Thousands of elements of four bytes, by variable from 1; nullopt: not protected.
using Sizes = std::vector<std::optional<std::uint64_t>>;

Memory MemoryOf(const Sizes& sizes, std::uint64_t seed) {
  Memory memory;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (!sizes[i]) continue;
    memory.push_back(PlainOf(static_cast<std::int32_t>(i + 1), RandomBytes(10 * seed + i, 4000 * *sizes[i])));
  }
  return memory;
}

class ListsTest : public ::testing::Test {
 protected:
  void StartWith(bool exact) {
    harness_.config.ftiff.exact = exact;
    ASSERT_TRUE(harness_.Start().ok());
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({}), local::OK, "");
  }
  void TearDown() override { client_ = nullptr; }

  DatasetId Make(const Memory& memory) {
    const local::Reply done = client_->Checkpoint(++step_, memory);
    EXPECT_SAYS(done, local::OK, "");
    EXPECT_SAYS(client_->Wait(done.committed().dataset(), local::LOCAL), local::OK, "");
    return done.committed().dataset();
  }
  DatasetId Make(const Sizes& sizes) { return Make(MemoryOf(sizes, step_ + 1)); }

  ftiff::FileMetadata MetadataOf(DatasetId id) {
    const std::string file = harness_.Read(disk_, harness_.CachedFile(id, 0));
    const auto read = [&file](std::uint64_t offset, std::span<std::byte> target) {
      file.copy(reinterpret_cast<char*>(target.data()), target.size(), offset);
      return absl::OkStatus();
    };
    auto metadata = ftiff::DecodeMetadata("file", file.size(), read);
    EXPECT_TRUE(metadata.ok()) << metadata.status();
    if (!metadata.ok()) return {};
    const auto verdict = ftiff::VerifyData("file", *metadata, read);
    EXPECT_TRUE(verdict.ok() && verdict->ok());
    return *metadata;
  }
  Rows RowsOf(DatasetId id) {
    Rows rows;
    for (const ftiff::Container& one : MetadataOf(id).layout.containers) {
      rows.push_back({one.id, one.index, one.has_content, one.in_file_before, one.variable_offset, one.file_offset,
                      one.chunk_bytes, one.container_bytes});
    }
    return rows;
  }
  // As FTI 1.1 gives them to an application that protects its variables in one order after the other.
  std::vector<std::string> ContentsOf(DatasetId id) {
    return ftiff::testing::ContentsByIndex(harness_.Read(disk_, harness_.CachedFile(id, 0)));
  }
  // Another launch, which restores `id` unless it is 0.
  void Relaunch(const std::string& key, DatasetId id, const Memory& memory) {
    ASSERT_SAYS(client_->Close(), local::OK, "");
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({.key = key}), local::OK, "");
    if (id == 0) return;
    Memory back = Blank(memory);
    const FakeClient::Restored restored = client_->Restore(id, back);
    ASSERT_EQ(restored.code, local::OK) << restored.message;
    for (std::size_t i = 0; i < memory.size(); ++i) EXPECT_TRUE(back[i].bytes == memory[i].bytes) << i;
  }
  void ResumeAfterRestart() {
    const LaunchId launch = client_->launch();
    const std::string token = client_->token();
    client_ = nullptr;
    harness_.Restart();
    client_ = std::make_unique<FakeClient>(harness_);
    ASSERT_SAYS(client_->Open({.launch = launch, .token = token}), local::OK, "");
  }

  FakeDisk disk_{{.direct = true}};
  CoreHarness harness_{&disk_, &disk_};
  std::unique_ptr<FakeClient> client_;
  std::uint64_t step_ = 0;
};

// Seven checkpoints: section 5.1.
TEST_F(ListsTest, ExactListsGrowAndShrinkAsInTheDocumentedExample) {
  StartWith(/*exact=*/true);
  Rows rows = {{1, 0, true, false, 0, 0, 4000, 4000},
               {2, 0, true, false, 0, 4000, 8000, 8000},
               {3, 0, true, false, 0, 12000, 12000, 12000}};
  EXPECT_EQ(RowsOf(Make({1, 2, 3})), rows);
  rows.push_back({4, 0, true, false, 0, 24000, 16000, 16000});
  EXPECT_EQ(RowsOf(Make({1, 2, 3, 4})), rows);
  rows.push_back({2, 1, true, false, 8000, 40000, 16000, 16000});
  rows.push_back({3, 1, true, false, 12000, 56000, 16000, 16000});
  EXPECT_EQ(RowsOf(Make({1, 6, 7, 4})), rows);
  rows.push_back({5, 0, true, false, 0, 72000, 20000, 20000});
  EXPECT_EQ(RowsOf(Make({1, 6, 7, 4, 5})), rows);
  rows[4].chunk = rows[5].chunk = 12000;
  EXPECT_EQ(RowsOf(Make({1, 5, 6, 4, 5})), rows);
  rows[4].chunk = rows[5].chunk = 16000;
  rows.push_back({2, 2, true, false, 24000, 92000, 8000, 8000});
  rows.push_back({3, 2, true, false, 28000, 100000, 8000, 8000});
  const DatasetId sixth = Make({1, 8, 9, 4, 5});
  EXPECT_EQ(RowsOf(sixth), rows);
  rows[1].chunk = 4000;
  rows[2].chunk = 8000;
  for (const std::size_t emptied : {4, 5, 7, 8}) {
    rows[emptied].has_content = false;
    rows[emptied].chunk = 0;
  }
  const DatasetId seventh = Make({1, 1, 2, 4, 5});
  EXPECT_EQ(RowsOf(seventh), rows);
  EXPECT_EQ(MetadataOf(seventh).file_bytes, 108'688u);
  // Emptied containers keep the last hash that they had, also over further checkpoints.
  const DatasetId eighth = Make({1, 1, 2, 4, 5});
  for (const std::size_t emptied : {4, 5, 7, 8}) {
    EXPECT_EQ(MetadataOf(seventh).chunk_hashes[emptied], MetadataOf(sixth).chunk_hashes[emptied]);
    EXPECT_EQ(MetadataOf(eighth).chunk_hashes[emptied], MetadataOf(sixth).chunk_hashes[emptied]);
  }
}

TEST_F(ListsTest, WhatIsNotProtectedAnyMoreStartsAFreshList) {
  StartWith(/*exact=*/true);
  Make({1, 2, 3});
  Make({1, 4, 3});
  EXPECT_EQ(RowsOf(Make({1, 4})),
            (Rows{{1, 0, true, false, 0, 0, 4000, 4000}, {2, 0, true, false, 0, 4000, 16000, 16000}}));
}

// Protected the other way round: the processing order stays that of the first time.
TEST_F(ListsTest, TheOrderOfProtectionDoesNotMatter) {
  StartWith(/*exact=*/true);
  const Memory memory = MemoryOf({1, 2, 3}, 1), grown = MemoryOf({2, 3, 4}, 2);
  const Rows first = RowsOf(Make(memory));
  EXPECT_EQ(RowsOf(Make(Memory{memory[2], memory[0], memory[1]})), first);
  const Rows rows = RowsOf(Make(Memory{grown[1], grown[2], grown[0]}));
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[3], (Row{1, 1, true, false, 4000, 24000, 4000, 4000}));
  EXPECT_EQ(rows[4], (Row{2, 1, true, false, 8000, 28000, 4000, 4000}));
  EXPECT_EQ(rows[5], (Row{3, 1, true, false, 12000, 32000, 4000, 4000}));
}

TEST_F(ListsTest, AlignedListsStayWhileVariablesFitAndStartAnewWhenOneOutgrowsItsContainers) {
  StartWith(/*exact=*/false);
  EXPECT_EQ(RowsOf(Make({1, 2})),
            (Rows{{1, 0, true, false, 0, 0, 4000, 4096}, {2, 0, true, false, 0, 4096, 8000, 8192}}));
  // It fits into the padding.
  Memory within = {PlainOf(1, RandomBytes(5, 4096)), PlainOf(2, RandomBytes(6, 10))};
  EXPECT_EQ(RowsOf(Make(within)),
            (Rows{{1, 0, true, false, 0, 0, 4096, 4096}, {2, 0, true, false, 0, 4096, 10, 8192}}));
  EXPECT_EQ(RowsOf(Make({1, 2, 3})), (Rows{{1, 0, true, false, 0, 0, 4000, 4096},
                                           {2, 0, true, false, 0, 4096, 8000, 8192},
                                           {3, 0, true, false, 0, 12288, 12000, 12288}}));
  EXPECT_EQ(RowsOf(Make({3, 2, 3})), (Rows{{1, 0, true, false, 0, 0, 12000, 12288},
                                           {2, 0, true, false, 0, 12288, 8000, 8192},
                                           {3, 0, true, false, 0, 20480, 12000, 12288}}));
}

TEST_F(ListsTest, AnAlignedListOfWhichLittleIsInUseStartsAnew) {
  StartWith(/*exact=*/false);
  Make({1, 20});
  EXPECT_EQ(RowsOf(Make({1, 6})).size(), 2u);
  EXPECT_EQ(RowsOf(Make({1, 6}))[1], (Row{2, 0, true, false, 0, 4096, 24000, 81920}));
  EXPECT_EQ(RowsOf(Make({1, 2}))[1], (Row{2, 0, true, false, 0, 4096, 8000, 8192}));
}

TEST_F(ListsTest, AnUnchangedListIsAnUnchangedPlan) {
  StartWith(/*exact=*/true);
  const auto plan_is_known = [this](const Sizes& sizes) {
    const Memory memory = MemoryOf(sizes, ++step_);
    const local::Reply begun = client_->Begin(step_, memory);
    EXPECT_SAYS(begun, local::OK, "");
    client_->Fill(memory);
    EXPECT_SAYS(client_->Commit(), local::OK, "");
    return begun.begin().same_plan();
  };
  EXPECT_FALSE(plan_is_known({1, 2}));
  EXPECT_TRUE(plan_is_known({1, 2}));
  EXPECT_FALSE(plan_is_known({1, 3}));
  EXPECT_TRUE(plan_is_known({1, 3}));
  EXPECT_FALSE(plan_is_known({1, 2}));
  EXPECT_TRUE(plan_is_known({1, 2}));
}

TEST_F(ListsTest, ARestoredFilesListGoesOnAndItsContainersCountAsInTheFileBefore) {
  StartWith(/*exact=*/true);
  Make({1, 2, 3});
  const Memory memory = MemoryOf({1, 1, 4}, 77);
  const DatasetId last = Make(memory);
  Rows rows = RowsOf(last);
  ASSERT_EQ(rows.size(), 4u);
  Relaunch("job.2", last, memory);
  for (Row& row : rows) row.in_file_before = true;
  EXPECT_EQ(RowsOf(Make({1, 1, 4})), rows);
  rows.push_back({2, 1, true, false, 8000, rows[3].fptr + rows[3].container, 4000, 4000});
  rows[1].chunk = 8000;
  EXPECT_EQ(RowsOf(Make({1, 3, 4})), rows);
}

TEST_F(ListsTest, ALaunchThatRestoresNothingStartsAFreshList) {
  StartWith(/*exact=*/true);
  Make({1, 2, 3});
  Make({1, 3, 3});
  Relaunch("job.2", 0, {});
  EXPECT_EQ(RowsOf(Make({1, 3, 3})), (Rows{{1, 0, true, false, 0, 0, 4000, 4000},
                                           {2, 0, true, false, 0, 4000, 12000, 12000},
                                           {3, 0, true, false, 0, 16000, 12000, 12000}}));
}

TEST_F(ListsTest, ARestoredFileOfTheDocumentedLayoutGivesItsListToo) {
  harness_.config.ftiff.layout_a = true;
  StartWith(/*exact=*/true);
  Make({1, 2});
  const Memory memory = MemoryOf({2, 2}, 77);
  const DatasetId last = Make(memory);
  EXPECT_EQ(MetadataOf(last).letter, ftiff::Letter::kA);
  harness_.config.ftiff.layout_a = false;
  harness_.core().Reload(harness_.config);
  Relaunch("job.2", last, memory);
  EXPECT_EQ(RowsOf(Make({2, 2})), (Rows{{1, 0, true, true, 0, 0, 4000, 4000},
                                        {2, 0, true, true, 0, 4000, 8000, 8000},
                                        {1, 1, true, true, 4000, 12000, 4000, 4000}}));
}

// The list goes on with the restored file, whose application registered in another order: variables of one size would
// be swapped by FTI 1.1, which goes by idx.
TEST_F(ListsTest, TheDocumentedLayoutCountsVariablesAsTheNewestLaunchRegisteredThem) {
  harness_.config.ftiff.layout_a = true;
  for (const bool exact : {true, false}) {
    SCOPED_TRACE(exact);
    if (exact) {
      StartWith(exact);
    } else {
      harness_.config.ftiff.exact = false;
      harness_.core().Reload(harness_.config);
    }
    const Memory memory = MemoryOf({2, 2, 2}, 77);
    const DatasetId before = Make(memory);
    EXPECT_EQ(ContentsOf(before), (std::vector{memory[0].bytes, memory[1].bytes, memory[2].bytes}));
    Relaunch(exact ? "job.2" : "job.3", before, memory);
    const Memory again = {memory[2], memory[0], memory[1]};
    const std::vector<std::string> expected = {again[0].bytes, again[1].bytes, again[2].bytes};
    const DatasetId after = Make(again);
    EXPECT_EQ(RowsOf(after).front().id, 1) << "the containers keep their places";
    EXPECT_TRUE(ContentsOf(after) == expected);
    ResumeAfterRestart();
    EXPECT_TRUE(ContentsOf(Make(again)) == expected) << "a list that was read anew";
    // Within a launch: what is protected anew after it was given up comes last.
    const Memory moved = {memory[0], memory[1], memory[2]};
    EXPECT_EQ(ContentsOf(Make(moved)), (std::vector{moved[0].bytes, moved[1].bytes, moved[2].bytes}));
  }
}

TEST_F(ListsTest, EachRankGoesOnWithTheFileOfItsOwnNumber) {
  harness_.config.ftiff.exact = true;
  ASSERT_TRUE(harness_.Start().ok());
  const auto bytes_of = [this](DatasetId id, Rank rank) { return disk_.Info(harness_.CachedFile(id, rank))->bytes; };
  // Rank 0 grows, rank 1 shrinks.
  const std::vector<Memory> before = {MemoryOf({1}, 1), MemoryOf({5}, 2)}, last = {MemoryOf({2}, 3), MemoryOf({1}, 4)};
  DatasetId id = 0;
  {
    Ranks ranks(harness_, 2, "job.1");
    ASSERT_NE(ranks.Checkpoint(1, before), 0u);
    id = ranks.Checkpoint(2, last);
    ASSERT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
  }
  Ranks ranks(harness_, 2, "job.2");
  std::vector<Memory> back = {Blank(last[0]), Blank(last[1])};
  for (const FakeClient::Restored& one : ranks.Restore(id, back)) ASSERT_EQ(one.code, local::OK) << one.message;
  const DatasetId next = ranks.Checkpoint(3, last);
  ASSERT_SAYS(ranks[0].Wait(next, local::LOCAL), local::OK, "");
  for (const Rank rank : {0u, 1u}) EXPECT_EQ(bytes_of(next, rank), bytes_of(id, rank));
  EXPECT_GT(bytes_of(next, 1), 20'000u);
  EXPECT_EQ(bytes_of(next, 0), 8000u + 106 + 2 * (12 + 58));
}

TEST_F(ListsTest, TheListGoesOnAfterARestartOfTheDaemon) {
  StartWith(/*exact=*/true);
  Make({1, 2, 3});
  const DatasetId before = Make({1, 4, 1});
  ResumeAfterRestart();
  const DatasetId after = Make({1, 1, 1});
  Rows rows = RowsOf(before);
  rows[1].chunk = 4000;
  rows[3].has_content = false;
  rows[3].chunk = 0;
  EXPECT_EQ(RowsOf(after), rows);
  EXPECT_EQ(MetadataOf(after).chunk_hashes[3], MetadataOf(before).chunk_hashes[3]);
}

TEST_F(ListsTest, AfterARestartAFileThatCannotBeReadGivesNoList) {
  StartWith(/*exact=*/true);
  const DatasetId before = Make({1, 2});
  Make({3, 2});
  const std::string file = harness_.CachedFile(Make({4, 2}), 0);
  ResumeAfterRestart();
  const std::uint64_t bytes = disk_.Info(file)->bytes;
  disk_.FlipBit(file, 8 * (bytes - 60));  // in the file record
  EXPECT_EQ(RowsOf(Make({1, 2})), RowsOf(before));
}

TEST_F(ListsTest, OfADatasetThatFailedTheListOfARankThatWasThroughCounts) {
  harness_.config.ftiff.exact = true;
  ASSERT_TRUE(harness_.Start().ok());
  Ranks ranks(harness_, 2, "job.1");
  const Memory small = MemoryOf({1}, 1), large = MemoryOf({2}, 2), other = MemoryOf({1}, 3);
  const auto sizes = [&](DatasetId id, Rank rank) {
    EXPECT_SAYS(ranks[0].Wait(id, local::LOCAL), local::OK, "");
    return disk_.Info(harness_.CachedFile(id, rank))->bytes;
  };
  const DatasetId first = ranks.Checkpoint(1, {small, small});
  const std::uint64_t bytes = sizes(first, 0);
  ASSERT_SAYS(ranks[0].Checkpoint(2, large), local::OK, "");
  ASSERT_SAYS(ranks[1].Begin(2, large), local::OK, "");
  ASSERT_SAYS(ranks[1].Abort("it does not want to"), local::OK, "");
  const DatasetId third = ranks.Checkpoint(3, {other, other});
  ASSERT_NE(third, 0u);
  EXPECT_EQ(sizes(third, 0), bytes + 4000 + 12 + 58);  // a container more, in a block of its own
  EXPECT_EQ(sizes(third, 1), bytes);
}

TEST_F(ListsTest, WhatWasRefusedLeavesNoTraceInTheList) {
  harness_.config.cache.bytes_max = 1 << 20;
  harness_.config.cache.bypass = false;
  StartWith(/*exact=*/true);
  const Rows rows = RowsOf(Make({1, 2}));
  EXPECT_SAYS(client_->Begin(++step_, MemoryOf({1, 1000}, 5)), local::RESOURCE_EXHAUSTED, "is full");
  EXPECT_EQ(RowsOf(Make({1, 2})), rows);
}

// The hash of an emptied container comes from the file before, which may still be on its way.
TEST_F(ListsTest, AnEmptiedContainersHashIsWaitedFor) {
  StartWith(/*exact=*/true);
  Make({1, 2});
  Gate gate(FakeOp::kSync, "-Rank0.fti");
  disk_.SetHook(gate.hook());
  const Memory grown = MemoryOf({3, 2}, 2), shrunk = MemoryOf({1, 2}, 3);
  const local::Reply second = client_->Checkpoint(2, grown);
  ASSERT_SAYS(second, local::OK, "");
  gate.AwaitArrival();
  const local::Reply third = client_->Checkpoint(3, shrunk);  // it is captured all the same
  ASSERT_SAYS(third, local::OK, "");
  gate.Open();
  const DatasetId id = third.committed().dataset();
  ASSERT_SAYS(client_->Wait(id, local::LOCAL), local::OK, "");
  ASSERT_EQ(RowsOf(id).size(), 3u);
  EXPECT_FALSE(RowsOf(id)[2].has_content);
  EXPECT_EQ(MetadataOf(id).chunk_hashes[2], MetadataOf(second.committed().dataset()).chunk_hashes[2]);
}

}  // namespace
}  // namespace cairn
