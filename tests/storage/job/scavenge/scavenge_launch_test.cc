// Scavenge under launches: what it commits names the launch that the cache has served, and it saves nothing of others.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "storage/base/launch_mark.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/job/scavenge/scavenge.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/identity.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/release_0_1_0.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using State = SavedDataset::State;
using Ids = std::set<DatasetId>;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr char kPrefixPath[] = "/pfs/demo";
constexpr char kCopyPath[] = "/pfs/copy";
constexpr char kOwnName[] = "out/field";

class ScavengeLaunchTest : public ::testing::Test {
 protected:
  ScavengeLaunchTest() {
    prefix_ = Open(kPrefixPath);
    folder_ = OpenCache("/node0", prefix_->identity(), kPrefixPath);
    launch_ = Launch();
  }
  std::unique_ptr<Prefix> Open(const std::string& path) {
    auto prefix = Prefix::Open(disk_, path);
    EXPECT_OK(prefix.status());
    return prefix.ok() ? *std::move(prefix) : nullptr;
  }
  std::unique_ptr<CacheFolder> OpenCache(const std::string& cache, const RunIdentity& run, const std::string& path) {
    auto folder = CacheFolder::Open(disk_, cache, "alice", "demo", run, path);
    EXPECT_OK(folder.status());
    return folder.ok() ? *std::move(folder) : nullptr;
  }
  LaunchRecord Launch(LaunchId predecessor = 0) {
    const auto made = prefix_->MakeLaunch(
        {.key = "job", .nranks = 1, .run = {}, .maker = {}, .secret = {}, .predecessor = predecessor});
    EXPECT_OK(made.status());
    return made.ok() ? *made : LaunchRecord();
  }

  // A checkpoint of one rank in the cache; with `own_files` an output of the application's one file.
  void Write(DatasetId id, const std::string& mark, bool own_files = false) {
    scr::Descriptor descriptor = TestDescriptor(id, 1);
    descriptor.mark = mark;
    descriptor.own_files = own_files;
    descriptor.output = own_files;
    descriptor.checkpoint = !own_files;
    ASSERT_OK(folder_->Begin(descriptor));
    const std::string content = TestContent(id, 100);
    if (own_files) {
      ASSERT_OK_AND_ASSIGN(const std::string path, folder_->RouteFile(id, kOwnName));
      ASSERT_OK(WriteTestFile(disk_, path, content));
      catalogue::Catalogue catalogue = EmptyCatalogue(prefix_->run(), id, 0, 1);
      catalogue.set_files(true);
      *catalogue.add_file() = TestEntry(kOwnName, kOwnName, content);
      ASSERT_OK(folder_->CommitRankFiles(catalogue));
    } else {
      const std::string work = folder_->WorkPath(id, 0);
      ASSERT_OK(WriteTestFile(disk_, work, content));
      ASSERT_OK(folder_->CommitRank(TestCatalogue(prefix_->run(), id, 0, 1, content), work));
    }
    ASSERT_OK(folder_->Complete(descriptor));
  }
  void Write(DatasetId id) { Write(id, LaunchMark(launch_.secret)); }

  absl::StatusOr<std::vector<SavedDataset>> TryScavenge(LaunchId served, Prefix& prefix, RunIdentity run) {
    notes_.clear();
    ScavengeRequest request;
    request.all = all_;
    request.note = [this](const std::string& text) { notes_ += text + "\n"; };
    return ScavengeRun(disk_, disk_, {folder_->path(), "demo", std::move(run), prefix.path(), served}, prefix, request);
  }
  std::vector<SavedDataset> Scavenge(LaunchId served) {
    auto saved = TryScavenge(served, *prefix_, prefix_->run());
    EXPECT_OK(saved.status());
    return saved.ok() ? *std::move(saved) : std::vector<SavedDataset>();
  }
  PrefixContents Contents() {
    const auto contents = prefix_->Contents();
    EXPECT_OK(contents.status());
    return contents.ok() ? *contents : PrefixContents();
  }
  Ids Restorable() {
    Ids ids;
    for (const auto& [id, dataset] : Contents().datasets) ids.insert(id);
    return ids;
  }

  FakeDisk disk_;
  std::unique_ptr<Prefix> prefix_;
  std::unique_ptr<CacheFolder> folder_;
  LaunchRecord launch_;  // the first
  bool all_ = false;
  std::string notes_;
};

TEST_F(ScavengeLaunchTest, ACommitNamesTheNewestLaunchThatTheCacheHasServed) {
  Write(1);
  const auto saved = Scavenge(1);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  ASSERT_OK_AND_ASSIGN(const auto commit, ReadTree(disk_, "/pfs/demo/.scr/scr.dataset.1/commit.cairn"));
  EXPECT_EQ(*commit.GetUnsigned("COMMITTER"), 1u);
  EXPECT_EQ(Restorable(), Ids{1});
}

TEST_F(ScavengeLaunchTest, ACacheThatHasServedNoneNamesNone) {
  Write(1);
  EXPECT_EQ(Scavenge(0)[0].state, State::kSaved);
  ASSERT_OK_AND_ASSIGN(const auto commit, ReadTree(disk_, "/pfs/demo/.scr/scr.dataset.1/commit.cairn"));
  EXPECT_EQ(commit.Find("COMMITTER"), nullptr);
}

