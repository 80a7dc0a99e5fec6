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
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::SampleExport;

constexpr char kPrefix[] = "/pfs/heat";
constexpr char kFti[] = "/fti";

// With its bytes; a view of it (ckpt.<id>.bp) is beside it.
bool IsDatasetFolder(const std::string& name) {
  return name.starts_with("ckpt.") && name.find(".bp") == std::string::npos;
}

// What is below `path`, with the bytes of the files.
std::map<std::string, std::string> TreeOf(Disk& disk, const std::string& path) {
  std::map<std::string, std::string> tree;
  const auto info = disk.Info(path);
  if (!info.ok()) return tree;
  if (!info->is_directory()) {
    tree[path] = testing::GetFile(disk, path);
    return tree;
  }
  tree[path] = "";
  const auto names = disk.List(path);
  EXPECT_OK(names);
  for (const std::string& name : *names) tree.merge(TreeOf(disk, path + "/" + name));
  return tree;
}

class AdoptTest : public ::testing::Test {
 protected:
  // Four nodes of one rank, in one group.
  void PutSample(fti::Level level, std::int32_t id = 5, ftiff::Letter letter = ftiff::Letter::kF,
                 const std::string& folder = kFti) {
    SampleExport sample({.ranks = 4, .node_size = 1, .group_size = 4, .heads = false}, level, letter, id);
    sample.what.folder = folder;
    ASSERT_OK(fti::Write(disk_, sample.what));
  }
  absl::StatusOr<fti::Execution> Find(std::vector<std::string> roots = {kFti}) {
    fti::Search search;
    search.roots = std::move(roots);
    search.config = search.roots[0] + "/config.fti";
    return fti::Find(disk_, search);
  }
  absl::StatusOr<Adopted> AdoptFrom(const fti::Execution& execution, std::optional<std::int32_t> id = std::nullopt) {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<Prefix> prefix, Prefix::Open(disk_, kPrefix));
    return AdoptCheckpoint(disk_, *prefix, execution,
                           {.checkpoint = id, .note = [this](const std::string& text) { notes_ += text + "\n"; }});
  }
  absl::StatusOr<Adopted> Adopt() {
    CAIRN_ASSIGN_OR_RETURN(const fti::Execution execution, Find());
    return AdoptFrom(execution);
  }
  std::map<DatasetId, CommittedDataset> Committed() {
    const auto prefix = Prefix::Open(disk_, kPrefix);
    EXPECT_OK(prefix);
    auto committed = (*prefix)->Committed();
    EXPECT_OK(committed);
    return *std::move(committed);
  }
  // Every file as its catalogue has it, and the bytes those of the sample.
  void ExpectWhole(DatasetId id, std::uint64_t step, std::uint32_t ranks = 4) {
    const auto prefix = Prefix::OpenReadOnly(disk_, kPrefix);
    ASSERT_OK(prefix);
    const auto committed = (*prefix)->Committed();
    ASSERT_OK(committed);
    ASSERT_TRUE(committed->contains(id));
    const scr::Descriptor& descriptor = committed->at(id).descriptor;
    EXPECT_EQ(descriptor.step, step);
    EXPECT_EQ(descriptor.launch, 0u);
    EXPECT_EQ(descriptor.ranks, ranks);
    EXPECT_TRUE(descriptor.checkpoint);
    EXPECT_TRUE(committed->at(id).current);
    const auto catalogues = (*prefix)->Catalogues(id);
    ASSERT_OK(catalogues);
    ASSERT_EQ(catalogues->size(), ranks);
    for (Rank rank = 0; rank < ranks; ++rank) ExpectRank(**prefix, (*catalogues)[rank], rank);
  }
  void ExpectRank(Prefix& prefix, const catalogue::Catalogue& catalogue, Rank rank) {
    ASSERT_EQ(catalogue.file_size(), 1);
    const catalogue::FileEntry& entry = catalogue.file(0);
    const std::string path = prefix.FilePath(entry.prefix_name());
    EXPECT_EQ(entry.verified_by(), catalogue::CHECKSUM);
    EXPECT_OK(VerifyFile(disk_, path, entry));
    const std::string bytes = testing::GetFile(disk_, path);
    const ftiff::ReadAt read = [&](std::uint64_t offset, std::span<std::byte> target) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), target.size(),
                  reinterpret_cast<char*>(target.data()));
      return absl::OkStatus();
    };
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata metadata, ftiff::DecodeMetadata(path, bytes.size(), read));
    EXPECT_EQ(metadata.letter, ftiff::Letter::kF);
    EXPECT_EQ(metadata.header.checkpoint_id, static_cast<std::int32_t>(catalogue.dataset()));
    ASSERT_OK_AND_ASSIGN(const ftiff::Verdict verdict, ftiff::VerifyData(path, metadata, read));
    EXPECT_TRUE(verdict.ok());
    const ftiff::Variables variables(metadata.layout);
    ASSERT_EQ(variables.sizes().size(), 2u);
    ASSERT_EQ(catalogue.variables_size(), 2);
    for (int i = 0; i < 2; ++i) {
      const local::Variable& variable = catalogue.variables(i);
      EXPECT_EQ(variable.type(), 0u);
      EXPECT_EQ(variable.count(), variable.bytes());
      std::vector<std::byte> back(variable.bytes());
      ASSERT_OK(variables.Read(path, variable.id(), 0, back, read));
      for (std::size_t at = 0; at < back.size(); ++at) {
        ASSERT_EQ(back[at], SampleExport::ByteOf(rank, variable.id(), at)) << rank << ", " << variable.id();
      }
    }
  }
  void LoseNode(int node) { ASSERT_OK(RemoveTree(disk_, fmt::format("{}/Local/node{}", kFti, node))); }

  FakeDisk disk_;
  std::string notes_;
};

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

