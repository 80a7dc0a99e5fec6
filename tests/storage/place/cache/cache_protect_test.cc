// What ranks keep for those of other nodes: put in force, replaced, found by a start, or found to be damaged; and
// datasets that get more ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/storage/place/cache/cache_folder_fixture.h"
#include "tests/storage/place/cache/protect_fixture.h"

namespace cairn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CacheProtectTest : public CacheFolderTest {
 protected:
  void SetUp() override {
    folder_ = Open();
    ASSERT_OK(WriteProtected(disk_, *folder_, {0, 2}));
    dataset_ = folder_->DatasetPath(kProtected);
    records_ = RecordsFolder(dataset_) + "/";
  }

  absl::StatusOr<kept::Record> Write(const kept::Set& set) {
    return WriteKept(disk_, dataset_, ProtectedDescriptor({0, 2}), set);
  }
  kept::Record Protect(const kept::Set& set) {
    const auto record = Write(set);
    EXPECT_OK(record.status());
    if (!record.ok()) return {};
    EXPECT_OK(folder_->Protect(ProtectedDescriptor({0, 2}), *record));
    return *record;
  }
  // What a start finds; the dataset is whole.
  CachedDataset Load(CacheLoad* load) {
    const auto folder = Open();
    auto loaded = folder->Load();
    EXPECT_OK(loaded.status());
    if (loaded.ok()) *load = *std::move(loaded);
    EXPECT_EQ(WholeIds(*load), Ids({kProtected}));
    return load->whole[kProtected];
  }
  void ExpectLoaded(const std::set<Rank>& ranks, const kept::Record& record) {
    CacheLoad load;
    const CachedDataset dataset = Load(&load);
    EXPECT_THAT(load.warnings, IsEmpty());
    EXPECT_EQ(RanksOf(dataset), ranks);
    EXPECT_EQ(dataset.redundancy.files_size(), record.files_size());
    for (int i = 0; i < record.files_size(); ++i) {
      EXPECT_EQ(dataset.redundancy.files(i).SerializeAsString(), record.files(i).SerializeAsString());
    }
    ExpectRecordsAgree(disk_, dataset_, ranks, record);
  }
  // Only of rank 0, and a start that finds this once more finds nothing to say.
  void ExpectOnlyRank0(kept::Record record, std::string_view warned) {
    disk_.SyncAll();
    CacheLoad load;
    Load(&load);
    EXPECT_TRUE(Warned(load, warned)) << warned;
    EXPECT_TRUE(Warned(load, "rank 2 protects no other any more"));
    EXPECT_EQ(load.warnings.size(), 1u) << ::testing::PrintToString(load.warnings);
    record.mutable_files()->DeleteSubrange(2, 2);
    disk_.Restart(1);
    ExpectLoaded({0, 2}, record);
  }

  std::unique_ptr<CacheFolder> folder_;
  std::string dataset_, records_;
};

TEST_F(CacheProtectTest, ItIsInForceAndFoundByAStart) {
  for (const kept::Scheme scheme : {kept::PARTNER, kept::XOR, kept::RS}) {
    const kept::Record record = Protect(TestSet(scheme, {0, 1, 2, 3}));
    ASSERT_EQ(record.files_size(), 4);
    ExpectRecordsAgree(disk_, dataset_, {0, 2}, record);
    disk_.Restart(scheme);
    ExpectLoaded({0, 2}, record);
  }
}

TEST_F(CacheProtectTest, RanksThatItDoesNotNameAreSingle) {
  Protect(TestSet(kept::XOR, {0, 1, 2}));
  const kept::Record record = Protect(TestSet(kept::XOR, {1, 2}));
  ASSERT_EQ(record.files_size(), 2);
  ExpectRecordsAgree(disk_, dataset_, {0, 2}, record);
  ExpectLoaded({0, 2}, record);
  const kept::Record none = EmptyRecord(ProtectedDescriptor({0, 2}));
  ASSERT_OK(folder_->Protect(ProtectedDescriptor({0, 2}), none));
  ExpectRecordsAgree(disk_, dataset_, {0, 2}, none);
  ExpectLoaded({0, 2}, none);
}

