// FTI's checkpoints as datasets of a run: from every level, made good where FTI could, once only, whole or not at all.
#include "storage/job/adopt/adopt.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "storage/file/transfer/transfer.h"
#include "storage/format/ftiff/variables.h"
#include "storage/place/view/check.h"
#include "tests/storage/file/fti/fti_tree.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/storage/format/ftiff/sample_file.h"
#include "tests/storage/job/adopt/adopt_fixture.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::SampleExport;

// With its bytes; a view of it (ckpt.<id>.bp) is beside it.
bool IsDatasetFolder(const std::string& name) {
  return name.starts_with("ckpt.") && name.find(".bp") == std::string::npos;
}

// FTI 1.1, to which the dataset may be exported again, goes by that order.
TEST_F(AdoptTest, TheCatalogueHasVariablesInTheOrderThatTheFileSaysTheyWereRegisteredIn) {
  SampleExport sample({.ranks = 4, .node_size = 1, .group_size = 4, .heads = false}, fti::Level::kGlobal,
                      ftiff::Letter::kA, 5);
  sample.what.folder = kFti;
  for (fti::Export::Rank& rank : sample.what.ranks) rank.registered = {40, 1};
  ASSERT_OK(fti::Write(disk_, sample.what));
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(adopted.dataset));
  for (const catalogue::Catalogue& catalogue : catalogues) {
    ASSERT_EQ(catalogue.variables_size(), 2);
    EXPECT_EQ(catalogue.variables(0).id(), 40);
    EXPECT_EQ(catalogue.variables(1).id(), 1);
  }
}

TEST_F(AdoptTest, EveryLevelAndBothLayoutsBecomeTheSameDataset) {
  for (const ftiff::Letter letter : {ftiff::Letter::kF, ftiff::Letter::kA}) {
    for (const fti::Level level :
         {fti::Level::kLocal, fti::Level::kPartner, fti::Level::kEncoded, fti::Level::kGlobal}) {
      SCOPED_TRACE(fmt::format("layout {}, level {}", static_cast<char>(letter), static_cast<int>(level)));
      ASSERT_OK(RemoveTree(disk_, kFti));
      ASSERT_OK(RemoveTree(disk_, kPrefix));
      PutSample(level, 5, letter);
      const auto before = TreeOf(disk_, kFti);
      ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
      EXPECT_FALSE(adopted.before);
      EXPECT_EQ(adopted.level, level);
      EXPECT_EQ(adopted.checkpoint, 5);
      EXPECT_EQ(adopted.ranks, 4u);
      EXPECT_GT(adopted.bytes, 4000u);
      ExpectWhole(adopted.dataset, 5);
      EXPECT_EQ(TreeOf(disk_, kFti), before) << "FTI's folders were changed";
    }
  }
}

TEST_F(AdoptTest, LostNodesAreMadeGoodAsFarAsTheLevelAllows) {
  PutSample(fti::Level::kPartner);
  LoseNode(1);
  LoseNode(3);
  ASSERT_OK_AND_ASSIGN(const Adopted partner, Adopt());
  EXPECT_NE(notes_, "");
  ExpectWhole(partner.dataset, 5);

  ASSERT_OK(RemoveTree(disk_, kFti));
  ASSERT_OK(RemoveTree(disk_, kPrefix));
  PutSample(fti::Level::kEncoded);
  LoseNode(0);
  LoseNode(1);
  ASSERT_OK_AND_ASSIGN(const Adopted encoded, Adopt());
  EXPECT_EQ(encoded.rebuilt, 2u);
  ExpectWhole(encoded.dataset, 5);
  EXPECT_FALSE(disk_.Info(std::string(kPrefix) + "/.cairn/adopt.scratch").ok()) << "rebuilt files were left";
}

// Each of FTI's files has its own hashes, rebuilt ones too: with nothing of the code files left over it is still
// proven.
TEST_F(AdoptTest, AFlippedBitInWhatOthersAreRebuiltFromNeverMakesAWrongDataset) {
  int taken = 0, refused = 0;
  for (const fti::Level level : {fti::Level::kPartner, fti::Level::kEncoded}) {
    for (const ftiff::Letter letter : {ftiff::Letter::kF, ftiff::Letter::kA}) {
      ASSERT_OK(RemoveTree(disk_, kFti));
      PutSample(level, 5, letter);
      LoseNode(1);
      if (level == fti::Level::kEncoded) LoseNode(0);
      for (const auto& [path, bytes] : TreeOf(disk_, std::string(kFti) + "/Local")) {
        for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 7) {
          SCOPED_TRACE(fmt::format("{} at {}", path, at));
          ASSERT_OK(RemoveTree(disk_, kPrefix));
          disk_.FlipBit(path, at * 8 + 5);
          const auto adopted = Adopt();
          disk_.FlipBit(path, at * 8 + 5);
          (adopted.ok() ? taken : refused) += 1;
          EXPECT_TRUE(adopted.ok() || absl::IsDataLoss(adopted.status())) << adopted.status();
          if (adopted.ok()) ExpectWhole(adopted->dataset, 5);
        }
      }
    }
  }
  EXPECT_TRUE(taken > 0 && refused > 0) << taken << ", " << refused;
}

