// A flush on the disks: its two steps, what they leave behind at any instant, and what flush.scr says meanwhile.
#include "storage/job/flush/flush_work.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/job/grow/grown_directory.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

const std::string kPrefix = "/pfs/run";
const std::string kIndex = kPrefix + "/.scr/index.scr";

// A dataset of one rank, of the application's own files, in a cache.
struct Files {
  scr::Descriptor descriptor;
  std::vector<catalogue::Catalogue> catalogues;
  std::string folder;
};

std::vector<DatasetId> IdsOf(const Withdrawn& withdrawn) {
  std::vector<DatasetId> ids;
  for (const auto& [id, catalogues] : withdrawn) ids.push_back(id);
  return ids;
}

class FlushWorkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr);
    pfs_.SyncAll();
  }

  std::unique_ptr<Prefix> OpenPrefix() {
    auto opened = Prefix::Open(pfs_, kPrefix);
    return opened.ok() ? *std::move(opened) : nullptr;
  }

  static std::string BytesOf(DatasetId id, const std::string& name) {
    return TestContent(id * 100 + name.size(), 3000 + 10 * id);
  }
  Files Make(DatasetId id, const std::vector<std::string>& names) {
    Files files;
    files.descriptor = TestDescriptor(id, 1);
    files.descriptor.own_files = true;
    files.folder = "/cache/scr.dataset." + std::to_string(id);
    EXPECT_OK(MakeDirectories(cache_, files.folder + "/out"));
    catalogue::Catalogue catalogue = EmptyCatalogue(prefix_->run(), id, 0, 1);
    catalogue.set_files(true);
    catalogue.clear_variables();
    for (const std::string& name : names) {
      *catalogue.add_file() = TestEntry(name, name, BytesOf(id, name));
      EXPECT_OK(WriteTestFile(cache_, files.folder + "/" + name, BytesOf(id, name)));
    }
    files.catalogues = {catalogue};
    return files;
  }
  FlushOutcome Copy(const Files& files) {
    return CopyDataset({cache_, files.folder, files.descriptor, files.catalogues}, {pfs_, *prefix_, *flush_file_},
                       throttle_, progress_);
  }
  FlushOutcome Commit(const Files& files, const FlushOutcome& copy) {
    return CommitCopied({cache_, files.folder, files.descriptor, files.catalogues}, {pfs_, *prefix_, *flush_file_},
                        copy.copied);
  }
  FlushOutcome Flush(const Files& files) {
    FlushOutcome copy = Copy(files);
    return copy.status.ok() ? Commit(files, copy) : copy;
  }
  // What SCR itself has put on the prefix, as long as anything of it is COMPLETE.
  void PutByScr(DatasetId id, const std::vector<std::string>& names) {
    scr::IndexEntry entry;
    entry.descriptor.id = id;
    entry.descriptor.name = fmt::format("step_{}", id);
    entry.descriptor.complete = entry.complete = true;
    const std::string folder = fmt::format("{}/.scr/scr.dataset.{}", kPrefix, id);
    ASSERT_OK(MakeDirectories(pfs_, folder));
    ASSERT_OK(MakeDirectories(pfs_, kPrefix + "/out"));
    for (const std::string& name : names) {
      ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/" + name, BytesOf(id, name)));
      ++entry.descriptor.files;
      entry.descriptor.bytes += BytesOf(id, name).size();
    }
    for (const auto& [suffix, tree] : scr::MakeRank2File({names})) {
      ASSERT_OK(ReplaceTree(pfs_, folder + "/rank2file" + suffix, tree));
    }
    ASSERT_OK(ReplaceTree(pfs_, folder + "/summary.scr", scr::MakeSummary(entry.descriptor)));
    auto index = ReadTree(pfs_, kIndex);
    kvtree::Tree tree = index.ok() ? *index : kvtree::Tree();
    scr::PutIndexEntry(entry, tree);
    scr::SetCurrent(entry.descriptor.name, tree);
    ASSERT_OK(ReplaceTree(pfs_, kIndex, tree));
  }
  bool CompleteInSummary(DatasetId id) {
    const auto tree = ReadTree(pfs_, fmt::format("{}/.scr/scr.dataset.{}/summary.scr", kPrefix, id));
    return tree.ok() && tree->GetBool("COMPLETE").value_or(false);
  }
  std::set<DatasetId> Committed() {
    std::set<DatasetId> ids;
    const auto committed = prefix_->Committed();
    EXPECT_OK(committed);
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.insert(id);
    return ids;
  }
  // Every dataset that anybody may restore has its own bytes under its names.
  void ExpectSound(const std::string& when) {
    for (const DatasetId id : Committed()) {
      const auto catalogues = prefix_->Catalogues(id);
      ASSERT_OK(catalogues) << when;
      for (const catalogue::FileEntry& file : catalogues->front().file()) {
        EXPECT_OK(VerifyFile(pfs_, prefix_->FilePath(file.prefix_name()), file)) << when << ", dataset " << id;
      }
    }
  }
  std::string CompleteInIndex(DatasetId id) {
    const auto tree = ReadTree(pfs_, kIndex);
    if (!tree.ok()) return "no index";
    const kvtree::Tree* entry = tree->FindPath({"DSET", std::to_string(id)});
    return entry != nullptr ? std::string(entry->Get("COMPLETE").value_or("none")) : "no entry";
  }
  // What flush.scr says, as its keys.
  std::string Places(DatasetId id) {
    const auto tree = ReadTree(pfs_, kPrefix + "/.scr/flush.scr");
    if (!tree.ok()) return "no file";
    const auto entries = scr::GetFlushEntries(*tree);
    if (!entries.ok() || !entries->contains(id)) return "no entry";
    const scr::FlushEntry& entry = entries->at(id);
    return std::string(entry.in_cache ? "CACHE " : "") + (entry.flushing ? "FLUSHING " : "") +
           (entry.in_prefix ? "PFS " : "");
  }

  FakeDisk cache_, pfs_;
  std::unique_ptr<Prefix> prefix_;
  std::unique_ptr<FlushFile> flush_file_ = std::make_unique<FlushFile>("node1:/cache");
  Throttle throttle_{0};
  TransferProgress progress_;
};

