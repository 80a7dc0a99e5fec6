// What is left in caches goes to the prefix: whole, or by rank; whatever is damaged, missing or cut off meanwhile.
#include "storage/job/scavenge/scavenge.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/transfer/work_file.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/node_record.h"
#include "storage/place/prefix/index_tools.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using State = SavedDataset::State;

constexpr char kPrefixPath[] = "/pfs/demo";
constexpr std::uint32_t kRanks = 2;

// One file system with the caches of two nodes and the prefix on it.
class ScavengeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kPrefixPath));
    run_ = prefix->run();
    folder_ = OpenFolder("/node0");
  }

  std::unique_ptr<CacheFolder> OpenFolder(const std::string& cache) {
    auto folder = CacheFolder::Open(disk_, cache, "alice", "demo", run_, kPrefixPath);
    EXPECT_OK(folder.status());
    return folder.ok() ? *std::move(folder) : nullptr;
  }

  std::string ContentOf(DatasetId id, Rank rank) const { return TestContent(100 * id + rank, bytes_ * rank + 10); }
  enum class Kind { kCheckpoint, kOutput, kOwnFiles };
  scr::Descriptor DescriptorOf(DatasetId id, Kind kind) const {
    scr::Descriptor descriptor = TestDescriptor(id, kRanks);
    descriptor.checkpoint = kind == Kind::kCheckpoint;
    descriptor.output = kind != Kind::kCheckpoint;
    descriptor.own_files = kind == Kind::kOwnFiles;
    return descriptor;
  }

  // An output of the application's own files has the same name in each dataset.
  absl::Status CommitRank(CacheFolder& folder, DatasetId id, Rank rank, Kind kind) {
    const std::string content = ContentOf(id, rank);
    if (kind != Kind::kOwnFiles) {
      const std::string work = folder.WorkPath(id, rank);
      CAIRN_RETURN_IF_ERROR(WriteTestFile(disk_, work, content));
      return folder.CommitRank(TestCatalogue(run_, id, rank, kRanks, content), work);
    }
    const std::string name = NameOf(rank);
    CAIRN_ASSIGN_OR_RETURN(const std::string path, folder.RouteFile(id, name));
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk_, path, content));
    catalogue::Catalogue catalogue = EmptyCatalogue(run_, id, rank, kRanks);
    catalogue.set_files(true);
    *catalogue.add_file() = TestEntry(name, name, content);
    return folder.CommitRankFiles(catalogue);
  }
  static std::string NameOf(Rank rank) { return fmt::format("out/field.{}", rank); }

  void Write(CacheFolder& folder, DatasetId id, Kind kind = Kind::kCheckpoint) {
    ASSERT_OK(folder.Begin(DescriptorOf(id, kind)));
    for (Rank rank = 0; rank < kRanks; ++rank) ASSERT_OK(CommitRank(folder, id, rank, kind));
    ASSERT_OK(folder.Complete(DescriptorOf(id, kind)));
  }
  // What a node has that is not the only one.
  void WriteRank(CacheFolder& folder, DatasetId id, Rank rank, Kind kind = Kind::kCheckpoint) {
    ASSERT_OK(folder.Begin(DescriptorOf(id, kind)));
    ASSERT_OK(CommitRank(folder, id, rank, kind));
  }

  absl::StatusOr<std::vector<SavedDataset>> TryScavenge(const CacheFolder& folder, ScavengeRequest request = {}) {
    request.note = [this](const std::string& text) { notes_ += text + "\n"; };
    CAIRN_ASSIGN_OR_RETURN(const auto prefix, Prefix::Open(disk_, kPrefixPath));
    return ScavengeRun(disk_, disk_, {folder.path(), "demo", run_, kPrefixPath}, *prefix, request);
  }
  std::vector<SavedDataset> Scavenge(const CacheFolder& folder, const ScavengeRequest& request = {}) {
    auto saved = TryScavenge(folder, request);
    EXPECT_OK(saved.status());
    return saved.ok() ? *std::move(saved) : std::vector<SavedDataset>();
  }
  std::vector<SavedDataset> Scavenge() { return Scavenge(*folder_); }

  std::vector<DatasetId> Committed() {
    const auto prefix = Prefix::OpenReadOnly(disk_, kPrefixPath);
    EXPECT_OK(prefix.status());
    const auto committed = (*prefix)->Committed();
    EXPECT_OK(committed.status());
    std::vector<DatasetId> ids;
    for (const auto& [id, dataset] : *committed) {
      ids.push_back(id);
      ExpectWhole(**prefix, id);
    }
    return ids;
  }
  void ExpectWhole(Prefix& prefix, DatasetId id) {
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix.Catalogues(id));
    ASSERT_EQ(catalogues.size(), kRanks);
    // A crash may leave files where they wait for their names.
    ASSERT_OK_AND_ASSIGN(const WaitingFiles waiting, prefix.Waiting(catalogues));
    for (const catalogue::Catalogue& catalogue : catalogues) {
      for (const catalogue::FileEntry& file : catalogue.file()) {
        const auto waits = waiting.find(file.prefix_name());
        const std::string path = waits != waiting.end() ? waits->second : prefix.FilePath(file.prefix_name());
        EXPECT_OK(VerifyFile(disk_, path, file));
        ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk_, path, 16u << 20));
        EXPECT_EQ(bytes, ContentOf(id, catalogue.rank()));
      }
    }
  }
  bool Noted(std::string_view part) const { return notes_.find(part) != std::string::npos; }

  FakeDisk disk_;
  std::size_t bytes_ = 1500000;  // of rank 1's files, roughly
  RunId run_;
  std::unique_ptr<CacheFolder> folder_;
  std::string notes_;
};