TEST_F(ScavengeLaunchTest, WhatIsFencedIsOnThePrefixAndSaidAgainWithoutBeingCopiedAgain) {
  Write(1);
  Write(2);
  Launch();
  const auto saved = Scavenge(1);
  ASSERT_EQ(saved.size(), 1u);  // an older one would be fenced as well
  EXPECT_EQ(saved[0].id, 2u);
  EXPECT_EQ(saved[0].state, State::kFenced);
  EXPECT_FALSE(saved[0].why.empty());
  EXPECT_EQ(Restorable(), Ids{});
  EXPECT_TRUE(Contents().fenced.contains(2));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix_->Catalogues(2));
  EXPECT_TRUE(disk_.Info(prefix_->FilePath(catalogues[0].file(0).prefix_name())).ok());
  int written = 0;
  disk_.SetHook(
      [&](FakeOp op, const std::string& path) { written += op == FakeOp::kWrite && path.find(".fti") != path.npos; });
  const auto again = Scavenge(1);
  disk_.SetHook({});
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].state, State::kFenced);
  EXPECT_EQ(written, 0);
}

TEST_F(ScavengeLaunchTest, WhatWasFencedServesNoRestartSoTheCheckpointOfTheNewerLaunchIsSaved) {
  Write(5);
  const LaunchRecord second = Launch();
  ASSERT_EQ(Scavenge(1)[0].state, State::kFenced);
  ASSERT_OK(folder_->Remove(5));
  Write(3, LaunchMark(second.secret));
  const auto saved = Scavenge(2);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].id, 3u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_EQ(Restorable(), Ids{3});
}

TEST_F(ScavengeLaunchTest, WhatWasFencedBecomesRestorableOnceTheCacheHasServedTheNewestLaunch) {
  Write(1);
  Launch();
  ASSERT_EQ(Scavenge(1)[0].state, State::kFenced);
  EXPECT_EQ(Scavenge(2)[0].state, State::kSaved);
  EXPECT_EQ(Restorable(), Ids{1});
}

TEST_F(ScavengeLaunchTest, AFencedOutputDoesNotTakeTheNamesOfACommittedOne) {
  Write(1, LaunchMark(launch_.secret), /*own_files=*/true);
  ASSERT_EQ(Scavenge(1)[0].state, State::kSaved);
  ASSERT_OK(folder_->Remove(1));
  Write(2, LaunchMark(launch_.secret), /*own_files=*/true);
  Launch();
  const auto saved = Scavenge(1);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].state, State::kTooLate);
  EXPECT_EQ(Restorable(), Ids{1});
  ASSERT_OK_AND_ASSIGN(const std::string bytes, ReadWhole(disk_, prefix_->FilePath(kOwnName), 1000));
  EXPECT_EQ(bytes, TestContent(1, 100));
}

TEST_F(ScavengeLaunchTest, WhatWasMadeUnderALaunchThatThePrefixDoesNotHaveStaysInTheCache) {
  Write(1, LaunchMark("a secret of another directory"));
  Write(2);
  all_ = true;
  const auto saved = Scavenge(1);
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].id, 2u);
  EXPECT_NE(notes_.find("dataset 1 stays in the cache: it was made under a launch that /pfs/demo does not have"),
            std::string::npos)
      << notes_;
  EXPECT_EQ(Restorable(), Ids{2});
}

TEST_F(ScavengeLaunchTest, WhatWasMadeUnderAnAbandonedLaunchStaysInTheCache) {
  Launch();
  const LaunchRecord late = Launch(/*predecessor=*/1);
  ASSERT_TRUE(late.abandoned);
  Write(1, LaunchMark(late.secret));
  EXPECT_TRUE(Scavenge(3).empty());
  EXPECT_NE(notes_.find("dataset 1 stays in the cache: its launch had begun"), std::string::npos) << notes_;
}

TEST_F(ScavengeLaunchTest, ACopyDoesNotGetTheCacheOfItsParentUntilItIsSaidToHaveMoved) {
  Write(1);
  disk_.CopyTree(kPrefixPath, kCopyPath);
  const RunId run = prefix_->run();
  const auto copy = Open(kCopyPath);
  EXPECT_STATUS(kFailedPrecondition, TryScavenge(1, *copy, run), "cairn run moved /pfs/copy");
  ASSERT_OK(RemoveTree(disk_, kPrefixPath));
  ASSERT_OK(identity::TakeBack(disk_, kCopyPath));
  const RunId branch = copy->run();
  const auto back = Open(kCopyPath);
  EXPECT_STATUS(kFailedPrecondition, TryScavenge(1, *back, TestRun(9)), "the prefix is run");
  // What was made while it passed for a branch is its own, too.
  ASSERT_OK_AND_ASSIGN(const auto saved, TryScavenge(1, *back, run));
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_OK(CheckCacheOf({folder_->path(), "demo", branch, kCopyPath}, kCopyPath, back->identity()));
}

// Without marks and without a launch that was served.
TEST_F(ScavengeLaunchTest, TheCacheOfRelease010IsSaved) {
  testing::PutOldPrefix(disk_);
  testing::PutOldCache(disk_);
  const auto old = Open(testing::kOldPrefix);
  ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(disk_, testing::kOldCache, testing::kOldUser));
  ASSERT_EQ(found.size(), 1u);
  ScavengeRequest request;
  request.all = true;
  request.note = [](const std::string&) {};
  ASSERT_OK_AND_ASSIGN(const auto saved, ScavengeRun(disk_, disk_, found[0], *old, request));
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].id, 65u);
  EXPECT_EQ(saved[0].state, State::kSaved);
  EXPECT_EQ(saved[1].id, 67u);
  EXPECT_EQ(saved[1].state, State::kSaved);
  ASSERT_OK_AND_ASSIGN(const auto committed, old->Committed());
  EXPECT_EQ(committed.size(), 5u);
  EXPECT_TRUE(committed.at(67).current);
}

}  // namespace
}  // namespace cairn
