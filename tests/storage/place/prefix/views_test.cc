// Views on the prefix: made after the commit, removed before the bytes, and no harm to anybody.
#include "storage/place/prefix/views.h"
#include "storage/base/path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "storage/place/prefix/stale_work.h"
#include "storage/place/view/check.h"
#include "tests/storage/place/prefix/shown.h"

namespace cairn {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ViewsTest : public testing::Test {
 protected:
  ViewsTest() { Reopen(); }

  void Reopen() {
    auto opened = Prefix::Open(disk_, kShownPath);
    EXPECT_OK(opened.status());
    if (opened.ok()) prefix_ = *std::move(opened);
  }
  view::SampleDataset Commit(DatasetId id, bool placed = true) {
    view::SampleDataset dataset = ShownDataset(prefix_->run(), id, placed);
    EXPECT_OK(CommitShown(disk_, *prefix_, dataset));
    return dataset;
  }
  view::SampleDataset CommitAndShow(DatasetId id) {
    view::SampleDataset dataset = Commit(id);
    prefix_->MakeView(id, dataset.catalogues);
    EXPECT_THAT(prefix_->TakeWarnings(), IsEmpty());
    return dataset;
  }
  bool HasView(DatasetId id) { return disk_.Info(ViewPathOf(id) + "/md.idx").ok(); }
  absl::Status Check(const view::SampleDataset& dataset) {
    return view::CheckFolder(disk_, kShownPath, dataset.catalogues);
  }
  std::vector<std::string> NamesInPrefix() {
    auto names = disk_.List(kShownPath);
    EXPECT_OK(names.status());
    return names.ok() ? *names : std::vector<std::string>();
  }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
};

TEST_F(ViewsTest, ShowWhatTheDatasetHasStored) {
  const view::SampleDataset dataset = CommitAndShow(5);
  ExpectShown(disk_, 5, ViewPathOf(5));
  EXPECT_OK(Check(dataset));
  ASSERT_OK_AND_ASSIGN(const std::string target, disk_.ReadLink(ViewPathOf(5) + "/data.1"));
  EXPECT_EQ(target, "../ckpt.5/Ckpt5-Rank1.fti");
}

TEST_F(ViewsTest, WithoutPlacementAreMadeFromTheFilesOwnMetadata) {
  const view::SampleDataset dataset = Commit(6, /*placed=*/false);
  prefix_->MakeView(6, dataset.catalogues);
  EXPECT_THAT(prefix_->TakeWarnings(), IsEmpty());
  ExpectShown(disk_, 6, ViewPathOf(6));
}

TEST_F(ViewsTest, AreDurable) {
  CommitAndShow(5);
  disk_.Restart(7);
  ExpectShown(disk_, 5, ViewPathOf(5));
}

TEST_F(ViewsTest, AnOldOneGivesWay) {
  const view::SampleDataset dataset = CommitAndShow(5);
  ASSERT_OK(disk_.Remove(ViewPathOf(5) + "/md.0"));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Check(dataset), "md.0");
  prefix_->MakeView(5, dataset.catalogues);
  EXPECT_OK(Check(dataset));
  EXPECT_THAT(NamesInPrefix(), Not(Contains(HasSubstr(kWorkSuffix))));
}

TEST_F(ViewsTest, WhatIsNoViewIsNotReplaced) {
  const view::SampleDataset dataset = Commit(5);
  ASSERT_OK(disk_.MakeDirectory(ViewPathOf(5), 0777));
  ASSERT_OK(WriteTestFile(disk_, ViewPathOf(5) + "/notes.txt", "mine"));
  prefix_->MakeView(5, dataset.catalogues);
  EXPECT_THAT(prefix_->TakeWarnings(), ElementsAre(HasSubstr("dataset 5 has no BP5 view")));
  EXPECT_OK(disk_.Info(ViewPathOf(5) + "/notes.txt"));
  EXPECT_THAT(NamesInPrefix(), Not(Contains(HasSubstr(kWorkSuffix))));
}

TEST_F(ViewsTest, WhateverFailsIsAWarningAndTheDatasetStaysCommitted) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE(fmt::format("operation {} fails", n));
    const view::SampleDataset dataset = Commit(n);
    FakeFault fault;
    fault.nth = n;
    disk_.FailOn(fault);
    prefix_->MakeView(n, dataset.catalogues);
    disk_.ClearFaults();
    const std::vector<std::string> warnings = prefix_->TakeWarnings();
    ASSERT_OK_AND_ASSIGN(const auto committed, prefix_->Committed());
    EXPECT_TRUE(committed.contains(n));
    // Another try makes it.
    prefix_->MakeView(n, dataset.catalogues);
    EXPECT_OK(Check(dataset));
    EXPECT_THAT(prefix_->TakeWarnings(), IsEmpty());
    if (warnings.empty()) {
      EXPECT_GT(n, 10u);
      break;
    }
    EXPECT_THAT(warnings, ElementsAre(HasSubstr("has no BP5 view: ")));
  }
}

