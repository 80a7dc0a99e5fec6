// FTI's and SCR's directories, and BP5's: by their own rules, and so that they can be restarted from.
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/file/bpdir/directory.h"
#include "storage/file/fti/execution.h"
#include "storage/job/adopt/scr_cache.h"
#include "storage/job/adopt/scr_recover.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/storage/file/redundancy/sample_cache.h"
#include "tests/storage/job/drain/drain_fixture.h"
#include "tests/support/growing_bp5.h"

namespace cairn {
namespace {

using testing::DrainFixture;

constexpr fti::Topology kTopology{.ranks = 4, .node_size = 2, .group_size = 2, .heads = false};

class DrainSetsTest : public DrainFixture {
 protected:
  DrainSetsTest() {
    options_.settle_ms = 600'000;  // what is complete is so by its own records
    options_.parallel = 1;
    target_hooks_.before = [this](std::string_view what, const std::string& path) {
      if (what == "rename to") order_.push_back(path);
      return absl::OkStatus();
    };
    Hook();
  }
  std::size_t Place(const std::string& end) const {
    const auto found = std::ranges::find_if(order_, [&](const std::string& path) { return path.ends_with(end); });
    EXPECT_TRUE(found != order_.end()) << end;
    return static_cast<std::size_t>(found - order_.begin());
  }