TEST_F(AdoptTest, OneNodeTooManyIsDataLossAndLeavesNothing) {
  PutSample(fti::Level::kEncoded);
  for (const int node : {0, 1, 2}) LoseNode(node);
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find());
  EXPECT_STATUS(absl::StatusCode::kDataLoss, AdoptFrom(execution), "checkpoint 5 (level 3) is not whole");
  EXPECT_TRUE(Committed().empty());
  EXPECT_FALSE(disk_.Info(std::string(kPrefix) + "/ckpt.1").ok());
}

TEST_F(AdoptTest, TheNextOlderOneIsTakenIfTheNewestIsNotWholeAndTheReasonIsTold) {
  PutSample(fti::Level::kGlobal, 3, ftiff::Letter::kF, "/fti/old");
  PutSample(fti::Level::kLocal, 7, ftiff::Letter::kF, "/fti/new");
  ASSERT_OK(disk_.Remove("/fti/new/Local/node2/cairn/l1/Ckpt7-Rank2.fti"));
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find({"/fti/new", "/fti/old"}));
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution));
  EXPECT_EQ(adopted.checkpoint, 3);
  EXPECT_NE(notes_.find("checkpoint 7 (level 1) is not whole"), std::string::npos) << notes_;
  ExpectWhole(adopted.dataset, 3);
}

TEST_F(AdoptTest, OneCheckpointMayBeNamed) {
  PutSample(fti::Level::kGlobal, 3, ftiff::Letter::kF, "/fti/old");
  PutSample(fti::Level::kLocal, 7, ftiff::Letter::kF, "/fti/new");
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find({"/fti/new", "/fti/old"}));
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution, 3));
  EXPECT_EQ(adopted.checkpoint, 3);
  ExpectWhole(adopted.dataset, 3);
  EXPECT_STATUS(absl::StatusCode::kNotFound, AdoptFrom(execution, 4), "no checkpoint 4");
}

TEST_F(AdoptTest, ASecondTimeSaysSoWhereverTheFilesAreNow) {
  PutSample(fti::Level::kPartner);
  ASSERT_OK_AND_ASSIGN(const Adopted first, Adopt());
  const auto before = TreeOf(disk_, std::string(kPrefix) + "/.scr");
  ASSERT_OK_AND_ASSIGN(const Adopted second, Adopt());
  EXPECT_TRUE(second.before);
  EXPECT_EQ(second.dataset, first.dataset);
  ASSERT_OK(RemoveTree(disk_, kFti));
  PutSample(fti::Level::kGlobal);  // the same bytes at another level
  ASSERT_OK_AND_ASSIGN(const Adopted third, Adopt());
  EXPECT_TRUE(third.before);
  EXPECT_EQ(third.dataset, first.dataset);
  EXPECT_EQ(TreeOf(disk_, std::string(kPrefix) + "/.scr"), before);
  EXPECT_EQ(Committed().size(), 1u);
}

TEST_F(AdoptTest, WhatWasRemovedOrMarkedFailedIsTakenAgainUnderANewNumber) {
  PutSample(fti::Level::kGlobal);
  ASSERT_OK_AND_ASSIGN(const Adopted first, Adopt());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(first.dataset));
  ASSERT_OK(prefix->Remove(first.dataset, catalogues));
  ASSERT_OK_AND_ASSIGN(const Adopted second, Adopt());
  EXPECT_FALSE(second.before);
  EXPECT_GT(second.dataset, first.dataset);
  ExpectWhole(second.dataset, 5);
  ASSERT_OK(prefix->MarkFailed(second.dataset));
  ASSERT_OK_AND_ASSIGN(const Adopted third, Adopt());
  EXPECT_GT(third.dataset, second.dataset);
  ExpectWhole(third.dataset, 5);
}

TEST_F(AdoptTest, ItsNumberIsAboveAllThatTheRunKnows) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const Prefix::IdBlock ids, prefix->ReserveIds(1000));
  PutSample(fti::Level::kGlobal);
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
  EXPECT_GE(adopted.dataset, ids.first + ids.count);
}