// SCR's records are about the newest one.
TEST_F(CacheProtectTest, WhatIsKeptForAnOlderSetStaysBesideTheNewOne) {
  const kept::Record older = Protect(TestSet(kept::XOR, {0, 1, 2}));
  ASSERT_OK_AND_ASSIGN(const kept::Record made, Write(TestSet(kept::RS, {0, 1, 2})));
  const kept::Record both = WithOlder(made, older);
  ASSERT_EQ(both.files_size(), 8);
  ASSERT_OK(folder_->Protect(ProtectedDescriptor({0, 2}), both));
  ExpectKept(disk_, dataset_, both);
  ExpectRecordsAgree(disk_, dataset_, {0, 2}, both);
  disk_.Restart(1);
  ExpectLoaded({0, 2}, both);
  // A file of the new one is lost: the older one counts, and SCR hears of it.
  ASSERT_OK(disk_.Remove(records_ + both.files(4).file().name()));
  disk_.SyncAll();
  CacheLoad load;
  EXPECT_EQ(Load(&load).redundancy.files_size(), 6);
  EXPECT_TRUE(Warned(load, "rank 2 protects others by another set only"));
  EXPECT_EQ(load.warnings.size(), 1u);
  kept::Record rest = both;
  rest.mutable_files()->DeleteSubrange(4, 2);
  ExpectLoaded({0, 2}, rest);
}

// A name that the newest set does not use for itself: SCR takes the rank for one that nobody protects.
TEST_F(CacheProtectTest, AnOlderNameIsKeptAndOthersLikeItGo) {
  kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  for (const int file : {2, 3}) {
    const std::string name = record.files(file).file().name();
    ASSERT_OK(disk_.Rename(records_ + name, records_ + OlderName(name, 2)));
    ASSERT_OK(WriteTestFile(disk_, records_ + OlderName(name, 1), "of a call that was cut short"));
    record.mutable_files(file)->mutable_file()->set_name(OlderName(name, 2));
  }
  ASSERT_OK(WriteRedundancyRecord(disk_, dataset_, record));
  disk_.SyncAll();
  CacheLoad load;
  EXPECT_EQ(Load(&load).redundancy.files_size(), 4);
  EXPECT_THAT(load.warnings, IsEmpty());
  ExpectKept(disk_, dataset_, record);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, disk_.List(RecordsFolder(dataset_)));
  EXPECT_EQ(std::ranges::count_if(names, IsOlderName), 2);
  EXPECT_EQ(std::ranges::count(names, "reddesc.er.2.single.grp_3_of_4.mem_1_of_1.redset"), 1);
}

TEST_F(CacheProtectTest, WhatIsNotThereIsRefusedAndNothingChanges) {
  const kept::Record before = Protect(TestSet(kept::XOR, {0, 1, 2}));
  ASSERT_OK_AND_ASSIGN(const kept::Record sound, Write(TestSet(kept::RS, {0, 1, 2})));
  const scr::Descriptor descriptor = ProtectedDescriptor({0, 2});
  kept::Record record = sound;
  record.mutable_files(3)->mutable_file()->set_bytes(701);
  EXPECT_STATUS(kFailedPrecondition, folder_->Protect(descriptor, record), "700 bytes instead of 701");
  record = sound;
  record.mutable_files()->RemoveLast();
  EXPECT_STATUS(kInvalidArgument, folder_->Protect(descriptor, record), "rank 2 has data or a filemap, but not both");
  record = sound;
  record.set_step(1);
  EXPECT_STATUS(kInvalidArgument, folder_->Protect(descriptor, record), "step");
  record = sound;
  ASSERT_OK(disk_.Remove(records_ + record.files(1).file().name()));
  EXPECT_STATUS(kFailedPrecondition, folder_->Protect(descriptor, record), "missing");
  EXPECT_STATUS(kFailedPrecondition, folder_->Protect(TestDescriptor(4, 4), record), "no dataset 4");
  scr::Descriptor other = descriptor;
  other.launch = 2;
  EXPECT_STATUS(kFailedPrecondition, folder_->Protect(other, record), "another dataset has the number");
  ExpectLoaded({0, 2}, before);
}