  std::vector<std::string> order_;
};

TEST_F(DrainSetsTest, FtiRestartsFromWhatWasDrained) {
  testing::SampleExport sample(kTopology, fti::Level::kLocal, ftiff::Letter::kF, 3);
  sample.what.folder = from_ + "/fti";
  ASSERT_OK(fti::Write(*disk_, sample.what));
  options_.settle_ms = 0;
  const DrainReport report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
  // The indexes, Topology.fti and config.fti, come after all checkpoint files.
  EXPECT_EQ(std::min(Place("config.fti"), Place("Topology.fti")), order_.size() - 2);
  const auto execution = fti::Find(*disk_, {.roots = {to_}});
  ASSERT_OK(execution);
  ASSERT_EQ(execution->checkpoints.size(), 1U);
  std::filesystem::create_directory(folder_ + "/scratch");
  EXPECT_OK(fti::Recover(*disk_, execution->topology, execution->checkpoints[0], folder_ + "/scratch"));
}

TEST_F(DrainSetsTest, WhatFtiHasNotFinishedWaitsAndHoldsTheIndexBack) {
  testing::SampleExport sample(kTopology, fti::Level::kLocal, ftiff::Letter::kF, 3);
  sample.what.folder = from_ + "/fti";
  ASSERT_OK(fti::Write(*disk_, sample.what));
  options_.settle_ms = 0;
  Put("fti/Local/node0/" + sample.what.execution + "/tmp/Ckpt4-Rank0.fti", "half");
  const DrainReport report = Drained();
  EXPECT_NE(Why(report.waiting, "fti/Local/node0/" + sample.what.execution + "/tmp/Ckpt4-Rank0.fti"), "");
  EXPECT_FALSE(IsThere("fti/config.fti"));
  EXPECT_TRUE(IsThere("fti/Local/node0/" + sample.what.execution + "/l1/Ckpt3-Rank0.fti"));
}

TEST_F(DrainSetsTest, CompleteCheckpointsOfFtiComeBeforeOthersTheNewestFirst) {
  for (const std::int32_t id : {3, 5}) {
    testing::SampleExport sample(kTopology, fti::Level::kLocal, ftiff::Letter::kF, id);
    sample.what.folder = folder_ + "/export" + std::to_string(id);
    ASSERT_OK(fti::Write(*disk_, sample.what));
  }
  const auto copy = std::filesystem::copy_options::recursive | std::filesystem::copy_options::skip_existing;
  std::filesystem::copy(folder_ + "/export3", from_ + "/fti", copy);
  std::filesystem::copy(folder_ + "/export5", from_ + "/fti", copy);
  const std::string level = from_ + "/fti/Local/node0/cairn/l1/";
  // Of the oldest, one file is lost.
  std::filesystem::copy_file(level + "Ckpt3-Rank0.fti", level + "Ckpt7-Rank0.fti");
  options_.settle_ms = 0;
  EXPECT_TRUE(Drained().complete());
  EXPECT_LT(Place("Ckpt5-Rank3.fti"), Place("Ckpt3-Rank0.fti"));
  EXPECT_LT(Place("Ckpt3-Rank3.fti"), Place("Ckpt7-Rank0.fti"));
}

TEST_F(DrainSetsTest, ScrsCacheComesFilesFirstThenFilemapsThenTheIndex) {
  testing::PutSampleCache(*disk_, from_, {.id = 4, .files = {{1000, 20}, {3000}, {70}}});
  const DrainReport report = Drained();  // nothing of the dataset has settled, but its filemaps say that it is whole
  for (const drain::Told& told : report.waiting.list()) EXPECT_NE(told.path.find("cindex.scrinfo"), std::string::npos);
  EXPECT_EQ(report.waiting.count(), 3U);
  options_.settle_ms = 0;
  EXPECT_TRUE(Drained().complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
  const auto is_index = [](const std::string& path) { return path.ends_with("cindex.scrinfo"); };
  EXPECT_EQ(std::ranges::find_if(order_, is_index) - order_.begin(), static_cast<std::ptrdiff_t>(order_.size()) - 3);
  const auto cache = FindScrCache(*disk_, {to_}, "");
  ASSERT_OK(cache);
  ASSERT_TRUE(cache->datasets.contains(4));
  std::filesystem::create_directory(folder_ + "/scratch");
  auto recovery = ScrRecovery::Open(*disk_, cache->datasets.at(4), folder_ + "/scratch");
  ASSERT_OK(recovery);
  EXPECT_OK((*recovery)->RecoverFiles([](Rank, const std::string&) { return std::vector<std::string>(); }));
}

TEST_F(DrainSetsTest, AFilemapWaitsForTheFilesThatItNames) {
  testing::PutSampleCache(*disk_, from_, {.id = 4, .files = {{1000}, {3000}}});
  options_.settle_ms = 0;
  std::string file;
  for (const auto& [name, bytes] : Files(from_)) {
    if (name.starts_with("node0") && bytes.size() == 1000) file = name;
  }
  ASSERT_NE(file, "");
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    return what == "open" && path == file ? PermissionDenied("not for you") : absl::OkStatus();
  };
  const DrainReport report = Drained();
  EXPECT_NE(Why(report.failed, file), "");
  EXPECT_TRUE(std::ranges::none_of(order_, [](const std::string& path) {
    return path.starts_with("node0") && (path.find("filemap_") != path.npos || path.ends_with("cindex.scrinfo"));
  }));
}

TEST_F(DrainSetsTest, AnIndexThatNamesWhatCameAfterTheListingWaits) {
  testing::PutSampleCache(*disk_, from_, {.id = 4, .files = {{1000}, {500}}});
  options_.settle_ms = 0;
  bool added = false;
  source_hooks_.before = [&](std::string_view what, const std::string& path) {
    if (what == "open" && path.find("scr.dataset.4") != path.npos && !std::exchange(added, true)) {
      Put("node0/me/scr.7/scr.dataset.5/new", "new");
    }
    return absl::OkStatus();
  };
  EXPECT_NE(Why(Drained().waiting, "node0/me/scr.7/cindex.scrinfo"), "");
  EXPECT_TRUE(Drained().complete());
}

TEST_F(DrainSetsTest, AnIndexWaitsForAFolderThatCannotBeListed) {
  for (const char* name : {"ckpt.1/a", ".scr/index.scr"}) Put(std::string("run/") + name, name);
  options_.settle_ms = 0;
  bool refuses = true;
  source_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    return refuses && what == "list" && path == "run/ckpt.1" ? PermissionDenied("not for you") : absl::OkStatus();
  };
  EXPECT_NE(Why(Drained().waiting, "run/.scr/index.scr"), "");
  EXPECT_FALSE(IsThere("run/.scr/index.scr"));
  refuses = false;
  EXPECT_TRUE(Drained().complete());
}

TEST_F(DrainSetsTest, AClosedBp5DirectoryGoesAtOnceItsIndexLast) {
  auto job = std::make_unique<GrowingBp5>(*disk_, from_ + "/out.bp");
  ASSERT_OK(job->Create());
  ASSERT_OK(job->Step());
  DrainReport report = Drained();
  EXPECT_GT(report.waiting.count(), 0U);  // its writer has not closed it
  EXPECT_TRUE(Files(to_).empty());
  ASSERT_OK(job->Step());
  ASSERT_OK(job->Close());
  job.reset();  // its files are closed
  report = Drained();
  EXPECT_TRUE(report.complete());
  EXPECT_TRUE(Files(to_) == Files(from_));
  EXPECT_EQ(order_.back(), "out.bp/md.idx");
  EXPECT_GE(Place("md.0"), order_.size() - 3);
  const auto directory = bpdir::Directory::Open(to_ + "/out.bp");
  ASSERT_OK(directory);
  EXPECT_EQ((*directory)->metadata().steps(), 2U);
}

TEST_F(DrainSetsTest, ScrsPrefixComesWithItsIndexLast) {
  for (const char* name : {"ckpt.1/a", "ckpt.1/b", ".scr/scr.dataset.1/rank2file.scr", ".scr/scr.dataset.1/summary.scr",
                           ".scr/index.scr", ".scr/flush.scr"}) {
    Put(std::string("run/") + name, name);
  }
  options_.settle_ms = 0;
  EXPECT_TRUE(Drained().complete());
  EXPECT_LT(Place("ckpt.1/b"), Place("summary.scr"));
  EXPECT_LT(Place("summary.scr"), Place("index.scr"));
}

}  // namespace
}  // namespace cairn
