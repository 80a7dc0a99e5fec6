// The commit protocol as its four users have it, flush, bypass, scavenge and adopt: what is refused, what only warns,
// and what a crash at any instant leaves.
#include "storage/place/publish/publish.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/transfer.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/scr/records.h"
#include "storage/job/adopt/adoption.h"
#include "storage/job/flush/flush_work.h"
#include "storage/job/scavenge/scavenge.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/publish/bypass.h"
#include "storage/place/publish/unfinished.h"
#include "tests/storage/place/cache/datasets.h"
#include "tests/storage/place/prefix/shown.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using enum absl::StatusCode;
using Ids = std::vector<DatasetId>;

enum class User : std::uint8_t { kFlush, kBypass, kScavenge, kAdopt };
constexpr User kUsers[] = {User::kFlush, User::kBypass, User::kScavenge, User::kAdopt};

std::string NameOf(User user) {
  constexpr const char* kNames[] = {"Flush", "Bypass", "Scavenge", "Adopt"};
  return kNames[static_cast<int>(user)];
}

// A dataset of one file a rank.
struct Output {
  scr::Descriptor descriptor;
  std::vector<catalogue::Catalogue> catalogues;
  std::vector<std::string> bytes;  // by rank
  DatasetId id() const { return descriptor.id; }
};