TEST_F(ViewsTest, ADamagedFileIsAWarning) {
  const view::SampleDataset dataset = Commit(5, /*placed=*/false);
  ASSERT_OK(WriteTestFile(disk_, std::string(kShownPath) + "/ckpt.5/Ckpt5-Rank1.fti", "short"));
  prefix_->MakeView(5, dataset.catalogues);
  EXPECT_THAT(prefix_->TakeWarnings(), ElementsAre(HasSubstr("Ckpt5-Rank1.fti: 5 bytes, expected")));
  EXPECT_FALSE(HasView(5));
}

TEST_F(ViewsTest, AreRemovedBeforeTheBytes) {
  const view::SampleDataset dataset = CommitAndShow(5);
  bool bytes_gone = false, view_seen_after = false, withdrawn = false, view_first = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op == FakeOp::kRename && path.find(".cairn") != std::string::npos) withdrawn = true;
    const bool of_view = path.find("ckpt.5.bp") != std::string::npos;
    if (op == FakeOp::kRemove && of_view && !withdrawn) view_first = true;
    if (op == FakeOp::kRemove && path.find("/ckpt.5/") != std::string::npos) bytes_gone = true;
    if (of_view && bytes_gone) view_seen_after = true;
  });
  EXPECT_OK(prefix_->Remove(5, dataset.catalogues));
  disk_.SetHook({});
  EXPECT_TRUE(bytes_gone);
  EXPECT_FALSE(view_seen_after);
  EXPECT_FALSE(view_first) << "before that nobody may take it for removed";
  EXPECT_THAT(NamesInPrefix(), Not(Contains(HasSubstr("ckpt.5"))));
}

TEST_F(ViewsTest, IfTheViewCannotBeRemovedTheBytesStay) {
  const view::SampleDataset dataset = CommitAndShow(5);
  disk_.FailOn({.op = FakeOp::kRemove, .path_part = "ckpt.5.bp"});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, prefix_->Remove(5, dataset.catalogues), "");
  EXPECT_OK(disk_.Info(std::string(kShownPath) + "/ckpt.5/Ckpt5-Rank0.fti"));
  EXPECT_OK(prefix_->Remove(5, dataset.catalogues));
  EXPECT_FALSE(HasView(5));
}

TEST_F(ViewsTest, OfADatasetThatWasRemovedAreNotMade) {
  const view::SampleDataset dataset = Commit(5);
  ASSERT_OK(prefix_->Remove(5, dataset.catalogues));
  ASSERT_OK(PutBytes(disk_, dataset));
  prefix_->MakeView(5, dataset.catalogues);
  EXPECT_FALSE(HasView(5));
  EXPECT_THAT(prefix_->TakeWarnings(), IsEmpty());
}

TEST_F(ViewsTest, OfTheApplicationsOwnFilesAreNotMade) {
  scr::Descriptor descriptor = TestDescriptor(4, 1);
  descriptor.own_files = true;
  catalogue::Catalogue catalogue = TestCatalogue(prefix_->run(), 4, 0, 1, "bytes");
  catalogue.set_files(true);
  catalogue.clear_variables();
  catalogue.mutable_file(0)->set_prefix_name("out.dat");
  ASSERT_OK(WriteTestFile(disk_, std::string(kShownPath) + "/out.dat", "bytes"));
  ASSERT_OK(prefix_->Commit(descriptor, {catalogue}));
  prefix_->MakeView(4, {catalogue});
  ASSERT_OK(prefix_->MakeMissingViews(~DatasetId{0}, 10).status());
  EXPECT_FALSE(HasView(4));
  EXPECT_THAT(prefix_->TakeWarnings(), IsEmpty());
}

// --- Missing ones ---

TEST_F(ViewsTest, MissingOnesAreMadeNewestFirstSomeAtATime) {
  for (const DatasetId id : {1, 2, 3, 4, 5}) Commit(id);
  const auto made = [this](DatasetId id) { return HasView(id); };
  ASSERT_OK_AND_ASSIGN(const DatasetId next, prefix_->MakeMissingViews(~DatasetId{0}, 2));
  EXPECT_TRUE(made(5) && made(4));
  EXPECT_FALSE(made(3));
  ASSERT_OK_AND_ASSIGN(const DatasetId after, prefix_->MakeMissingViews(next, 2));
  EXPECT_TRUE(made(3) && made(2));
  EXPECT_FALSE(made(1));
  ASSERT_OK_AND_ASSIGN(const DatasetId end, prefix_->MakeMissingViews(after, 2));
  EXPECT_TRUE(made(1));
  EXPECT_EQ(end, 0u);
  for (const DatasetId id : {1, 2, 3, 4, 5}) ExpectShown(disk_, id, ViewPathOf(id));
}

