// Records that are lost or damaged, of datasets that are whole: they are made anew, and SCR finds what it needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/records.h"
#include "storage/place/cache/cache_folder.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

constexpr DatasetId kId = 3;

class CacheRepairTest : public CacheFolderTest {
 protected:
  void SetUp() override {
    folder_ = Open();
    ASSERT_OK(WriteDataset(*folder_, kId));
    dataset_ = folder_->DatasetPath(kId);
    records_ = dataset_ + "/.scr/";
    before_ = Records();
  }

  std::string IndexPath() const { return folder_->path() + "/cindex.scrinfo"; }

  // All that SCR reads, by path, without what tells of the making: times.
  std::map<std::string, std::string> Records() {
    std::map<std::string, std::string> records;
    const auto names = disk_.List(dataset_ + "/.scr");
    EXPECT_OK(names.status());
    for (const std::string& name : *names) {
      if (name != "given_up.cairn") records[name] = WithoutTimes(TreeAt(records_ + name));
    }
    records["cindex.scrinfo"] = WithoutTimes(TreeAt(IndexPath()));
    return records;
  }
  static std::string WithoutTimes(kvtree::Tree tree) {
    Strip(tree);
    tree.Sort();
    return kvtree::Encode(tree);
  }
  static void Strip(kvtree::Tree& tree) {
    std::vector<std::string> keys;
    for (const auto& [key, child] : tree.elements()) keys.push_back(key);
    for (const std::string& key : keys) {
      if (key.ends_with("TIME_SECS") || key.ends_with("TIME_NSECS")) {
        tree.Erase(key);
      } else {
        Strip(*tree.Find(key));
      }
    }
  }

  enum class Damage { kMissing, kFlipped, kCut, kEmpty };
  static constexpr Damage kDamages[] = {Damage::kMissing, Damage::kFlipped, Damage::kCut, Damage::kEmpty};
  void Do(Damage damage, const std::string& path) {
    if (damage == Damage::kMissing) {
      ASSERT_OK(disk_.Remove(path));
    } else if (damage == Damage::kFlipped) {
      disk_.FlipBit(path, 8 * 25 + 3);
    } else {
      ASSERT_OK_AND_ASSIGN(auto file, disk_.Open(path, {.writable = true}));
      ASSERT_OK(file->Truncate(damage == Damage::kCut ? 25 : 0));
    }
    disk_.SyncAll();
  }

  // The dataset is listed, its records are as they were, and a second start finds nothing to do.
  void ExpectMended(std::string_view warned) {
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
    EXPECT_EQ(WholeIds(load), Ids({kId}));
    EXPECT_TRUE(load.removed.empty());
    EXPECT_TRUE(Warned(load, warned)) << warned;
    disk_.Restart(5);  // it is durable, too
    EXPECT_EQ(Records(), before_);
    ASSERT_OK_AND_ASSIGN(const CacheLoad again, Open()->Load());
    EXPECT_EQ(WholeIds(again), Ids({kId}));
    for (const std::string& warning : again.warnings) ADD_FAILURE() << "again: " << warning;
  }

  std::unique_ptr<CacheFolder> folder_;
  std::string dataset_, records_;
  std::map<std::string, std::string> before_;
};

TEST_F(CacheRepairTest, EachFilemapTellsWhatItsDatasetIs) {
  for (const char* name : {"filemap_0", "filemap_1"}) {
    ASSERT_OK_AND_ASSIGN(const scr::Descriptor found, scr::GetFilemapDescriptor(TreeAt(records_ + name)));
    const scr::Descriptor wanted = TestDescriptor(kId, 2);
    EXPECT_EQ(found.id, kId);
    EXPECT_EQ(found.name, wanted.name);
    EXPECT_EQ(found.launch, wanted.launch);
    EXPECT_EQ(found.step, wanted.step);
    EXPECT_EQ(found.ranks, wanted.ranks);
    EXPECT_EQ(found.user, wanted.user);
    EXPECT_EQ(found.created_us, wanted.created_us);
    EXPECT_FALSE(found.complete.has_value());
  }
}