using Ids = std::vector<DatasetId>;

TEST_F(ScavengeTest, SavesOutputsAndTheNewestCheckpoint) {
  Write(*folder_, 1);
  Write(*folder_, 2, Kind::kOutput);
  Write(*folder_, 3);
  Write(*folder_, 4, Kind::kOutput);
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 3u);
  for (const SavedDataset& dataset : saved) {
    EXPECT_EQ(dataset.state, State::kSaved);
    EXPECT_EQ(dataset.saved, (std::vector<Rank>{0, 1}));
    EXPECT_EQ(dataset.bytes, 1500020u);
    EXPECT_TRUE(dataset.missing.empty());
  }
  EXPECT_EQ(Committed(), Ids({2, 3, 4}));
  ASSERT_OK_AND_ASSIGN(const auto rows, ListIndex(disk_, kPrefixPath));
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(),
                          [](const IndexRow& row) { return row.current && row.entry.descriptor.id == 3; }));
}

TEST_F(ScavengeTest, AgainItChangesNothing) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  ASSERT_EQ(Scavenge().size(), 1u);
  ASSERT_OK_AND_ASSIGN(const std::string index, ReadWhole(disk_, "/pfs/demo/.scr/index.scr", 1 << 20));
  EXPECT_TRUE(Scavenge().empty());
  ASSERT_OK_AND_ASSIGN(const std::string again, ReadWhole(disk_, "/pfs/demo/.scr/index.scr", 1 << 20));
  EXPECT_EQ(index, again);
  const auto one = Scavenge(*folder_, {.dataset = 2, .all = false, .note = {}});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].state, State::kThere);
}

TEST_F(ScavengeTest, WhatIsThereIsNotOnItsWayAnyMore) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  ASSERT_EQ(Scavenge().size(), 1u);
  {  // killed after the commit of 2; 1 never got there
    ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kPrefixPath));
    scr::FlushEntry entry;
    entry.in_cache = entry.flushing = true;
    for (DatasetId id : {1, 2}) ASSERT_OK(prefix->PutFlush(id, entry));
  }
  EXPECT_TRUE(Scavenge().empty());
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree flush, ReadTree(disk_, "/pfs/demo/.scr/flush.scr"));
  EXPECT_EQ(flush.FindPath({"DATASET", "2", "LOCATION", "FLUSHING"}), nullptr);
  EXPECT_NE(flush.FindPath({"DATASET", "2", "LOCATION", "PFS"}), nullptr);
  EXPECT_NE(flush.FindPath({"DATASET", "1", "LOCATION", "FLUSHING"}), nullptr);
}