TEST_F(ViewsTest, WhatCannotBeMadeIsToldAndDoesNotHoldUpTheOthers) {
  Commit(1);
  Commit(2, /*placed=*/false);
  ASSERT_OK(disk_.Remove(std::string(kShownPath) + "/ckpt.2/Ckpt2-Rank0.fti"));
  ASSERT_OK_AND_ASSIGN(const DatasetId end, prefix_->MakeMissingViews(~DatasetId{0}, 5));
  EXPECT_EQ(end, 0u);
  EXPECT_TRUE(HasView(1));
  EXPECT_THAT(prefix_->TakeWarnings(), ElementsAre(HasSubstr("dataset 2 has no BP5 view")));
}

TEST_F(ViewsTest, HalfOfOneIsMissing) {
  const view::SampleDataset dataset = CommitAndShow(1);
  ASSERT_OK(disk_.Remove(ViewPathOf(1) + "/md.idx"));
  ASSERT_OK(prefix_->MakeMissingViews(~DatasetId{0}, 5).status());
  EXPECT_OK(Check(dataset));
}

TEST_F(ViewsTest, OfARemovedDatasetGoWhenTheOthersAreMade) {
  const view::SampleDataset dataset = CommitAndShow(1);
  ASSERT_OK_AND_ASSIGN(const view::ViewFiles files, view::BuildView(dataset.catalogues));
  ASSERT_OK(prefix_->Remove(1, dataset.catalogues));
  ASSERT_OK(view::WriteFolder(disk_, ViewPathOf(1), files));  // by one that died before it looked
  ASSERT_OK(prefix_->MakeMissingViews(~DatasetId{0}, 5).status());
  EXPECT_FALSE(HasView(1));
}

TEST_F(ViewsTest, UnderWorkNamesGoWhenTheyAreOld) {
  CommitAndShow(1);
  const std::string stale = ViewPathOf(9) + std::string(kWorkSuffix) + "0123456789abcdef";
  const std::string other = std::string(kShownPath) + "/mine" + std::string(kWorkSuffix) + "0123456789abcdef";
  for (const std::string& folder : {stale, other}) {
    ASSERT_OK(disk_.MakeDirectory(folder, 0777));
    ASSERT_OK(WriteTestFile(disk_, folder + "/md.0", "half"));
  }
  ASSERT_OK_AND_ASSIGN(const FileInfo made, disk_.Info(stale));
  RemoveStaleWork(disk_, kShownPath, made.mtime.tv_sec + kStaleWorkSeconds);
  EXPECT_OK(disk_.Info(stale));
  RemoveStaleWork(disk_, kShownPath, made.mtime.tv_sec + kStaleWorkSeconds + 1);
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(stale), "");
  EXPECT_OK(disk_.Info(other));
  EXPECT_TRUE(HasView(1));
}

// --- Is it right? ---

TEST_F(ViewsTest, CheckFindsALinkThatLeadsElsewhere) {
  const view::SampleDataset dataset = CommitAndShow(5);
  ASSERT_OK(disk_.Remove(ViewPathOf(5) + "/data.1"));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Check(dataset), "data.1: no link to ../ckpt.5/Ckpt5-Rank1.fti");
  ASSERT_OK(disk_.Symlink("../ckpt.5/Ckpt5-Rank0.fti", ViewPathOf(5) + "/data.1"));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Check(dataset), "leads to ../ckpt.5/Ckpt5-Rank0.fti");
}

TEST_F(ViewsTest, CheckFindsALinkToNowhere) {
  const view::SampleDataset dataset = CommitAndShow(5);
  ASSERT_OK(disk_.Remove(std::string(kShownPath) + "/ckpt.5/Ckpt5-Rank1.fti"));
  EXPECT_STATUS(absl::StatusCode::kDataLoss, Check(dataset), "which is not there");
}