// --- FTI's own files ---

struct FtiRun {
  const char* scenario;
  std::int32_t newest;
};

TEST_F(AdoptTest, FtisOwnExecutionsAreAdoptedFromEveryLevel) {
  for (const FtiRun& run : {FtiRun{"levels-n1g4-F", 4}, FtiRun{"levels-n1g4-A", 4}, FtiRun{"levels-n2g2-F", 4},
                            FtiRun{"levels-n4g1-F", 4}, FtiRun{"rs-odd-F", 1}, FtiRun{"rs-g3-E", 2},
                            FtiRun{"heads-F", 4}, FtiRun{"dcp-md5-F", 4}, FtiRun{"dcp-2rank-E", 3}}) {
    SCOPED_TRACE(run.scenario);
    const auto vectors = testing::LoadRun(run.scenario);
    if (!vectors) return;  // none here
    ASSERT_OK(RemoveTree(disk_, kFti));
    ASSERT_OK(RemoveTree(disk_, kPrefix));
    testing::PutRun(disk_, kFti, *vectors);
    testing::PutConfig(disk_, kFti, *vectors);
    testing::PutTopology(disk_, kFti, *vectors);
    const auto before = TreeOf(disk_, kFti);
    ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find());
    ASSERT_OK_AND_ASSIGN(const Adopted newest, AdoptFrom(execution));
    EXPECT_EQ(newest.checkpoint, run.newest);
    for (const fti::Checkpoint& checkpoint : execution.checkpoints) {
      ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution, checkpoint.id));
      EXPECT_EQ(adopted.checkpoint, checkpoint.id);
      ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Prefix> prefix, Prefix::OpenReadOnly(disk_, kPrefix));
      ASSERT_OK_AND_ASSIGN(const auto catalogues, prefix->Catalogues(adopted.dataset));
      for (const catalogue::Catalogue& catalogue : catalogues) {
        EXPECT_OK(VerifyFile(disk_, prefix->FilePath(catalogue.file(0).prefix_name()), catalogue.file(0)));
      }
    }
    EXPECT_EQ(TreeOf(disk_, kFti), before);
  }
}

// The content of an adopted file is that of FTI's: chunk hashes and container lists are the same, in order.
TEST_F(AdoptTest, ContainersAndHashesAreFtis) {
  const auto vectors = testing::LoadRun("levels-n2g2-F");
  if (!vectors) return;
  testing::PutRun(disk_, kFti, *vectors);
  testing::PutConfig(disk_, kFti, *vectors);
  testing::PutTopology(disk_, kFti, *vectors);
  ASSERT_OK_AND_ASSIGN(const fti::Execution execution, Find());
  ASSERT_OK_AND_ASSIGN(const Adopted adopted, AdoptFrom(execution));
  for (Rank rank = 0; rank < 4; ++rank) {
    const auto metadata = [this](const std::string& path) {
      const std::string bytes = testing::GetFile(disk_, path);
      return ftiff::DecodeMetadata(path, bytes.size(), [&](std::uint64_t offset, std::span<std::byte> target) {
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), target.size(),
                    reinterpret_cast<char*>(target.data()));
        return absl::OkStatus();
      });
    };
    const std::string theirs = testing::PlaceOf(kFti, vectors->Named(fmt::format("Ckpt4-Rank{}.fti", rank)));
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata fti, metadata(theirs));
    ASSERT_OK_AND_ASSIGN(const ftiff::FileMetadata ours, metadata(fmt::format("{}/ckpt.{}/Ckpt{}-Rank{}.fti", kPrefix,
                                                                              adopted.dataset, adopted.dataset, rank)));
    EXPECT_EQ(ours.layout.containers, fti.layout.containers);
    EXPECT_EQ(ours.layout.block_containers, fti.layout.block_containers);
    EXPECT_EQ(ours.chunk_hashes, fti.chunk_hashes);
    EXPECT_EQ(ours.checksum_hex, fti.checksum_hex);
  }
}

}  // namespace
}  // namespace cairn