TEST_F(FlushWorkTest, TheCopyIsSeenAsIncompleteAndRestoredByNobody) {
  const Files files = Make(4, {"out/a", "b"});
  const FlushOutcome copy = Copy(files);
  ASSERT_OK(copy.status);
  EXPECT_EQ(CompleteInIndex(4), "0");
  EXPECT_EQ(Places(4), "CACHE FLUSHING ");
  EXPECT_TRUE(Committed().empty());
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/out/a"), "");
  const FlushOutcome commit = Commit(files, copy);
  ASSERT_OK(commit.status);
  EXPECT_EQ(CompleteInIndex(4), "1");
  EXPECT_EQ(Places(4), "CACHE PFS ");
  EXPECT_EQ(Committed(), std::set<DatasetId>{4});
  ExpectSound("after the commit");
}

TEST_F(FlushWorkTest, WhatHasArrivedIsNotCopiedAgain) {
  const Files files = Make(4, {"out/a", "b"});
  ASSERT_OK(Copy(files).status);
  pfs_.SetHook([](FakeOp op, const std::string& path) {
    EXPECT_FALSE(op == FakeOp::kWrite && (path.find("/out/a") != std::string::npos)) << path;
  });
  EXPECT_OK(Flush(files).status);
  EXPECT_OK(Flush(files).status);  // and once more when it is committed
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, ANewerOneTakesTheNamesOfOlderOnes) {
  const Files old = Make(1, {"out/a", "only_old"}), other = Make(2, {"c"}), young = Make(3, {"out/a", "b"});
  ASSERT_OK(Flush(old).status);
  ASSERT_OK(Flush(other).status);
  const FlushOutcome flushed = Flush(young);
  ASSERT_OK(flushed.status);
  EXPECT_EQ(IdsOf(flushed.withdrawn), std::vector<DatasetId>{1});
  EXPECT_EQ(Committed(), (std::set<DatasetId>{2, 3}));
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/only_old"), "");
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, AnOlderOneThatComesTooLateLeavesTheNewerOnesFiles) {
  const Files old = Make(1, {"out/a"}), young = Make(3, {"out/a"});
  const FlushOutcome copy = Copy(old);
  ASSERT_OK(copy.status);
  ASSERT_OK(Flush(young).status);
  const FlushOutcome late = Commit(old, copy);
  EXPECT_TRUE(late.too_late);
  EXPECT_STATUS(kAborted, late.status, "dataset 3");
  EXPECT_EQ(Committed(), std::set<DatasetId>{3});
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, WhatWasRemovedThereDoesNotComeBack) {
  const Files files = Make(1, {"out/a"});
  ASSERT_OK(Flush(files).status);
  ASSERT_OK(prefix_->Remove(1, files.catalogues));
  const FlushOutcome again = Flush(files);
  EXPECT_TRUE(again.too_late);
  EXPECT_STATUS(kAborted, again.status, "removed");
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/out/a"), "");
}