TEST_F(ViewsTest, CheckFindsMetadataOfSomethingElse) {
  const view::SampleDataset dataset = CommitAndShow(5);
  const std::string field = view::Raw<double>({1, 2, 3, 4});
  const auto expect = [&](const view::SampleDataset& other, const std::string& what) {
    ASSERT_OK_AND_ASSIGN(view::ViewFiles files, view::BuildView(other.catalogues));
    files.links = view::BuildView(dataset.catalogues)->links;
    ASSERT_OK(view::WriteFolder(disk_, ViewPathOf(5), files));
    EXPECT_STATUS(absl::StatusCode::kDataLoss, Check(dataset), what);
  };
  view::SampleDataset other = dataset;
  other.catalogues[0].mutable_placement(0)->mutable_run(0)->set_offset(8);
  expect(other, "\"field\": block writer 0, [2] at [0], location 8, expected writer 0, [2] at [0], location 0");
  other = dataset;
  other.catalogues[0].mutable_placement(1)->mutable_run(0)->set_min_max(view::Raw<double>({8, 8}));
  expect(other, "\"time\": not the value");
  other = dataset;
  other.catalogues[0].mutable_variables(0)->set_name("other");
  expect(other, "4 variables, expected 3");
}

TEST_F(ViewsTest, CheckFindsAnyCutAndTellsOfNoViewByItsCode) {
  const view::SampleDataset dataset = CommitAndShow(5);
  for (const char* name : {"md.idx", "md.0", "mmd.0"}) {
    const std::string path = ViewPathOf(5) + "/" + name;
    ASSERT_OK_AND_ASSIGN(const std::string whole, ReadWhole(disk_, path, 1 << 20));
    for (std::size_t bytes = 0; bytes < whole.size(); bytes += 17) {
      ASSERT_OK(WriteTestFile(disk_, path, whole.substr(0, bytes)));
      EXPECT_STATUS(absl::StatusCode::kDataLoss, Check(dataset), "");
    }
    ASSERT_OK(WriteTestFile(disk_, path, whole));
    EXPECT_OK(Check(dataset));
  }
  ASSERT_OK(view::RemoveFolder(disk_, ViewPathOf(5)));
  EXPECT_STATUS(absl::StatusCode::kNotFound, Check(dataset), "");
}

// --- The power fails ---

absl::Status History(Disk& disk, std::map<DatasetId, bool>* shown) {
  CAIRN_ASSIGN_OR_RETURN(auto prefix, Prefix::Open(disk, kShownPath));
  for (const DatasetId id : {1, 2}) {
    const view::SampleDataset dataset = ShownDataset(prefix->run(), id);
    CAIRN_RETURN_IF_ERROR(CommitShown(disk, *prefix, dataset));
    prefix->MakeView(id, dataset.catalogues);
    if (!prefix->TakeWarnings().empty()) return absl::UnavailableError("no view");
    (*shown)[id] = true;
    prefix->MakeView(id, dataset.catalogues);  // again
  }
  (*shown)[1] = false;
  CAIRN_RETURN_IF_ERROR(prefix->Remove(1, ShownDataset(prefix->run(), 1).catalogues));
  return absl::OkStatus();
}

// Whatever is there is whole, also before anybody has mended anything: no view is without its bytes.
void ExpectWholeViews(FakeDisk& disk) {
  for (const DatasetId id : {1, 2}) {
    if (disk.Info(ViewPathOf(id) + "/md.idx").ok()) ExpectShown(disk, id, ViewPathOf(id));
  }
}

TEST(ViewsCrashTest, AfterAPowerFailureAnywhereEveryViewIsWholeAndMissingOnesAreMade) {
  std::uint64_t operations = 0;
  {
    FakeDisk disk;
    std::map<DatasetId, bool> shown;
    ASSERT_OK(History(disk, &shown));
    operations = disk.operations();
  }
  for (std::uint64_t n = 1; n <= operations && !testing::Test::HasFailure(); ++n) {
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      SCOPED_TRACE(fmt::format("power fails at operation {} of {}, seed {}", n, operations, seed));
      FakeDisk disk;
      std::map<DatasetId, bool> shown;
      disk.CrashAt(n);
      History(disk, &shown).IgnoreError();
      disk.Restart(seed * 7919 + n);
      ExpectWholeViews(disk);
      ASSERT_OK_AND_ASSIGN(const auto prefix, Prefix::Open(disk, kShownPath));
      ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
      ExpectWholeViews(disk);
      ASSERT_OK(prefix->MakeMissingViews(~DatasetId{0}, 10).status());
      EXPECT_THAT(prefix->TakeWarnings(), IsEmpty());
      for (const DatasetId id : {1, 2}) {
        EXPECT_EQ(disk.Info(ViewPathOf(id) + "/md.idx").ok(), committed.contains(id)) << id;
        if (committed.contains(id)) ExpectShown(disk, id, ViewPathOf(id));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