TEST_F(CacheRepairTest, AnyRecordThatIsLostOrDamagedIsMadeAnew) {
  ASSERT_EQ(before_.size(), 2u + 2 * (2 * 2) + 2 + 2 + 1);  // filemaps, redundancy records, lists, states, index
  for (const auto& [name, content] : std::map(before_)) {
    if (name == "cindex.scrinfo") continue;
    for (const Damage damage : kDamages) {
      SCOPED_TRACE(fmt::format("{}, damage {}", name, static_cast<int>(damage)));
      Do(damage, records_ + name);
      ExpectMended(records_ + name);
    }
  }
}

// Of a whole dataset: no record is sacrificed for the mark of one that was given up.
TEST_F(CacheRepairTest, AFullDiskCostsNoRecord) {
  for (const char* name : {"reddescmap.er.er", "reddesc.er.er"}) Do(Damage::kMissing, records_ + name);
  disk_.FailOn({.op = FakeOp::kOpen,
                .path_part = "given_up.cairn",
                .status = absl::ResourceExhaustedError("no room for another file")});
  ExpectMended("reddescmap.er.er: missing");
}

TEST_F(CacheRepairTest, ARecordThatSaysSomethingElseIsMadeAnew) {
  const auto change = [&](const std::string& name, const std::function<void(kvtree::Tree&)>& how) {
    kvtree::Tree tree = TreeAt(records_ + name);
    how(tree);
    ASSERT_OK(ReplaceTree(disk_, records_ + name, tree));
    ExpectMended("is not what the catalogues say");
  };
  const std::string file = dataset_ + "/Ckpt3-Rank0.fti";
  change("filemap_0", [&](auto& tree) {
    tree.FindPath({"FILE"});
    tree.Find("FILE")->Erase(file);
  });
  change("filemap_0", [&](auto& tree) { tree.Find("FILE")->Find(file)->Find("META")->Set("SIZE", "1"); });
  change("filemap_0", [&](auto& tree) { tree.Find("FILE")->Find(file)->Find("META")->SetBool("COMPLETE", false); });
  change("filemap_1", [&](auto& tree) { tree.Erase("DSETDESC"); });
  change("reddesc.er.er", [&](auto& tree) { tree.Set("STATE", "1"); });
  change("reddesc.er.er", [&](auto& tree) { tree.At("STATE").At("1"); });
  change("reddescmap.er.shuffile", [&](auto& tree) { tree.Find("RANK")->Erase("1"); });
  change("reddesc.er.1.redset", [&](auto& tree) { tree.Find("1")->Find("DESC")->Set("TYPE", "XOR"); });
}

TEST_F(CacheRepairTest, AllRecordsForScrMayBeGoneAtOnce) {
  ASSERT_OK(RemoveTree(disk_, dataset_ + "/.scr"));
  disk_.SyncAll();
  ExpectMended("filemap_1: missing");
}

TEST_F(CacheRepairTest, ADamagedOrLostIndexIsMadeAnewFromTheFolders) {
  for (const Damage damage : kDamages) {
    SCOPED_TRACE(static_cast<int>(damage));
    Do(damage, IndexPath());
    if (damage == Damage::kFlipped) {
      auto folder = Open();
      EXPECT_STATUS(kFailedPrecondition, folder->Begin(TestDescriptor(9, 1)), "damaged");
      ASSERT_OK(folder->Load().status());
      EXPECT_OK(folder->Begin(TestDescriptor(9, 1)));
      EXPECT_OK(folder->Remove(9));
      EXPECT_EQ(Records(), before_);
      continue;
    }
    ExpectMended("made anew with 1 datasets");
  }
}

TEST_F(CacheRepairTest, TheIndexIsMadeAnewThoughFilemapsAreGoneIfOneIsLeft) {
  Do(Damage::kFlipped, records_ + "filemap_0");
  Do(Damage::kMissing, IndexPath());
  ExpectMended("filemap_0");
}