TEST_F(ScavengeTest, AllOrOneAreTakenIfAskedFor) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  Write(*folder_, 3);
  ASSERT_EQ(Scavenge(*folder_, {.dataset = 2, .all = false, .note = {}}).size(), 1u);
  EXPECT_EQ(Committed(), Ids({2}));
  EXPECT_EQ(Scavenge(*folder_, {.dataset = {}, .all = true, .note = {}}).size(), 2u);
  EXPECT_EQ(Committed(), Ids({1, 2, 3}));
  EXPECT_STATUS(absl::StatusCode::kNotFound, TryScavenge(*folder_, {.dataset = 9, .all = false, .note = {}}),
                "dataset 9");
}

TEST_F(ScavengeTest, SaysWhichRanksAreMissingAndGoesBackToACheckpointThatIsWhole) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  WriteRank(*folder_, 3, 1);  // the daemon was killed before rank 0 was there
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].id, 2u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_EQ(saved[1].id, 3u);
  EXPECT_EQ(saved[1].state, State::kIncomplete);
  EXPECT_EQ(saved[1].saved, std::vector<Rank>{1});
  ASSERT_EQ(saved[1].missing.size(), 1u);
  EXPECT_EQ(saved[1].missing[0].rank, 0u);
  EXPECT_FALSE(saved[1].missing[0].damaged);
  EXPECT_EQ(Committed(), Ids({2}));
}

TEST_F(ScavengeTest, AllRanksMayBeThereThoughTheDatasetWasNeverCompleted) {
  ASSERT_OK(folder_->Begin(DescriptorOf(1, Kind::kCheckpoint)));
  ASSERT_OK(CommitRank(*folder_, 1, 0, Kind::kCheckpoint));
  ASSERT_OK(CommitRank(*folder_, 1, 1, Kind::kCheckpoint));
  disk_.Restart(3);
  ASSERT_EQ(Scavenge().size(), 1u);
  EXPECT_EQ(Committed(), Ids({1}));
}

TEST_F(ScavengeTest, TwoNodesWithHalfOfTheRanksEachMakeItWhole) {
  for (const Kind kind : {Kind::kCheckpoint, Kind::kOutput, Kind::kOwnFiles}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const DatasetId id = 10 + static_cast<DatasetId>(kind);
    const auto other = OpenFolder("/node1");
    WriteRank(*folder_, id, 1, kind);
    WriteRank(*other, id, 0, kind);
    auto saved = Scavenge();
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(saved[0].state, State::kIncomplete);
    saved = Scavenge(*other);
    ASSERT_EQ(saved.size(), 1u);
    EXPECT_EQ(saved[0].state, State::kSaved);
    EXPECT_EQ(saved[0].saved, std::vector<Rank>{0});
    EXPECT_TRUE(Scavenge().empty());
    ASSERT_OK(folder_->Remove(id));
    ASSERT_OK(other->Remove(id));
  }
  EXPECT_EQ(Committed(), Ids({10, 11, 12}));
}

TEST_F(ScavengeTest, ADamagedFileIsNamedWithItsOffsetAndItsRankIsMissing) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  disk_.FlipBit(folder_->DatasetPath(2) + "/Ckpt2-Rank1.fti", 8 * 1200000);
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[1].state, State::kIncomplete);
  EXPECT_EQ(saved[1].saved, std::vector<Rank>{0});
  ASSERT_EQ(saved[1].missing.size(), 1u);
  EXPECT_TRUE(saved[1].missing[0].damaged);
  EXPECT_NE(saved[1].missing[0].why.find("Ckpt2-Rank1.fti"), std::string::npos) << saved[1].missing[0].why;
  EXPECT_NE(saved[1].missing[0].why.find("1048576"), std::string::npos) << saved[1].missing[0].why;
  EXPECT_EQ(Committed(), Ids({1}));
}