TEST_F(CacheProtectTest, ALostOrShortFileEndsThatRanksProtectionOnly) {
  for (const int file : {2, 3}) {
    for (const bool missing : {true, false}) {
      SCOPED_TRACE(fmt::format("file {}, missing {}", file, missing));
      const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
      const std::string path = records_ + record.files(file).file().name();
      if (missing) {
        ASSERT_OK(disk_.Remove(path));
      } else {
        ASSERT_OK(WriteTestFile(disk_, path, "short"));
      }
      ExpectOnlyRank0(record, path);
    }
  }
}

TEST_F(CacheProtectTest, ADamagedRecordEndsAllOfIt) {
  const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  kept::Record other = record;
  other.set_dataset(4);
  const std::vector<std::function<void()>> damages = {
      [&] { disk_.FlipBit(records_ + "redundancy.cairn", 8 * 40); },
      [&] { ASSERT_OK(WriteTestFile(disk_, records_ + "redundancy.cairn", "")); },
      [&] { ASSERT_OK(WriteRedundancyRecord(disk_, dataset_, other)); },
  };
  for (const auto& damage : damages) {
    Protect(TestSet(kept::XOR, {0, 1, 2}));
    damage();
    disk_.SyncAll();
    CacheLoad load;
    EXPECT_EQ(Load(&load).redundancy.files_size(), 0);
    EXPECT_TRUE(Warned(load, "redundancy.cairn"));
    EXPECT_EQ(load.warnings.size(), 1u);
    ExpectLoaded({0, 2}, kept::Record());
  }
  // It is gone altogether: nobody knows what there was.
  Protect(TestSet(kept::XOR, {0, 1, 2}));
  ASSERT_OK(disk_.Remove(records_ + "redundancy.cairn"));
  ExpectLoaded({0, 2}, kept::Record());
}

// Then nobody knows, and nothing is touched.
TEST_F(CacheProtectTest, ARecordThatCannotBeReadNowIsLeftAlone) {
  const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  disk_.FailOn({.op = FakeOp::kOpen, .path_part = "redundancy.cairn", .times = 1000});
  CacheLoad load;
  EXPECT_EQ(Load(&load).redundancy.files_size(), 0);
  EXPECT_TRUE(Warned(load, "injected"));
  disk_.ClearFaults();
  ExpectLoaded({0, 2}, record);
}

TEST_F(CacheProtectTest, DamagedRecordsOfScrsAreMadeAnewAndTheRecordHolds) {
  const kept::Record record = Protect(TestSet(kept::RS, {0, 1, 2}));
  for (const char* name : {"reddesc.er.0.redset", "reddescmap.er.2.redset", "filemap_2", "reddesc.er.shuffile",
                           "reddescmap.er.shuffile", "reddesc.er.er"}) {
    for (const bool missing : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, missing {}", name, missing));
      if (missing) {
        ASSERT_OK(disk_.Remove(records_ + name));
      } else {
        disk_.FlipBit(records_ + name, 8 * 25 + 3);
      }
      disk_.SyncAll();
      CacheLoad load;
      Load(&load);
      EXPECT_TRUE(Warned(load, name));
      disk_.Restart(1);
      ExpectLoaded({0, 2}, record);
    }
  }
}

TEST_F(CacheProtectTest, ItIsFoundWithoutTheIndex) {
  const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  ASSERT_OK(disk_.Remove(folder_->path() + "/cindex.scrinfo"));
  disk_.SyncAll();
  CacheLoad load;
  EXPECT_EQ(Load(&load).redundancy.files_size(), 4);
  ExpectLoaded({0, 2}, record);
}