TEST_F(CacheRepairTest, WhatCannotBeShownToBeWholeIsNotListedAndKeepsItsBytes) {
  const std::vector<std::function<void()>> damages = {
      [&] {
        Do(Damage::kMissing, records_ + "filemap_0");
        Do(Damage::kMissing, records_ + "filemap_1");
      },
      [&] { Do(Damage::kMissing, records_ + "reddesc.er.er"); },
      [&] { Do(Damage::kFlipped, records_ + "reddescmap.er.er"); },
      [&] { Do(Damage::kCut, dataset_ + "/rank_1.cat"); },
      [&] { Do(Damage::kMissing, dataset_ + "/rank_0.cat"); },
      [&] { Do(Damage::kCut, dataset_ + "/Ckpt3-Rank1.fti"); },
  };
  for (std::size_t i = 0; i < damages.size(); ++i) {
    SCOPED_TRACE(i);
    damages[i]();
    Do(i % 2 == 0 ? Damage::kMissing : Damage::kCut, IndexPath());
    auto folder = Open();
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_TRUE(load.whole.empty());
    EXPECT_TRUE(load.removed.empty());
    EXPECT_EQ(load.highest_id, kId);
    EXPECT_OK(disk_.Info(fmt::format("{}/damaged.3.{}/Ckpt3-Rank1.fti", folder->path(), i + 1)));
    EXPECT_EQ(TreeAt(IndexPath()).FindPath({"DSET", "3"}), nullptr);
    ASSERT_OK(WriteDataset(*folder, kId));
    disk_.SyncAll();
  }
}

TEST_F(CacheRepairTest, WhatWasGivenUpDoesNotComeBackWithALostIndex) {
  ASSERT_OK(WriteDataset(*folder_, 4));
  ASSERT_OK(WriteDataset(*folder_, 5));
  ASSERT_OK(WriteDataset(*folder_, 6));
  ASSERT_OK(folder_->Begin(TestDescriptor(7, 1)));
  ASSERT_OK(CommitRank(*folder_, 7, 0, 1));
  disk_.SyncAll();
  ASSERT_OK(folder_->Retire(4));
  ASSERT_OK(folder_->SetAside(5, "Ckpt5-Rank0.fti", "offset 0"));
  ASSERT_OK(folder_->SetDatasetAside(6));
  ASSERT_OK(disk_.Remove(IndexPath()));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId}));
  EXPECT_EQ(load.highest_id, 7u);
}

TEST_F(CacheRepairTest, ARemovalThatThePowerTookBackStaysARemoval) {
  ASSERT_OK(folder_->Remove(kId));
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    FakeDisk disk;
    ASSERT_OK_AND_ASSIGN(auto folder, CacheFolder::Open(disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK(folder->Begin(TestDescriptor(1, 1)));
    ASSERT_OK(folder->CommitRank(EmptyCatalogue(TestRun(), 1, 0, 1), ""));
    ASSERT_OK(folder->Complete(TestDescriptor(1, 1)));
    ASSERT_OK(folder->Remove(1));
    disk.Restart(seed);
    ASSERT_OK(disk.Remove(folder->path() + "/cindex.scrinfo"));
    ASSERT_OK_AND_ASSIGN(folder, CacheFolder::Open(disk, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
    EXPECT_TRUE(load.whole.empty());
  }
}

// Whoever cannot read a folder now must not write an index without it: the next start would remove it.
TEST_F(CacheRepairTest, NoIndexIsMadeWhileAFolderCannotBeRead) {
  Do(Damage::kMissing, IndexPath());
  disk_.FailOn(
      {.op = FakeOp::kOpen, .path_part = "rank_1.cat", .status = absl::ResourceExhaustedError("no descriptors")});
  auto folder = Open();
  EXPECT_STATUS(kResourceExhausted, folder->Load(), "no descriptors");
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(IndexPath()), "");
  EXPECT_STATUS(kFailedPrecondition, folder->Begin(TestDescriptor(9, 1)), "lost");
  EXPECT_STATUS(kFailedPrecondition, Open()->Begin(TestDescriptor(9, 1)), "lost");
  ExpectMended("made anew with 1 datasets");
}

TEST_F(CacheRepairTest, AnIndexIsMadeWithoutWhatTheDiskHasLostAndItsFolderIsKept) {
  ASSERT_OK(WriteDataset(*folder_, 4));
  Do(Damage::kMissing, IndexPath());
  disk_.FailOn({.op = FakeOp::kOpen, .path_part = "scr.dataset.4/rank_1.cat"});
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId}));
  EXPECT_TRUE(Warned(load, "damaged.4.1"));
  EXPECT_OK(disk_.Info(folder_->path() + "/damaged.4.1/Ckpt4-Rank0.fti"));
}

TEST_F(CacheRepairTest, OfManyRecordsTheFirstAreNamed) {
  ASSERT_OK(WriteDataset(*folder_, 4, 20));
  ASSERT_OK(RemoveTree(disk_, folder_->DatasetPath(4) + "/.scr"));
  disk_.SyncAll();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId, 4}));
  EXPECT_EQ(load.warnings.size(), 9u);
  EXPECT_TRUE(Warned(load, "more records anew"));
}