TEST_F(ScavengeTest, DamagedRecordsAreDoneWithoutAndMissingFilesNamed) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  Write(*folder_, 3);
  ASSERT_OK(disk_.Remove(folder_->DatasetPath(3) + "/rank_0.cat"));
  ASSERT_OK(disk_.Remove(folder_->DatasetPath(2) + "/Ckpt2-Rank1.fti"));
  disk_.FlipBit(folder_->DatasetPath(1) + "/.scr/filemap_0", 200);
  disk_.FlipBit(folder_->path() + "/cindex.scrinfo", 200);
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_EQ(saved[1].missing.at(0).rank, 1u);
  EXPECT_TRUE(saved[1].missing.at(0).damaged);
  EXPECT_EQ(saved[2].missing.at(0).rank, 0u);
  EXPECT_TRUE(Noted("cindex.scrinfo"));
  EXPECT_EQ(Committed(), Ids({1}));
  EXPECT_OK(disk_.Info(folder_->DatasetPath(3) + "/rank_1.cat"));  // nothing is moved or removed in the cache
}

TEST_F(ScavengeTest, WhatWasRemovedOrGivenUpStaysSo) {
  Write(*folder_, 1);
  Write(*folder_, 2);
  Write(*folder_, 3);
  disk_.SyncAll();
  ASSERT_OK(folder_->Retire(2));
  ASSERT_OK(folder_->SetDatasetAside(3));
  ASSERT_EQ(Scavenge(*folder_, {.dataset = {}, .all = true, .note = {}}).size(), 1u);
  EXPECT_EQ(Committed(), Ids({1}));
  EXPECT_TRUE(Noted("damaged.3.1"));

  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kPrefixPath));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(1));
  ASSERT_OK(prefix->Remove(1, catalogues));
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].state, State::kTooLate);
  EXPECT_TRUE(Committed().empty());
}

TEST_F(ScavengeTest, WhatTheApplicationHasRejectedStaysInTheCacheUnlessItIsAskedFor) {
  for (const DatasetId id : {1, 2}) Write(*folder_, id);
  ASSERT_OK(folder_->StoreFlushRecord(EncodeNodeRecord({{2, {.rejected = true}}, {7, {.rejected = true}}})));
  disk_.SyncAll();
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].id, 1u);
  EXPECT_EQ(Committed(), Ids({1}));
  EXPECT_TRUE(Noted("dataset 2 stays in the cache: the application has rejected it"));
  EXPECT_FALSE(Noted("dataset 7"));
  EXPECT_EQ(Scavenge(*folder_, {.dataset = 2, .all = false, .note = {}}).at(0).state, State::kSaved);
  EXPECT_EQ(Committed(), Ids({1, 2}));
}

TEST_F(ScavengeTest, AnOutputThatIsIncompleteHoldsNewerCheckpointsBack) {
  Write(*folder_, 1);
  WriteRank(*folder_, 2, 0, Kind::kOutput);
  Write(*folder_, 3);
  auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_EQ(saved[1].state, State::kIncomplete);
  EXPECT_EQ(saved[2].state, State::kHeldBack);
  EXPECT_EQ(Committed(), Ids({1}));
  // The other node has the rest of the output: then nothing holds it back.
  const auto other = OpenFolder("/node1");
  WriteRank(*other, 2, 1, Kind::kOutput);
  ASSERT_EQ(Scavenge(*other).size(), 1u);
  EXPECT_EQ(Scavenge().size(), 1u);
  EXPECT_EQ(Committed(), Ids({1, 2, 3}));
}