TEST_F(AdoptTest, AFullDiskSaysSoAndLeavesNothing) {
  PutSample(fti::Level::kGlobal);
  disk_.FailOn({.op = FakeOp::kWrite,
                .path_part = "/ckpt.1/Ckpt1-Rank2",
                .status = absl::ResourceExhaustedError("injected: no room")});
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Adopt(), "no room");
  EXPECT_TRUE(Committed().empty());
  EXPECT_FALSE(disk_.Info(std::string(kPrefix) + "/ckpt.1").ok());
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
  ExpectWhole(adopted.dataset, 5);
}

TEST_F(AdoptTest, WithoutRoomForAllOfItNothingIsBegun) {
  PutSample(fti::Level::kGlobal);
  ASSERT_OK(Prefix::Open(disk_, kPrefix));
  disk_.SetCapacity(1 << 20);
  ASSERT_OK_AND_ASSIGN(const std::uint64_t free_bytes, disk_.FreeBytes(kPrefix));
  disk_.SetCapacity((1 << 20) - free_bytes + 3000);
  EXPECT_STATUS(absl::StatusCode::kResourceExhausted, Adopt(), "bytes, 3000 are free");
  for (const auto& [path, bytes] : TreeOf(disk_, kPrefix)) {
    EXPECT_EQ(path.find("ckpt."), std::string::npos) << path;
    EXPECT_EQ(path.find("adopted."), std::string::npos) << path;
  }
  disk_.SetCapacity(UINT64_MAX);
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
  ExpectWhole(adopted.dataset, 5);
}

// Layout B may end before its last container does, and that may claim any size.
TEST_F(AdoptTest, WhatAFileClaimsBeyondItsEndIsNotWritten) {
  PutSample(fti::Level::kGlobal);
  for (int rank = 0; rank < 4; ++rank) {
    testing::PutFile(disk_, fmt::format("{}/Global/cairn/l4/Ckpt5-Rank{}.fti", kFti, rank),
                     ftiff::testing::FileOfBThatClaims(std::uint64_t{1} << 40));
  }
  disk_.SetCapacity(8 << 20);
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
  EXPECT_LT(adopted.bytes, 4000u);
  const std::string path = fmt::format("{}/ckpt.{}/Ckpt{}-Rank2.fti", kPrefix, adopted.dataset, adopted.dataset);
  EXPECT_EQ(testing::GetFile(disk_, path).substr(0, 5), "hello");
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk_, kPrefix));
  ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(adopted.dataset));
  EXPECT_OK(VerifyFile(disk_, path, catalogues[2].file(0)));
  EXPECT_EQ(catalogues[2].variables(0).bytes(), 5u);
}

TEST_F(AdoptTest, WhatWasAdoptedIsShownAsBp5WhereverItsBytesLie) {
  for (const ftiff::Letter letter : {ftiff::Letter::kA, ftiff::Letter::kF}) {
    const std::string folder = letter == ftiff::Letter::kA ? "/fti/a" : "/fti/f";
    PutSample(fti::Level::kGlobal, letter == ftiff::Letter::kA ? 3 : 7, letter, folder);
    ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find({folder}));
    ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution, letter == ftiff::Letter::kA ? 3 : 7));
    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
    ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(adopted.dataset));
    EXPECT_OK(view::CheckFolder(disk_, kPrefix, catalogues));
  }
}

TEST_F(AdoptTest, LeftoversOfAnyCheckpointAreRemovedByTheNextAdopt) {
  PutSample(fti::Level::kGlobal, 3, ftiff::Letter::kF, "/fti/old");
  PutSample(fti::Level::kGlobal, 7, ftiff::Letter::kF, "/fti/new");
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find({"/fti/new", "/fti/old"}));
  ASSERT_OK_AND_ASSIGN(const Adopted whole, AdoptFrom(execution, 3));
  disk_.FailOn({.op = FakeOp::kSyncDirectory, .path_part = "/ckpt."});
  disk_.FailOn({.op = FakeOp::kRemove, .path_part = "/ckpt.", .times = 1000});
  EXPECT_FALSE(AdoptFrom(execution, 7).ok());
  disk_.ClearFaults();
  const auto folders = [this] {
    std::vector<std::string> found = *disk_.List(kPrefix);
    std::erase_if(found, [](const std::string& name) { return !IsDatasetFolder(name); });
    return found;
  };
  ASSERT_EQ(folders().size(), 2u) << "nothing was left to be removed";
  ASSERT_OK_AND_ASSIGN(const Adopted again, AdoptFrom(execution, 3));
  EXPECT_TRUE(again.before);
  EXPECT_EQ(again.dataset, whole.dataset);
  EXPECT_EQ(folders(), std::vector<std::string>{fmt::format("ckpt.{}", whole.dataset)});
  ASSERT_OK_AND_ASSIGN(const auto records, disk_.List(std::string(kPrefix) + "/.cairn"));
  const auto is_claim = [](const std::string& name) { return name.starts_with("adopted."); };
  EXPECT_EQ(std::count_if(records.begin(), records.end(), is_claim), 1);
  EXPECT_EQ(Committed().size(), 1u);
}