TEST_F(FlushWorkTest, NothingGivesWayToWhatCannotBeCommittedAnyMore) {
  const Files old = Make(1, {"out/a"}), young = Make(3, {"out/a"});
  ASSERT_OK(Flush(old).status);
  const FlushOutcome copy = Copy(young);
  ASSERT_OK(copy.status);
  const std::string record = kPrefix + "/.scr/scr.dataset.3/commit.cairn";
  ASSERT_OK(MakeDirectories(pfs_, ParentOf(record)));
  ASSERT_OK(WriteTestFile(pfs_, record, "damaged"));
  EXPECT_STATUS(kDataLoss, Commit(young, copy).status, record);
  ASSERT_OK(pfs_.Remove(record));
  ASSERT_OK(prefix_->Remove(3, {}));
  const FlushOutcome late = Commit(young, copy);
  EXPECT_TRUE(late.too_late);
  EXPECT_STATUS(kAborted, late.status, "removed");
  EXPECT_TRUE(late.withdrawn.empty());
  EXPECT_EQ(Committed(), std::set<DatasetId>{1});
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, AnIdThatScrHasGivenOutAgainIsScrs) {
  const Files files = Make(3, {"out/a"});
  const FlushOutcome copy = Copy(files);
  ASSERT_OK(copy.status);
  PutByScr(3, {"scrs"});
  const auto soundly = [&](const FlushOutcome& late) {
    EXPECT_TRUE(late.too_late);
    EXPECT_STATUS(kAborted, late.status, "step_3");
    EXPECT_STATUS(kAborted, prefix_->Commit(files.descriptor, files.catalogues), "step_3");
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(3));
    EXPECT_EQ(catalogues[0].file(0).name(), "scrs");
    EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/out/a"), "");
    EXPECT_EQ(Committed(), std::set<DatasetId>{3});
  };
  soundly(Commit(files, copy));
  soundly(Flush(files));
}

TEST_F(FlushWorkTest, AFileOfTheSameBytesIsSharedAndWithdrawsNobody) {
  Files old = Make(1, {"same"}), young = Make(3, {"same", "b"});
  const std::string bytes = BytesOf(1, "same");
  ASSERT_OK(WriteTestFile(cache_, young.folder + "/same", bytes));
  *young.catalogues[0].mutable_file(0) = TestEntry("same", "same", bytes);
  ASSERT_OK(Flush(old).status);
  ASSERT_OK(Flush(young).status);
  EXPECT_EQ(Committed(), (std::set<DatasetId>{1, 3}));
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, AFileThatHasLeftItsPlaceSinceTheCopyIsCopiedAgain) {
  const Files files = Make(1, {"a"});
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/a", BytesOf(1, "a")));
  const FlushOutcome copy = Copy(files);
  ASSERT_OK(copy.status);
  ASSERT_OK(pfs_.Remove(kPrefix + "/a"));
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/a", BytesOf(2, "b")));
  const FlushOutcome commit = Commit(files, copy);
  EXPECT_STATUS(kAborted, commit.status, "/a");
  EXPECT_FALSE(commit.too_late);
  EXPECT_OK(Flush(files).status);
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, SomethingInTheWayIsNamed) {
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/out", "a file"));
  EXPECT_STATUS(kFailedPrecondition, Flush(Make(1, {"out/a"})).status, "/out: in the way");
  ASSERT_OK(MakeDirectories(pfs_, kPrefix + "/b"));
  EXPECT_STATUS(kFailedPrecondition, Flush(Make(2, {"b"})).status, "/b: in the way");
  EXPECT_TRUE(Committed().empty());
}