// The application's files: the name out/a is every output's, out/<id> its own.
Output OutputOf(const RunId& run, DatasetId id, const std::vector<std::string>& names) {
  Output output{
      .descriptor = TestDescriptor(id, static_cast<std::uint32_t>(names.size())), .catalogues = {}, .bytes = {}};
  output.descriptor.own_files = output.descriptor.output = true;
  output.descriptor.checkpoint = false;
  for (Rank rank = 0; rank < names.size(); ++rank) {
    output.bytes.push_back(TestContent(100 * id + rank, 500 + id));
    catalogue::Catalogue catalogue = EmptyCatalogue(run, id, rank, static_cast<std::uint32_t>(names.size()));
    catalogue.set_files(true);
    catalogue::FileEntry& entry = *catalogue.add_file();
    entry = TestEntry(names[rank], names[rank], output.bytes.back());
    entry.set_mode(0100640);
    entry.set_mtime_s(1'700'000'000 + static_cast<std::int64_t>(id));
    output.catalogues.push_back(std::move(catalogue));
  }
  return output;
}
Output OutputOf(const RunId& run, DatasetId id) {
  return OutputOf(run, id, {"out/a", fmt::format("out/{}", id)});
}

Output CheckpointOf(const RunId& run, DatasetId id) {
  view::SampleDataset sample = ShownDataset(run, id);
  return {.descriptor = TestDescriptor(id, 2),
          .catalogues = std::move(sample.catalogues),
          .bytes = std::move(sample.files)};
}

class Publishing {
 public:
  Publishing() { Open(); }
  void Open() {
    auto opened = Prefix::Open(pfs, kShownPath);
    EXPECT_OK(opened.status());
    prefix = opened.ok() ? std::shared_ptr<Prefix>(*std::move(opened)) : nullptr;
  }
  const RunId& run() const { return prefix->run(); }

  absl::Status Publish(User user, const Output& output) {
    warnings.clear();
    absl::Status status;
    switch (user) {
      case User::kFlush:
        status = Flush(output);
        break;
      case User::kBypass:
        status = BypassCache(output);
        break;
      case User::kScavenge:
        status = Scavenge(output);
        break;
      case User::kAdopt:
        status = Adopt(output);
        break;
    }
    for (const std::string& warning : prefix->TakeWarnings()) warnings += warning + "\n";
    return status;
  }
  absl::Status Flush(const Output& output) {
    const std::string folder = fmt::format("/cache/{}", output.id());
    for (std::size_t r = 0; r < output.bytes.size(); ++r) {
      const std::string path = folder + "/" + output.catalogues[r].file(0).name();
      CAIRN_RETURN_IF_ERROR(MakeDirectories(node, ParentOf(path)));
      CAIRN_RETURN_IF_ERROR(WriteTestFile(node, path, output.bytes[r]));
    }
    FlushFile told("node:/cache");
    const FlushSource source{node, folder, output.descriptor, output.catalogues};
    const FlushTarget target{pfs, *prefix, told};
    TransferProgress progress;
    const FlushOutcome copy = CopyDataset(source, target, throttle, progress);
    CAIRN_RETURN_IF_ERROR(copy.status);
    Copied();
    FlushOutcome commit = CommitCopied(source, target, copy.copied, gave_way);
    for (const std::string& warning : commit.warnings) warnings += warning + "\n";
    gave_way.merge(commit.withdrawn);
    return commit.status;
  }
  absl::Status BypassCache(const Output& output) {
    bypass = Bypass::Make(pfs, prefix);
    CAIRN_RETURN_IF_ERROR(bypass->Begin(output.descriptor));
    for (Rank rank = 0; rank < output.bytes.size(); ++rank)
      CAIRN_RETURN_IF_ERROR(StoreRank(*bypass, pfs, output, rank));
    Copied();
    const absl::Status status = bypass->Complete(output.descriptor);
    for (const std::string& warning : bypass->TakeWarnings()) warnings += warning + "\n";
    return status;
  }
  absl::Status Scavenge(const Output& output) {
    CAIRN_ASSIGN_OR_RETURN(const auto folder, CacheFolder::Open(node, "/node", "alice", "demo", run(), kShownPath));
    const absl::Status begun = folder->Begin(output.descriptor);
    if (begun.ok()) {
      for (Rank rank = 0; rank < output.bytes.size(); ++rank) {
        CAIRN_RETURN_IF_ERROR(StoreRank(*folder, node, output, rank));
      }
      CAIRN_RETURN_IF_ERROR(folder->Complete(output.descriptor));
    }
    pfs.SetHook([this](FakeOp op, const std::string& path) {
      if (op == FakeOp::kSync && path.find("/out/2.cairn-work") != std::string::npos) Copied();
    });
    const ScavengeRequest request{
        .dataset = output.id(), .all = false, .note = [this](const std::string& text) { warnings += text + "\n"; }};
    const auto saved = ScavengeRun(node, pfs, {folder->path(), "demo", run(), kShownPath}, *prefix, request);
    pfs.SetHook(nullptr);
    if (!saved.ok()) return saved.status();
    const SavedDataset& one = saved->at(0);
    if (one.state == SavedDataset::State::kTooLate) return Aborted("{}", one.why);
    std::string why;
    for (const MissingRank& missing : one.missing) why += missing.why + "\n";
    return one.missing.empty() ? absl::OkStatus() : FailedPrecondition("{}", why);
  }
  // As AdoptScr and AdoptBp do it, or, for what has names of its own, AdoptCheckpoint.
  absl::Status Adopt(const Output& output) {
    const auto note = [this](const std::string& text) { warnings += text + "\n"; };
    CAIRN_ASSIGN_OR_RETURN(const Claims claims, CleanUp(pfs, *prefix));
    const std::string claim = ClaimPath(*prefix, "a test's");
    if (claims.contains(claim)) return absl::OkStatus();
    NewDataset dataset{.descriptor = output.descriptor, .catalogues = output.catalogues};
    return AdoptDataset(
        pfs, *prefix, claim, {}, &dataset, [&] { return CopyAdopted(output, &dataset); }, note);
  }

  // What the power's failure interrupted comes to its end: gone on with by a flush, a scavenge and an adopt (which has
  // a new number then), taken away after a bypass.
  void Finish(User user, const Output& output) {
    if (user == User::kBypass) {
      ASSERT_OK_AND_ASSIGN(const PrefixContents contents, prefix->Contents());
      if (WasCommitted(contents, output.id())) return;
      ASSERT_OK(RemoveUnfinished(pfs, *prefix, output.id()));
    } else if (user == User::kAdopt) {
      ASSERT_OK(Publish(user, OutputOf(run(), output.id() + 1)));
    } else {
      ASSERT_OK(Publish(user, output));
    }
  }

  bool IsThere(const std::string& name) { return pfs.Info(prefix->FilePath(name)).ok(); }
  Ids Committed() {
    const auto committed = prefix->Committed();
    EXPECT_OK(committed);
    Ids ids;
    if (!committed.ok()) return ids;
    for (const auto& [id, dataset] : *committed) ids.push_back(id);
    return ids;
  }
  // What index.scr says as it lies there.
  Ids CompleteInIndex() {
    Ids ids;
    const auto tree = ReadTree(pfs, std::string(kShownPath) + "/.scr/index.scr");
    if (!tree.ok()) return ids;
    const auto index = scr::GetIndex(*tree);
    EXPECT_OK(index);
    if (!index.ok()) return ids;
    for (const auto& [id, entry] : index->datasets) {
      if (entry.complete) ids.push_back(id);
    }
    return ids;
  }
  // Each of them has its own bytes under its names.
  void ExpectWhole(const Ids& ids) {
    for (const DatasetId id : ids) {
      const Output output = OutputOf(run(), id);
      for (std::size_t r = 0; r < output.bytes.size(); ++r) {
        EXPECT_OK(
            VerifyFile(pfs, prefix->FilePath(output.catalogues[r].file(0).prefix_name()), output.catalogues[r].file(0)))
            << "dataset " << id;
      }
    }
  }

  FakeDisk node, pfs;
  std::shared_ptr<Prefix> prefix;
  std::unique_ptr<Bypass> bypass;
  std::string warnings;
  Withdrawn gave_way;                 // to flushes so far
  std::function<void()> when_copied;  // once, when all is copied and nothing published
  Throttle throttle{0};

 private:
  void Copied() {
    if (auto then = std::exchange(when_copied, nullptr)) then();
  }
  static absl::Status WriteAsNoted(Disk& disk, const std::string& path, const Output& output, Rank rank) {
    CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, ParentOf(path)));
    CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, path, output.bytes[rank]));
    const timespec time{.tv_sec = output.catalogues[rank].file(0).mtime_s(), .tv_nsec = 0};
    return disk.SetModeAndTimes(path, 0640, time, time);
  }
  static absl::Status StoreRank(DatasetStore& store, Disk& disk, const Output& output, Rank rank) {
    const catalogue::Catalogue& catalogue = output.catalogues[rank];
    if (!catalogue.files()) {
      const std::string work = store.WorkPath(output.id(), rank);
      CAIRN_RETURN_IF_ERROR(WriteTestFile(disk, work, output.bytes[rank]));
      return store.CommitRank(catalogue, work);
    }
    CAIRN_ASSIGN_OR_RETURN(const std::string path, store.RouteFile(output.id(), catalogue.file(0).name()));
    CAIRN_RETURN_IF_ERROR(WriteAsNoted(disk, path, output, rank));
    return store.CommitRankFiles(catalogue);
  }
  absl::Status CopyAdopted(const Output& output, NewDataset* dataset) {
    if (output.descriptor.own_files) CAIRN_RETURN_IF_ERROR(MakeStage(pfs, *prefix, *dataset));
    for (Rank rank = 0; rank < output.bytes.size(); ++rank) {
      const std::string to = prefix->FilePath(output.catalogues[rank].file(0).prefix_name());
      const std::string work = output.descriptor.own_files ? StagedPath(*prefix, *dataset, rank, 0) : to;
      CAIRN_RETURN_IF_ERROR(WriteAsNoted(pfs, work, output, rank));
      CAIRN_RETURN_IF_ERROR(pfs.SyncDirectory(ParentOf(work)));
      if (output.descriptor.own_files) dataset->files.push_back({.work = work, .to = to, .in_place = {}});
    }
    Copied();
    return absl::OkStatus();
  }
};