TEST_F(CacheRepairTest, ADatasetIsListedThoughItsRecordsCannotBeWritten) {
  Do(Damage::kMissing, records_ + "filemap_0");
  disk_.SetCapacity(1);
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId}));
  EXPECT_TRUE(Warned(load, "cannot be made anew"));
  EXPECT_STATUS(absl::StatusCode::kNotFound, disk_.Info(records_ + "reddesc.er.er"), "");  // SCR must not believe in it
  disk_.SetCapacity(UINT64_MAX);
  ExpectMended("reddesc.er.er: missing");
}

TEST_F(CacheRepairTest, AtEveryInstantOfARepairTheDatasetIsWhole) {
  for (std::uint64_t n = 1; n <= 120; ++n) {
    SCOPED_TRACE(n);
    Do(kDamages[n % 4], records_ + "filemap_1");
    Do(kDamages[n % 3], n % 2 == 0 ? IndexPath() : records_ + "reddesc.er.0.redset");
    disk_.CrashAt(n);
    if (auto half = CacheFolder::Open(disk_, "/ssd", "alice", "demo", TestRun(), "/pfs/demo"); half.ok()) {
      (*half)->Load().IgnoreError();  // fails or not: the next one counts
    }
    disk_.Restart(n);
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
    ASSERT_EQ(WholeIds(load), Ids({kId}));
    ASSERT_EQ(Records(), before_);
  }
}

// Whatever is damaged together: a dataset is listed only with sound catalogues and files in their sizes, it is listed
// if nothing else is wanting, and the next start agrees.
TEST_F(CacheRepairTest, OfAnyCombinationOfDamageOnlyWholeDatasetsAreListed) {
  for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::uint64_t state = seed * 0x9e3779b97f4a7c15u;
    const auto below = [&state](std::size_t bound) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      return static_cast<std::size_t>(state >> 33) % bound;
    };
    ASSERT_OK(RemoveTree(disk_, "/ssd"));
    folder_ = Open();
    ASSERT_OK(WriteDataset(*folder_, kId));
    std::vector<std::string> victims = {IndexPath(), folder_->path() + "/run.cairn"};
    for (const char* name : {"rank_0.cat", "rank_1.cat", "Ckpt3-Rank0.fti", "Ckpt3-Rank1.fti"}) {
      victims.push_back(dataset_ + "/" + name);
    }
    ASSERT_OK_AND_ASSIGN(const auto names, disk_.List(dataset_ + "/.scr"));
    for (const std::string& name : names) victims.push_back(records_ + name);
    std::set<std::string> damaged;
    for (std::size_t n = 1 + below(4); n > 0; --n) {
      const std::string& victim = victims[below(victims.size())];
      if (!damaged.insert(victim).second) continue;
      // A flipped bit in a file's bytes is for who reads them.
      const bool file = victim.ends_with(".fti");
      Do(file ? Damage::kCut : kDamages[below(4)], victim);
    }
    const auto any = [&damaged](std::string_view end) {
      return std::any_of(damaged.begin(), damaged.end(),
                         [end](const std::string& name) { return name.ends_with(end); });
    };
    const bool lost = any(".cat") || any(".fti");
    const bool shown = !any("cindex.scrinfo") || (!any(".er.er") && !(any("filemap_0") && any("filemap_1")));
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
    EXPECT_EQ(load.whole.contains(kId), !lost && shown);
    EXPECT_TRUE(load.removed.empty());
    ASSERT_OK_AND_ASSIGN(const CacheLoad again, Open()->Load());
    EXPECT_EQ(WholeIds(again), WholeIds(load));
    EXPECT_FALSE(Warned(again, "made anew"));
  }
}

TEST_F(CacheRepairTest, ScrsOwnFoldersAreLeftAloneThoughTheIndexIsLost) {
  const std::string own = folder_->DatasetPath(8);
  ASSERT_OK(disk_.MakeDirectory(own, 0700));
  ASSERT_OK(disk_.MakeDirectory(own + "/.scr", 0700));
  scr::Filemap filemap;
  filemap.files[own + "/state.dat"] = scr::Meta{};
  ASSERT_OK(ReplaceTree(disk_, own + "/.scr/filemap_0", scr::ToTree(filemap)));
  Do(Damage::kMissing, IndexPath());
  for (int start = 0; start < 2; ++start) {
    ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
    EXPECT_EQ(WholeIds(load), Ids({kId}));
    EXPECT_EQ(load.highest_id, 8u);
    EXPECT_TRUE(load.removed.empty());
    EXPECT_TRUE(Warned(load, "scr.dataset.8: written by SCR"));
    EXPECT_OK(disk_.Info(own + "/.scr/filemap_0"));
  }
}