TEST_F(FlushWorkTest, DamageOfTheCacheNamesTheFile) {
  const Files files = Make(1, {"b", "out/a"});
  cache_.FlipBit(files.folder + "/out/a", 1234);
  const FlushOutcome flipped = Flush(files);
  EXPECT_STATUS(kDataLoss, flipped.status, "out/a");
  EXPECT_EQ(flipped.damaged_file, "out/a");
  ASSERT_OK(cache_.Remove(files.folder + "/b"));
  const FlushOutcome missing = Flush(files);
  EXPECT_STATUS(kDataLoss, missing.status, "/b: missing");
  EXPECT_EQ(missing.damaged_file, "b");
}

// --- Parts that several nodes bring ---

// A dataset of two ranks: the first one's files are flushed here, the second one's by another node.
class PartsTest : public FlushWorkTest {
 protected:
  void SetUp() override {
    FlushWorkTest::SetUp();
    old_ = Make(1, {"out/b", "only_old"});
    ASSERT_OK(Flush(old_).status);
    here_ = Make(4, {"out/a"});
    there_ = Make(4, {"out/b", "c"});
    there_.catalogues[0].set_rank(1);
    for (Files* part : {&here_, &there_}) {
      part->descriptor = TestDescriptor(4, 2);
      part->descriptor.own_files = true;
      part->catalogues[0].set_nranks(2);
    }
  }
  FlushOutcome CopyThere() {
    return CopyPart({cache_, there_.folder, there_.descriptor, there_.catalogues}, pfs_, *prefix_, throttle_,
                    progress_);
  }
  absl::StatusOr<std::vector<CopiedFile>> Brought() { return FilesBrought(pfs_, *prefix_, there_.catalogues); }
  FlushOutcome CommitBoth(const FlushOutcome& copy, const std::vector<CopiedFile>& brought) {
    const std::vector<catalogue::Catalogue> all = {here_.catalogues[0], there_.catalogues[0]};
    std::vector<CopiedFile> files = copy.copied;
    files.insert(files.end(), brought.begin(), brought.end());
    return CommitCopied({cache_, here_.folder, here_.descriptor, all, {}, {1}}, {pfs_, *prefix_, *flush_file_}, files);
  }
  void ExpectCommitted() {
    EXPECT_EQ(Committed(), std::set<DatasetId>{4});
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(4));
    ASSERT_EQ(catalogues.size(), 2u);
    for (const catalogue::Catalogue& catalogue : catalogues) {
      for (const catalogue::FileEntry& file : catalogue.file()) {
        EXPECT_OK(VerifyFile(pfs_, prefix_->FilePath(file.prefix_name()), file));
      }
    }
    EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/only_old"), "");
  }

  Files old_, here_, there_;
};