TEST_F(ScavengeTest, ACheckpointThatWasAskedForIsNotHeldBack) {
  WriteRank(*folder_, 2, 0, Kind::kOutput);
  Write(*folder_, 3);
  EXPECT_EQ(Scavenge(*folder_, {.dataset = 3, .all = false, .note = {}}).at(0).state, State::kSaved);
  EXPECT_EQ(Committed(), Ids({3}));
}

TEST_F(ScavengeTest, FilesOfOneNameAreTheNewestDatasetsAtTheEnd) {
  Write(*folder_, 1, Kind::kOwnFiles);
  Write(*folder_, 2, Kind::kOwnFiles);
  ASSERT_EQ(Scavenge().size(), 2u);
  EXPECT_EQ(Committed(), Ids({2}));
}

TEST_F(ScavengeTest, FilesThatReplaceThoseOfScrsOwnDatasetAreCommitted) {
  const std::string records = std::string(kPrefixPath) + "/.scr";
  ASSERT_OK(MakeDirectories(disk_, records + "/scr.dataset.1"));
  ASSERT_OK(MakeDirectories(disk_, std::string(kPrefixPath) + "/out"));
  ASSERT_OK(WriteTestFile(disk_, kPrefixPath + ("/" + NameOf(0)), "SCR's bytes"));
  scr::IndexEntry entry;
  entry.descriptor.id = 1;
  entry.descriptor.name = "step_1";
  entry.descriptor.files = 1;
  entry.descriptor.bytes = 11;
  entry.descriptor.complete = true;
  entry.complete = true;
  for (const auto& [suffix, tree] : scr::MakeRank2File({{NameOf(0)}})) {
    ASSERT_OK(ReplaceTree(disk_, records + "/scr.dataset.1/rank2file" + suffix, tree));
  }
  ASSERT_OK(ReplaceTree(disk_, records + "/scr.dataset.1/summary.scr", scr::MakeSummary(entry.descriptor)));
  kvtree::Tree index;
  scr::PutIndexEntry(entry, index);
  ASSERT_OK(ReplaceTree(disk_, records + "/index.scr", index));
  disk_.SyncAll();
  Write(*folder_, 2, Kind::kOwnFiles);
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_EQ(Committed(), Ids({2}));
}

TEST_F(ScavengeTest, AnIncompleteDatasetReplacesNobodysFiles) {
  Write(*folder_, 1, Kind::kOwnFiles);
  ASSERT_EQ(Scavenge().size(), 1u);
  WriteRank(*folder_, 2, 1, Kind::kOwnFiles);
  auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].state, State::kIncomplete);
  EXPECT_EQ(saved[0].missing.size(), 2u);
  EXPECT_EQ(Committed(), Ids({1}));
  // A newer dataset has the names by now.
  Write(*folder_, 3, Kind::kOwnFiles);
  ASSERT_EQ(Scavenge(*folder_, {.dataset = 3, .all = false, .note = {}}).size(), 1u);
  ASSERT_OK(folder_->Remove(2));
  Write(*folder_, 2, Kind::kOwnFiles);
  saved = Scavenge();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].state, State::kTooLate);  // dataset 3 has taken its place
  EXPECT_EQ(saved[1].state, State::kTooLate);
  EXPECT_EQ(Committed(), Ids({3}));
  ASSERT_OK_AND_ASSIGN(const auto names, disk_.List("/pfs/demo/out"));
  EXPECT_EQ(names, (std::vector<std::string>{"field.0", "field.1"}));
}