class PublishTest : public ::testing::TestWithParam<User>, protected Publishing {
 protected:
  absl::Status PublishOne(const Output& output) { return Publish(GetParam(), output); }
};

INSTANTIATE_TEST_SUITE_P(Users, PublishTest, ::testing::ValuesIn(kUsers),
                         [](const auto& info) { return NameOf(info.param); });

TEST_P(PublishTest, AnOlderOutputGivesWayAndIsRemoved) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  ASSERT_OK(PublishOne(OutputOf(run(), 2)));
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(Committed(), Ids{2});
  EXPECT_EQ(CompleteInIndex(), Ids{2});
  ExpectWhole({2});
  EXPECT_FALSE(IsThere("out/1"));
  EXPECT_FALSE(IsThere(RoutedFolder(2)) || IsThere(AdoptedFolder(2))) << "where its files waited";
}

TEST_P(PublishTest, ADirectoryInTheWayIsRefusedAndNothingHasChanged) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  ASSERT_OK(MakeDirectories(pfs, prefix->FilePath("out/2")));
  EXPECT_STATUS(kFailedPrecondition, PublishOne(OutputOf(run(), 2)), "out/2: in the way: a directory");
  EXPECT_EQ(Committed(), Ids{1});
  ExpectWhole({1});
  EXPECT_TRUE(IsThere("out/2"));
}