TEST_F(PartsTest, FilesOfOthersWaitAndTakeTheirNamesWithTheCommit) {
  ASSERT_OK(CopyThere().status);
  EXPECT_STATUS(kNotFound, pfs_.Info(kPrefix + "/c"), "");
  ExpectSound("an older one has the name");
  const FlushOutcome copy = Copy(here_);
  ASSERT_OK(copy.status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  ASSERT_EQ(brought.size(), 2u);
  for (const CopiedFile& file : brought) EXPECT_FALSE(file.work.empty()) << file.to;
  const FlushOutcome commit = CommitBoth(copy, brought);
  ASSERT_OK(commit.status);
  EXPECT_EQ(IdsOf(commit.withdrawn), std::vector<DatasetId>{1});
  ExpectCommitted();
}

TEST_F(PartsTest, WhatWasInItsPlaceBeforeIsComparedAgain) {
  ASSERT_OK(prefix_->Remove(1, old_.catalogues));
  ASSERT_OK(CopyThere().status);
  ASSERT_OK(PutInPlace(pfs_, *Brought()));  // then the power failed
  ASSERT_OK(CopyThere().status);
  const FlushOutcome copy = Copy(here_);
  ASSERT_OK(copy.status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  for (const CopiedFile& file : brought) EXPECT_TRUE(file.work.empty()) << file.to;
  pfs_.FlipBit(kPrefix + "/c", 77);
  EXPECT_STATUS(kAborted, Brought(), "/c");
  pfs_.FlipBit(kPrefix + "/c", 77);
  ASSERT_OK(CommitBoth(copy, brought).status);
  ExpectCommitted();
}

TEST_F(PartsTest, WhatIsNotThereIsToBeCopiedAgain) {
  EXPECT_STATUS(kAborted, Brought(), "out/b") << "another's file has its name";
  ASSERT_OK(CopyThere().status);
  ASSERT_OK_AND_ASSIGN(const auto brought, Brought());
  ASSERT_OK(WriteTestFile(pfs_, brought[1].work, "short"));
  EXPECT_STATUS(kAborted, Brought(), brought[1].work);
  ASSERT_OK(pfs_.Remove(brought[1].work));
  EXPECT_STATUS(kAborted, Brought(), "/c");
}

TEST_F(PartsTest, ALinkThatLeadsOutOfThePrefixStopsThePartToo) {
  ASSERT_OK(MakeDirectories(pfs_, "/pfs/elsewhere"));
  ASSERT_OK(pfs_.Symlink("/pfs/elsewhere", kPrefix + "/linked"));
  ASSERT_OK(MakeDirectories(cache_, there_.folder + "/linked"));
  there_ = Make(4, {"linked/x"});
  EXPECT_STATUS(kFailedPrecondition, CopyThere().status, "linked");
  EXPECT_STATUS(kNotFound, pfs_.Info("/pfs/elsewhere/x"), "");
}

// Whenever the power fails: nobody restores a dataset whose files have been replaced, and the next try succeeds.
TEST_F(FlushWorkTest, ACrashAnywhereLeavesNoEntryWithTheFilesOfAnother) {
  std::uint64_t operations = 0;
  for (std::uint64_t n = 1;; ++n) {
    const std::string when = "crash at operation " + std::to_string(n);
    pfs_.Restart(n);
    EXPECT_OK(RemoveTree(pfs_, kPrefix));
    flush_file_ = std::make_unique<FlushFile>("node1:/cache");
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr);
    const Files old = Make(1, {"out/a", "b"}), young = Make(2, {"out/a", "c"});
    ASSERT_OK(Flush(old).status) << when;
    pfs_.SyncAll();
    pfs_.CrashAt(n);
    const bool done = Flush(young).status.ok();
    pfs_.Restart(n);
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr) << when;
    ExpectSound(when);
    if (HasFatalFailure()) return;
    flush_file_ = std::make_unique<FlushFile>("node1:/cache");
    ASSERT_OK(Flush(young).status) << when;
    EXPECT_EQ(Committed(), std::set<DatasetId>{2}) << when;
    ExpectSound(when + ", again");
    operations = n;
    if (done) break;
  }
  EXPECT_GT(operations, 40u);
}

// --- Names that SCR's own datasets have, too ---

TEST_F(FlushWorkTest, ScrsDatasetWhoseFileIsReplacedIsCompleteNoMore) {
  PutByScr(1, {"out/a", "only_scrs"});
  PutByScr(2, {"elsewhere"});
  const FlushOutcome flushed = Flush(Make(3, {"out/a", "b"}));
  ASSERT_OK(flushed.status);
  EXPECT_EQ(IdsOf(flushed.withdrawn), std::vector<DatasetId>{1});
  EXPECT_TRUE(flushed.warnings.empty());
  EXPECT_EQ(CompleteInIndex(1), "0");
  EXPECT_FALSE(CompleteInSummary(1));
  EXPECT_OK(pfs_.Info(kPrefix + "/only_scrs"));
  EXPECT_EQ(CompleteInIndex(2), "1");
  EXPECT_TRUE(CompleteInSummary(2));
  EXPECT_EQ(Committed(), (std::set<DatasetId>{2, 3}));
  ASSERT_OK(pfs_.Remove(kIndex));  // nor does it come back when the index is made anew
  ASSERT_OK(WriteTestFile(pfs_, kIndex, "damaged"));
  EXPECT_EQ(Committed(), (std::set<DatasetId>{2, 3}));
}

TEST_F(FlushWorkTest, ScrsNewerDatasetKeepsItsFiles) {
  PutByScr(4, {"out/a"});
  const FlushOutcome late = Flush(Make(3, {"out/a"}));
  EXPECT_TRUE(late.too_late);
  EXPECT_STATUS(kAborted, late.status, "dataset 4 of SCR's");
  EXPECT_EQ(CompleteInIndex(4), "1");
  EXPECT_EQ(Committed(), std::set<DatasetId>{4});
  ExpectSound("at the end");
}