TEST_F(ScavengeTest, AFlushThatWasCutOffIsGoneOnWith) {
  Write(*folder_, 1);
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, kPrefixPath));
  const scr::Descriptor descriptor = DescriptorOf(1, Kind::kCheckpoint);
  ASSERT_OK(prefix->BeginFlush(descriptor));
  ASSERT_OK(prefix->PutFlush(1, {.name = descriptor.name,
                                 .in_cache = true,
                                 .flushing = true,
                                 .checkpoint = true,
                                 .output = false,
                                 .descriptor = descriptor}));
  const catalogue::FileEntry entry = TestCatalogue(run_, 1, 1, kRanks, ContentOf(1, 1)).file(0);
  ASSERT_OK(MakeDirectories(disk_, "/pfs/demo/ckpt.1", 0755));
  const std::string work = TransferWorkName("/pfs/demo/ckpt.1/Ckpt1-Rank1.fti", entry);
  ASSERT_OK(WriteTestFile(disk_, work, ContentOf(1, 1).substr(0, 1 << 20)));
  ASSERT_EQ(Scavenge().size(), 1u);
  EXPECT_EQ(Committed(), Ids({1}));
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(work), "");
  ASSERT_OK_AND_ASSIGN(const kvtree::Tree flush, ReadTree(disk_, "/pfs/demo/.scr/flush.scr"));
  ASSERT_OK_AND_ASSIGN(const auto entries, scr::GetFlushEntries(flush));
  EXPECT_TRUE(entries.at(1).in_prefix);
  EXPECT_FALSE(entries.at(1).flushing);
}

TEST_F(ScavengeTest, AFullPrefixIsAnErrorAndTheNextScavengeGoesOn) {
  Write(*folder_, 1);
  disk_.FailOn({.op = FakeOp::kWrite,
                .path_part = "/pfs/demo/ckpt.1",
                .nth = 2,
                .status = absl::ResourceExhaustedError("no space")});
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, TryScavenge(*folder_), "dataset 1");
  ASSERT_EQ(Scavenge().size(), 1u);
  EXPECT_EQ(Committed(), Ids({1}));
}

TEST_F(ScavengeTest, AFileThatCannotBeReadIsMissingAndTheOthersAreSaved) {
  Write(*folder_, 1);
  disk_.FailOn({.op = FakeOp::kRead, .path_part = "/node0/alice/scr.demo", .nth = 1, .times = 1000});
  disk_.ClearFaults();
  disk_.FailOn({.op = FakeOp::kOpen, .path_part = "Ckpt1-Rank1.fti", .nth = 1, .times = 1});
  const auto saved = Scavenge();
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].saved, std::vector<Rank>{0});
  EXPECT_EQ(saved[0].missing.at(0).rank, 1u);
  ASSERT_EQ(Scavenge().at(0).state, State::kSaved);
}

// The power fails at every operation: the prefix has a dataset whole or not at all, and the next scavenge completes it.
TEST_F(ScavengeTest, APowerFailureAnywhereLeavesAPrefixThatTheNextScavengeCompletes) {
  bytes_ = 3000;
  const auto prepare = [&] {
    disk_.Restart(1);
    Write(*folder_, 1, Kind::kOwnFiles);
    Write(*folder_, 2, Kind::kOwnFiles);
    Write(*folder_, 3);
    disk_.SyncAll();
  };
  bool failed = true;
  for (std::uint64_t n = 1; failed; n += 1) {
    SCOPED_TRACE(n);
    ASSERT_LT(n, 2000u);
    ASSERT_OK(RemoveTree(disk_, kPrefixPath));
    ASSERT_OK(RemoveTree(disk_, "/node0"));
    SetUp();
    prepare();
    disk_.CrashAt(n);
    failed = !TryScavenge(*folder_).ok();
    disk_.Restart(n);
    for (const DatasetId id : Committed()) EXPECT_LE(id, 3u);  // each of them whole
    for (const SavedDataset& saved : Scavenge()) EXPECT_NE(saved.state, State::kIncomplete) << saved.id;
    ASSERT_EQ(Committed(), Ids({2, 3}));
    if (HasFailure()) break;
  }
}

TEST_F(ScavengeTest, AnotherRunsCacheIsNotTaken) {
  Write(*folder_, 1);
  ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk_, "/pfs/other"));
  ScavengeRequest request{.dataset = {}, .all = false, .note = [](const std::string&) {}};
  const CacheFolder::Found found{folder_->path(), "demo", run_, "/pfs/other"};
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, ScavengeRun(disk_, disk_, found, *prefix, request), "run");
}

}  // namespace
}  // namespace cairn