TEST_P(PublishTest, ADirectoryThatComesInTheWayAfterTheCopyIsRefusedToo) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  bool came = false;
  when_copied = [&] {
    came = true;
    ASSERT_OK(MakeDirectories(pfs, prefix->FilePath("out/2")));
  };
  EXPECT_STATUS(kFailedPrecondition, PublishOne(OutputOf(run(), 2)), "out/2: in the way: a directory");
  EXPECT_TRUE(came);
  EXPECT_EQ(Committed(), Ids{1});
  EXPECT_EQ(CompleteInIndex(), Ids{1});
  ExpectWhole({1});
}

TEST_P(PublishTest, ALinkOutOfThePrefixThatComesAfterTheCopyIsRefused) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  when_copied = [&] {
    ASSERT_OK(pfs.Rename(prefix->FilePath("out"), "/pfs/elsewhere"));
    ASSERT_OK(pfs.Symlink("/pfs/elsewhere", prefix->FilePath("out")));
  };
  EXPECT_STATUS(kFailedPrecondition, PublishOne(OutputOf(run(), 2)), "out");
  EXPECT_EQ(Committed(), Ids{1});
}

TEST_P(PublishTest, ARemovalThatFailsAfterTheCommitIsAWarning) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kRemove, .path_part = "/out/1", .times = UINT64_MAX});
  ASSERT_OK(PublishOne(OutputOf(run(), 2)));
  EXPECT_NE(warnings.find("dataset 1: "), std::string::npos) << warnings;
  EXPECT_NE(warnings.find("injected"), std::string::npos) << warnings;
  pfs.ClearFaults();
  EXPECT_EQ(Committed(), Ids{2});
  ExpectWhole({2});
}

TEST_P(PublishTest, AViewIsThereAfterwards) {
  const Output checkpoint = CheckpointOf(run(), 3);
  ASSERT_OK(PublishOne(checkpoint));
  EXPECT_EQ(warnings, "");
  EXPECT_EQ(Committed(), Ids{3});
  ExpectShown(pfs, 3, ViewPathOf(3));
}

TEST_P(PublishTest, AViewThatCannotBeMadeIsAWarning) {
  pfs.FailOn({.op = FakeOp::kAny, .path_part = "ckpt.3.bp", .times = UINT64_MAX});
  ASSERT_OK(PublishOne(CheckpointOf(run(), 3)));
  EXPECT_NE(warnings.find("dataset 3 has no BP5 view"), std::string::npos) << warnings;
  EXPECT_EQ(Committed(), Ids{3});
}

TEST_P(PublishTest, WhatComesTooLateForItsNamesChangesNothing) {
  ASSERT_OK(Flush(OutputOf(run(), 5)));
  EXPECT_STATUS(kAborted, PublishOne(OutputOf(run(), 2)), "dataset 5, which is newer");
  EXPECT_EQ(Committed(), Ids{5});
  ExpectWhole({5});
  EXPECT_FALSE(IsThere("out/2"));
}

TEST_P(PublishTest, ARemovalThatComesBeforeTheCommitWins) {
  bool removed = false;
  when_copied = [&] {
    // Its files are in their places then, and their folder is about to be synced.
    pfs.SetHook([&](FakeOp op, const std::string& path) {
      if (op != FakeOp::kSyncDirectory || !path.ends_with("/out") || std::exchange(removed, true)) return;
      EXPECT_TRUE(IsThere("out/2"));
      EXPECT_OK(prefix->Remove(2, {}));
    });
  };
  ASSERT_OK(MakeDirectories(pfs, prefix->FilePath("out")));
  EXPECT_STATUS(kAborted, PublishOne(OutputOf(run(), 2)), "removed");
  EXPECT_TRUE(removed);
  EXPECT_TRUE(Committed().empty());
}