TEST_F(FlushWorkTest, ScrsListsAreReadAgainOnlyWhenTheirEntryHasChanged) {
  PutByScr(1, {"out/a"});
  PutByScr(2, {"out/b"});
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/c", "whose?"));
  ASSERT_OK(WriteTestFile(pfs_, kPrefix + "/d", "whose?"));
  int reads = 0;
  pfs_.SetHook([&](FakeOp op, const std::string& path) {
    reads += op == FakeOp::kOpen && path.ends_with("/rank2file") && !path.ends_with(".7/rank2file") ? 1 : 0;
  });
  EXPECT_TRUE(prefix_->Withdraw(7, {"c"})->empty());
  EXPECT_EQ(reads, 2);
  EXPECT_TRUE(prefix_->Withdraw(7, {"d"})->empty());
  EXPECT_EQ(reads, 2);
  pfs_.SetHook(nullptr);
  ASSERT_OK_AND_ASSIGN(kvtree::Tree index, ReadTree(pfs_, kIndex));
  index.Find("DSET")->Find("1")->Set("FLUSHED", "2026-01-02T03:04:05");  // SCR has written it once more
  ASSERT_OK(ReplaceTree(pfs_, kIndex, index));
  for (const auto& [suffix, tree] : scr::MakeRank2File({{"c"}})) {
    ASSERT_OK(ReplaceTree(pfs_, kPrefix + "/.scr/scr.dataset.1/rank2file" + suffix, tree));
  }
  EXPECT_TRUE(prefix_->Withdraw(7, {"c"})->contains(1));
}

TEST_F(FlushWorkTest, ACrashAnywhereLeavesNoneOfScrsCompleteWithTheFilesOfAnother) {
  for (std::uint64_t n = 1;; ++n) {
    const std::string when = "crash at operation " + std::to_string(n);
    pfs_.Restart(n);
    EXPECT_OK(RemoveTree(pfs_, kPrefix));
    flush_file_ = std::make_unique<FlushFile>("node1:/cache");
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr);
    PutByScr(1, {"out/a", "b"});
    const Files young = Make(2, {"out/a", "c"});
    pfs_.SyncAll();
    pfs_.CrashAt(n);
    const bool done = Flush(young).status.ok();
    pfs_.Restart(n);
    ASSERT_OK_AND_ASSIGN(const std::string there, ReadWhole(pfs_, kPrefix + "/out/a", 1 << 20));
    const bool scrs = there == BytesOf(1, "out/a");
    EXPECT_TRUE(scrs || (CompleteInIndex(1) != "1" && !CompleteInSummary(1))) << when;
    prefix_ = OpenPrefix();
    ASSERT_NE(prefix_, nullptr) << when;
    flush_file_ = std::make_unique<FlushFile>("node1:/cache");
    ASSERT_OK(Flush(young).status) << when;
    EXPECT_EQ(Committed(), std::set<DatasetId>{2}) << when;
    if (done) break;
  }
}

// --- flush.scr ---

TEST_F(FlushWorkTest, TheFlushFileIsMendedForThisNodeOnly) {
  scr::FlushEntry foreign;
  foreign.in_cache = foreign.flushing = true;
  foreign.name = "scr's";
  ASSERT_OK(prefix_->PutFlush(7, foreign));
  FlushFile other("node2:/cache");
  other.Put(TestDescriptor(8, 1), FlushFile::Place::kFlushing);
  ASSERT_OK(other.Write(*prefix_));
  flush_file_->Put(TestDescriptor(1, 1), FlushFile::Place::kFlushing);
  flush_file_->Put(TestDescriptor(2, 1), FlushFile::Place::kCache);
  ASSERT_OK(flush_file_->Write(*prefix_));
  EXPECT_FALSE(flush_file_->stale());

  FlushFile next("node1:/cache");  // after a restart that found dataset 1 only
  EXPECT_TRUE(next.stale());
  next.Put(TestDescriptor(1, 1), FlushFile::Place::kCache);
  ASSERT_OK(next.Write(*prefix_));
  EXPECT_EQ(Places(1), "CACHE ");
  EXPECT_EQ(Places(2), "no entry");
  EXPECT_EQ(Places(7), "CACHE FLUSHING ");
  EXPECT_EQ(Places(8), "CACHE FLUSHING ");
  next.KeepOnly({});
  EXPECT_TRUE(next.stale());
  EXPECT_FALSE(next.Says(1, FlushFile::Place::kCache));
  ASSERT_OK(next.Write(*prefix_));
  EXPECT_EQ(Places(1), "no entry");
}