TEST_F(CacheProtectTest, MoreRanksAreBelievedWhenTheyAreAllThere) {
  const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2})));
  EXPECT_STATUS(kFailedPrecondition, folder_->Reopen(ProtectedDescriptor({0, 2})), "is open");
  EXPECT_STATUS(kFailedPrecondition, folder_->Protect(ProtectedDescriptor({0, 2}), record), "is open");
  EXPECT_STATUS(kAlreadyExists, CommitProtected(disk_, *folder_, 2), "rank 2 was committed before");
  ASSERT_OK(CommitProtected(disk_, *folder_, 3));
  EXPECT_STATUS(kFailedPrecondition, folder_->Complete(ProtectedDescriptor({0, 1, 2, 3})), "3 of 4");
  EXPECT_STATUS(kFailedPrecondition, folder_->Complete(ProtectedDescriptor({0, 2})), "3 of 2");
  ASSERT_OK(folder_->Complete(ProtectedDescriptor({0, 2, 3})));
  disk_.Restart(1);
  ExpectLoaded({0, 2, 3}, record);
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2, 3})));
  ASSERT_OK(CommitProtected(disk_, *folder_, 1));
  ASSERT_OK(folder_->Complete(TestDescriptor(kProtected, kProtectedRanks)));
  ExpectLoaded({0, 1, 2, 3}, record);
}

// The others stay, and so does what they keep.
TEST_F(CacheProtectTest, ARankGoesAsideAndComesBack) {
  const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  kept::Record rest = record;
  rest.mutable_files()->DeleteSubrange(2, 2);
  disk_.FlipBit(dataset_ + "/Ckpt3-Rank2.fti", 8 * 100);
  ASSERT_OK(folder_->SetRankAside(kProtected, 2));
  disk_.Restart(1);
  const std::string aside = folder_->path() + "/damaged.3.1";
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> moved, disk_.List(aside));
  EXPECT_THAT(moved, ElementsAre("Ckpt3-Rank2.fti", "rank_2.cat"));
  CacheLoad load;
  EXPECT_EQ(RanksOf(Load(&load)), std::set<Rank>({0}));
  EXPECT_TRUE(Warned(load, "damaged.3.1: a damaged copy of dataset 3 is kept here"));
  EXPECT_EQ(load.warnings.size(), 1u);
  ASSERT_EQ(load.asides.size(), 1u);
  EXPECT_EQ(load.asides[0].dataset, kProtected);
  ASSERT_OK(RemoveTree(disk_, aside));
  ExpectKept(disk_, dataset_, rest);
  ExpectLoaded({0}, rest);
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0})));
  ASSERT_OK(CommitProtected(disk_, *folder_, 2));
  ASSERT_OK(folder_->Complete(ProtectedDescriptor({0, 2})));
  ExpectLoaded({0, 2}, rest);
}

TEST_F(CacheProtectTest, ARankWhoseRecordsAreGoneGoesAsideToo) {
  for (const char* name : {"rank_2.cat", "Ckpt3-Rank2.fti", ".scr/redundancy.cairn"}) {
    SCOPED_TRACE(name);
    Protect(TestSet(kept::XOR, {0, 1, 2}));
    ASSERT_OK(disk_.Remove(dataset_ + "/" + name));
    ASSERT_OK(folder_->SetRankAside(kProtected, 2));
    disk_.Restart(1);
    CacheLoad load;
    EXPECT_EQ(RanksOf(Load(&load)), std::set<Rank>({0}));
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> names, disk_.List(dataset_));
    EXPECT_THAT(names, ElementsAre(".scr", "Ckpt3-Rank0.fti", "rank_0.cat"));
    ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0})));
    ASSERT_OK(CommitProtected(disk_, *folder_, 2));
    ASSERT_OK(folder_->Complete(ProtectedDescriptor({0, 2})));
  }
}