// The power fails at each operation in turn: the prefix has the older whole, or the newer, or neither and the older is
// withdrawn for good; at no instant does the index show bytes that are not its dataset's.
TEST_P(PublishTest, ACrashAnywhereLeavesTheOlderOrTheNewerOrNeither) {
  const User user = GetParam();
  int older = 0, newer = 0, neither = 0;
  bool done = false;
  for (std::uint64_t n = 1; !done; ++n) {
    for (const std::uint64_t seed : {n, n + 1000, n + 2000}) {
      SCOPED_TRACE(fmt::format("crash at operation {}, seed {}", n, seed));
      Publishing site;
      ASSERT_OK(site.Flush(OutputOf(site.run(), 1)));
      const Output output = OutputOf(site.run(), 2);
      site.pfs.SyncAll();
      site.pfs.CrashAt(n);
      done = site.Publish(user, output).ok() && !site.pfs.crashed();
      const bool answered = done;
      site.pfs.Restart(seed);
      site.ExpectWhole(site.CompleteInIndex());
      site.bypass.reset();
      site.Open();
      ASSERT_NE(site.prefix, nullptr);
      const Ids there = site.Committed();
      site.ExpectWhole(there);
      EXPECT_TRUE(!answered || there == Ids{2}) << "said to be there";
      ASSERT_LE(there.size(), 1u);
      (there.empty() ? neither : there == Ids{1} ? older : newer) += 1;
      if (there != Ids{1}) {
        ASSERT_OK_AND_ASSIGN(const PrefixContents contents, site.prefix->Contents());
        EXPECT_TRUE(contents.removed.contains(1)) << "it gave way by the rule";
      }
      site.Finish(user, output);
      const Ids after = site.Committed();
      site.ExpectWhole(after);
      if (user == User::kBypass) {
        EXPECT_EQ(after, there);
        EXPECT_TRUE(there == Ids{2} || !site.IsThere("ckpt.2"));
      } else {
        EXPECT_EQ(after, user == User::kAdopt && there != Ids{2} ? Ids{3} : Ids{2});
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(older, 30);
  EXPECT_GT(newer, 3);
  EXPECT_GT(neither, 3);
}

// --- One of them each ---

class ProtocolTest : public ::testing::Test, protected Publishing {};

TEST_F(ProtocolTest, ADirectoryInTheWayOfACheckpointFileIsRefused) {
  for (const User user : {User::kFlush, User::kScavenge}) {
    SCOPED_TRACE(NameOf(user));
    Publishing site;
    ASSERT_OK(MakeDirectories(site.pfs, site.prefix->FilePath("ckpt.3/Ckpt3-Rank1.fti")));
    EXPECT_STATUS(kFailedPrecondition, site.Publish(user, CheckpointOf(site.run(), 3)), "in the way: a directory");
    EXPECT_TRUE(site.Committed().empty());
  }
}

TEST_F(ProtocolTest, WhatGaveWayToAnEarlierTryIsRemovedByTheOneThatCommits) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kRename, .path_part = "out/2"});
  EXPECT_STATUS(kUnavailable, Flush(OutputOf(run(), 2)), "injected");
  EXPECT_TRUE(gave_way.contains(1));
  EXPECT_TRUE(Committed().empty());
  EXPECT_TRUE(IsThere("out/1"));
  ASSERT_OK(Flush(OutputOf(run(), 2)));
  EXPECT_FALSE(IsThere("out/1"));
  EXPECT_EQ(Committed(), Ids{2});
}

TEST_F(ProtocolTest, ABypassThatFailsAfterOthersGaveWayTakesAllAway) {
  ASSERT_OK(Flush(OutputOf(run(), 1)));
  pfs.FailOn({.op = FakeOp::kWrite, .path_part = "scr.dataset.2/rank2file", .times = UINT64_MAX});
  EXPECT_FALSE(BypassCache(OutputOf(run(), 2)).ok());
  pfs.ClearFaults();
  EXPECT_TRUE(IsThere("out/2"));
  EXPECT_EQ(bypass->TakeWithdrawn(), (std::vector<std::pair<DatasetId, DatasetId>>{{1, 2}}));
  ASSERT_OK(bypass->Remove(2));
  for (const char* name : {"out/a", "out/1", "out/2", "ckpt.2"}) EXPECT_FALSE(IsThere(name)) << name;
}

// The data of a BP5 directory's steps is durable before what shows them.
TEST_F(ProtocolTest, WhatShowsTheStepsOfADirectoryComesLast) {
  bool crashed = true;
  int shown = 0;
  for (std::uint64_t n = 1; crashed; ++n) {
    Publishing site;
    Output output = OutputOf(site.run(), 2, {"f.bp/md.idx", "f.bp/data.0"});
    site.pfs.SyncAll();
    site.pfs.CrashAt(n);
    site.BypassCache(output).IgnoreError();
    crashed = site.pfs.crashed();
    site.pfs.Restart(n);
    shown += site.IsThere("f.bp/md.idx") ? 1 : 0;
    EXPECT_TRUE(!site.IsThere("f.bp/md.idx") || site.IsThere("f.bp/data.0")) << n;
  }
  EXPECT_GT(shown, 3);
}

}  // namespace
}  // namespace cairn