TEST_F(FlushWorkTest, WhatCouldNotBeWrittenIsWrittenLater) {
  flush_file_->Put(TestDescriptor(1, 1), FlushFile::Place::kCache);
  pfs_.FailOn({.op = FakeOp::kWrite, .path_part = "flush.scr"});
  EXPECT_STATUS(kUnavailable, flush_file_->Write(*prefix_), "");
  EXPECT_TRUE(flush_file_->stale());
  EXPECT_OK(flush_file_->Write(*prefix_));
  EXPECT_EQ(Places(1), "CACHE ");
}

// --- Under a launch ---

TEST_F(FlushWorkTest, WhatIsFlushedUnderALaunchThatIsNotTheNewestIsFencedAndNobodyGivesWayToIt) {
  const auto launch = [&] { return prefix_->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {}}); };
  const auto flush = [&](const Files& files, LaunchId committer) {
    const FlushSource source{cache_, files.folder, files.descriptor, files.catalogues};
    const FlushTarget target{.disk = pfs_, .prefix = *prefix_, .flush_file = *flush_file_, .committer = committer};
    const FlushOutcome copy = CopyDataset(source, target, throttle_, progress_);
    return copy.status.ok() ? CommitCopied(source, target, copy.copied) : copy;
  };
  ASSERT_OK(launch());
  EXPECT_FALSE(flush(Make(1, {"out/a"}), 1).fenced);
  ASSERT_OK(launch());
  const FlushOutcome replacing = flush(Make(2, {"out/a"}), 1);
  EXPECT_TRUE(replacing.fenced);
  EXPECT_FALSE(replacing.too_late);
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, replacing.status, "newer");
  EXPECT_TRUE(replacing.withdrawn.empty());
  EXPECT_EQ(Committed(), (std::set<DatasetId>{1}));
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(pfs_, kPrefix + "/out/a", 1 << 20));
  EXPECT_EQ(bytes, BytesOf(1, "out/a"));
  EXPECT_TRUE(flush(Make(3, {"out/b"}), 1).fenced);  // it is there, and does not count
  EXPECT_EQ(Committed(), (std::set<DatasetId>{1}));
  ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix_->Contents());
  EXPECT_TRUE(contents.fenced.contains(3));
  EXPECT_FALSE(flush(Make(4, {"out/a"}), 2).fenced);
  EXPECT_EQ(Committed(), (std::set<DatasetId>{4}));
}

TEST_F(FlushWorkTest, AGrowingDirectoryTakesNoPlaceUnderALaunchThatIsNotTheNewest) {
  const auto launch = [&] { return prefix_->MakeLaunch({.key = "job", .nranks = 1, .run = {}, .maker = {}}); };
  ASSERT_OK(launch());
  ASSERT_OK(Flush(Make(1, {"out/md.idx", "out/data.0"})).status);
  ASSERT_OK(launch());
  for (const bool close : {false, true}) {
    const GrowOutcome outcome =
        close ? ClosePlace(pfs_, *prefix_, 2, "out", 1) : TakePlace(pfs_, *prefix_, TestDescriptor(2, 1), "out", 1);
    EXPECT_TRUE(outcome.fenced) << outcome.status;
    EXPECT_FALSE(outcome.too_late);
    EXPECT_TRUE(outcome.withdrawn.empty());
    EXPECT_TRUE(pfs_.Info(kPrefix + "/out/md.idx").ok());
    EXPECT_EQ(Committed(), (std::set<DatasetId>{1}));
  }
  const GrowOutcome taken = TakePlace(pfs_, *prefix_, TestDescriptor(2, 1), "out", 2);
  ASSERT_OK(taken.status);
  EXPECT_FALSE(taken.fenced);
  EXPECT_EQ(Committed(), (std::set<DatasetId>{}));
}

}  // namespace
}  // namespace cairn