TEST_F(CacheProtectTest, WhatIsNotThereOrAloneDoesNotGoAside) {
  Protect(TestSet(kept::XOR, {0, 1, 2}));
  EXPECT_STATUS(kFailedPrecondition, folder_->SetRankAside(kProtected, 1), "has rank 1 here alone, or not at all");
  EXPECT_STATUS(kFailedPrecondition, folder_->SetRankAside(4, 0), "no dataset 4");
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2})));
  EXPECT_STATUS(kFailedPrecondition, folder_->SetRankAside(kProtected, 2), "is open");
  folder_->EndReopened(kProtected);
  ASSERT_OK(folder_->SetRankAside(kProtected, 2));
  EXPECT_STATUS(kFailedPrecondition, folder_->SetRankAside(kProtected, 0), "alone");
  EXPECT_STATUS(kFailedPrecondition, folder_->SetRankAside(kProtected, 2), "not at all");
}

TEST_F(CacheProtectTest, WhatWasReopenedAndNotCompletedIsAsItWas) {
  const kept::Record record = Protect(TestSet(kept::XOR, {0, 1, 2}));
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2})));
  ASSERT_OK(CommitProtected(disk_, *folder_, 3));
  disk_.Restart(1);
  ExpectLoaded({0, 2}, record);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> left, disk_.List(dataset_));
  EXPECT_THAT(left, ElementsAre(".scr", "Ckpt3-Rank0.fti", "Ckpt3-Rank2.fti", "rank_0.cat", "rank_2.cat"));
  // So it is when it is ended.
  folder_->EndReopened(kProtected);
  const catalogue::Catalogue empty = EmptyCatalogue(TestRun(), kProtected, 3, kProtectedRanks);
  EXPECT_STATUS(kFailedPrecondition, folder_->CommitRank(empty, ""), "not open");
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2})));
  ASSERT_OK(CommitProtected(disk_, *folder_, 3));
  folder_->EndReopened(kProtected);
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> ended, disk_.List(dataset_));
  EXPECT_THAT(ended, ElementsAre(".scr", "Ckpt3-Rank0.fti", "Ckpt3-Rank2.fti", "rank_0.cat", "rank_2.cat"));
  EXPECT_STATUS(kFailedPrecondition, folder_->Complete(ProtectedDescriptor({0, 2, 3})), "not open");
  ExpectLoaded({0, 2}, record);
  ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2}))) << "again";
  ASSERT_OK(CommitProtected(disk_, *folder_, 3));
  ASSERT_OK(folder_->Complete(ProtectedDescriptor({0, 2, 3})));
  ExpectLoaded({0, 2, 3}, record);
}

TEST_F(CacheProtectTest, OnlyWhatIsWholeHereIsReopened) {
  EXPECT_STATUS(kFailedPrecondition, folder_->Reopen(TestDescriptor(4, 4)), "no dataset 4");
  ASSERT_OK(folder_->Begin(TestDescriptor(4, 4)));
  EXPECT_STATUS(kFailedPrecondition, folder_->Reopen(TestDescriptor(4, 4)), "is open");
  folder_->EndReopened(4);  // it was not reopened
  EXPECT_OK(folder_->CommitRank(EmptyCatalogue(TestRun(), 4, 0, 4), ""));
}

// What was given up, or found damaged, does not become whole again by what had been reopened before.
TEST_F(CacheProtectTest, WhatIsGivenUpMeanwhileIsNotCompleted) {
  const std::vector<std::function<absl::Status()>> ends = {
      [&] { return folder_->SetAside(kProtected, "Ckpt3-Rank0.fti", "offset 0"); },
      [&] { return folder_->Retire(kProtected); },
      [&] { return folder_->SetDatasetAside(kProtected, CacheFolder::Why::kDamaged); },
      [&] { return folder_->Remove(kProtected); },
  };
  for (const auto& end : ends) {
    ASSERT_OK(folder_->Reopen(ProtectedDescriptor({0, 2})));
    ASSERT_OK(CommitProtected(disk_, *folder_, 3));
    ASSERT_OK(end());
    EXPECT_STATUS(kFailedPrecondition, folder_->Complete(ProtectedDescriptor({0, 2, 3})), "not open");
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
    EXPECT_THAT(load.whole, IsEmpty());
    folder_ = Open();
    ASSERT_OK(folder_->Remove(kProtected));
    ASSERT_OK(WriteProtected(disk_, *folder_, {0, 2}));
  }
}

}  // namespace
}  // namespace cairn