TEST_F(AdoptTest, WhatIsGoneBeforeTheCommitIsNotCommitted) {
  PutSample(fti::Level::kGlobal);
  bool done = false;
  disk_.SetHook([&](FakeOp op, const std::string& path) {
    if (op != FakeOp::kSyncDirectory || path.find("/ckpt.") == std::string::npos || std::exchange(done, true)) return;
    ASSERT_OK(disk_.Remove(path + "/" + BaseOf(path).replace(0, 5, "Ckpt") + "-Rank1.fti"));
  });
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, Adopt(), "Rank1.fti: 0 of the 1");
  EXPECT_TRUE(done);
  EXPECT_TRUE(Committed().empty());
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, Adopt());
  ExpectWhole(adopted.dataset, 5);
}

TEST_F(AdoptTest, ADiskThatDoesNotAnswerIsNoReasonForAnOlderOne) {
  PutSample(fti::Level::kGlobal, 3, ftiff::Letter::kF, "/fti/old");
  PutSample(fti::Level::kLocal, 7, ftiff::Letter::kF, "/fti/new");
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find({"/fti/new", "/fti/old"}));
  disk_.FailOn({.op = FakeOp::kSync, .path_part = "Ckpt1-Rank0"});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, AdoptFrom(execution), "injected");
  EXPECT_TRUE(Committed().empty());
}

// The power fails at each operation in turn: afterwards the prefix is without the dataset or has it whole, and the next
// adopt ends with it there once.
TEST_F(AdoptTest, APowerFailureAtAnyInstantLeavesNoneOrAll) {
  bool crashed = true;
  int none = 0, whole = 0;
  for (std::uint64_t n = 1; crashed; ++n) {
    SCOPED_TRACE(fmt::format("operation {}", n));
    FakeDisk fresh;
    SampleExport sample({.ranks = 2, .node_size = 1, .group_size = 2, .heads = false}, fti::Level::kPartner,
                        ftiff::Letter::kF, 5);
    sample.what.folder = kFti;
    ASSERT_OK(fti::Write(fresh, sample.what));
    fresh.SyncAll();
    fti::Search search;
    search.roots = {kFti};
    search.config = std::string(kFti) + "/config.fti";
    ASSERT_OK_AND_ASSIGN(const fti::Execution execution, fti::Find(fresh, search));
    const auto adopt = [&]() -> absl::StatusOr<Adopted> {
      CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::Open(fresh, kPrefix));
      return AdoptCheckpoint(fresh, *prefix, execution, {.checkpoint = {}, .note = [](const std::string&) {}});
    };
    fresh.CrashAt(n);
    const bool answered = adopt().ok();
    crashed = fresh.crashed();
    fresh.Restart(/*seed=*/n);

    ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::Open(fresh, kPrefix));
    ASSERT_OK_AND_ASSIGN(const auto committed, prefix->Committed());
    ASSERT_LE(committed.size(), 1u);
    EXPECT_TRUE(!answered || committed.size() == 1) << "said to be there";
    for (const auto& [id, dataset] : committed) {
      ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(id));
      for (const catalogue::Catalogue& catalogue : catalogues) {
        EXPECT_OK(VerifyFile(fresh, prefix->FilePath(catalogue.file(0).prefix_name()), catalogue.file(0)));
      }
    }
    (committed.empty() ? none : whole) += 1;

    ASSERT_OK_AND_ASSIGN(const Adopted again, adopt());
    EXPECT_EQ(again.before, !committed.empty());
    ASSERT_OK_AND_ASSIGN(const auto after, prefix->Committed());
    ASSERT_EQ(after.size(), 1u);
    EXPECT_TRUE(after.contains(again.dataset));
    ASSERT_OK_AND_ASSIGN(const auto names, fresh.List(kPrefix));
    EXPECT_EQ(std::ranges::count_if(names, IsDatasetFolder), 1) << "an unfinished one was left";
  }
  EXPECT_GT(none, 10);
  EXPECT_GT(whole, 1);
}

}  // namespace
}  // namespace cairn