TEST_F(CacheRepairTest, AFolderThatLostIdentityAndIndexKeepsItsDatasets) {
  Do(Damage::kMissing, folder_->path() + "/run.cairn");
  Do(Damage::kMissing, IndexPath());
  ExpectMended("made anew with 1 datasets");
}

TEST_F(CacheRepairTest, AFolderThatLostItsIdentityIsFoundByWhatItsDatasetsSay) {
  for (const Damage damage : kDamages) {
    SCOPED_TRACE(static_cast<int>(damage));
    Do(damage, folder_->path() + "/run.cairn");
    ASSERT_OK_AND_ASSIGN(const auto found, CacheFolder::Find(disk_, "/ssd", "alice"));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].run.run, TestRun());
    EXPECT_EQ(found[0].prefix, "/pfs/demo");
    EXPECT_EQ(found[0].path, folder_->path());
    ExpectMended("run.cairn");
  }
}

TEST_F(CacheRepairTest, APrefixThatIsMountedElsewhereIsPutIntoTheFilemaps) {
  ASSERT_OK_AND_ASSIGN(folder_, CacheFolder::Open(disk_, "/ssd", "alice", "demo", TestRun(), "/lustre/demo"));
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder_->Load());
  EXPECT_EQ(WholeIds(load), Ids({kId}));
  ASSERT_OK_AND_ASSIGN(const scr::Filemap filemap, scr::GetFilemap(TreeAt(records_ + "filemap_0")));
  EXPECT_EQ(filemap.files.at(dataset_ + "/rank_0.cat").directory, "/lustre/demo/ckpt.3");
}

// SCR specification, section 4: what the application's own files were like when it handed them over.
TEST_F(CacheRepairTest, AnApplicationsFilesKeepTheirMetaData) {
  scr::Descriptor descriptor = TestDescriptor(7, 1);
  descriptor.own_files = true;
  descriptor.output = true;
  ASSERT_OK(folder_->Begin(descriptor));
  ASSERT_OK_AND_ASSIGN(const std::string path, folder_->RouteFile(7, "out/a.h5"));
  ASSERT_OK(WriteTestFile(disk_, path, "content"));
  catalogue::Catalogue catalogue = EmptyCatalogue(TestRun(), 7, 0, 1);
  catalogue.set_files(true);
  catalogue::FileEntry& entry = *catalogue.add_file();
  entry = TestEntry("out/a.h5", "out/a.h5", "content");
  entry.set_original("./out//a.h5");
  entry.set_mode(0100640);
  entry.set_inode(77);
  entry.set_mtime_s(1000);
  entry.set_mtime_ns(1);
  entry.set_atime_s(2000);
  entry.set_atime_ns(2);
  ASSERT_OK(folder_->CommitRankFiles(catalogue));
  ASSERT_OK(folder_->Complete(descriptor));
  for (const bool repaired : {false, true}) {
    const std::string filemap_path = folder_->DatasetPath(7) + "/.scr/filemap_0";
    if (repaired) {
      ASSERT_OK(disk_.Remove(filemap_path));
      ASSERT_OK(Open()->Load().status());
    }
    ASSERT_OK_AND_ASSIGN(const scr::Filemap filemap, scr::GetFilemap(TreeAt(filemap_path)));
    const scr::Meta& meta = filemap.files.at(path);
    EXPECT_EQ(meta.original, "./out//a.h5");
    EXPECT_EQ(meta.directory, "/pfs/demo/out");
    EXPECT_EQ(meta.name, "a.h5");
    EXPECT_EQ(meta.bytes, 7u);
    EXPECT_EQ(meta.mode, 0100640u);
    EXPECT_EQ(meta.mtime.tv_sec, 1000);
    EXPECT_EQ(meta.mtime.tv_nsec, 1);
    EXPECT_EQ(meta.atime.tv_sec, 2000);
    EXPECT_EQ(meta.crc32, entry.crc32());
  }
}

}  // namespace
}  // namespace cairn
