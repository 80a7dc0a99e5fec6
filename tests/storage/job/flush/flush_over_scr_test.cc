// Flushes to a prefix where SCR's own datasets have the same ids, or files of the same names.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/job/flush/flush_work.h"
#include "tests/storage/job/flush/flush_work_fixture.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;

class FlushOverScrTest : public FlushWorkTest {
 protected:
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
};

TEST_F(FlushOverScrTest, AnIdThatScrHasGivenOutAgainIsScrs) {
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

TEST_F(FlushOverScrTest, ScrsDatasetWhoseFileIsReplacedIsCompleteNoMore) {
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

TEST_F(FlushOverScrTest, ScrsNewerDatasetKeepsItsFiles) {
  PutByScr(4, {"out/a"});
  const FlushOutcome late = Flush(Make(3, {"out/a"}));
  EXPECT_TRUE(late.too_late);
  EXPECT_STATUS(kAborted, late.status, "dataset 4 of SCR's");
  EXPECT_EQ(CompleteInIndex(4), "1");
  EXPECT_EQ(Committed(), std::set<DatasetId>{4});
  ExpectSound("at the end");
}

TEST_F(FlushOverScrTest, ScrsListsAreReadAgainOnlyWhenTheirEntryHasChanged) {
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

TEST_F(FlushOverScrTest, ACrashAnywhereLeavesNoneOfScrsCompleteWithTheFilesOfAnother) {
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

}  // namespace
}  // namespace cairn
