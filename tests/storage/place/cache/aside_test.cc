// What lies aside in a run's folder: found with its size and the time since when, and removed, whatever comes between.
// A random one repeats with CAIRN_TEST_SEED.
#include "storage/place/cache/aside.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <random>
#include <utility>

#include "storage/io/file_tree.h"
#include "tests/storage/place/cache/cache_folder_fixture.h"

namespace cairn {
namespace {

using Kind = Aside::Kind;
using Names = std::vector<std::string>;

class AsideTest : public CacheFolderTest {
 protected:
  // Of datasets 1 to 4 one was found damaged, one's number is another's, and the index is damaged.
  void PutAside() {
    const auto folder = Open();
    for (const DatasetId id : {1, 2, 3, 4}) ASSERT_OK(WriteDataset(*folder, id));
    ASSERT_OK(folder->SetDatasetAside(3));
    ASSERT_OK(folder->SetDatasetAside(2, CacheFolder::Why::kNumberTaken));
    disk_.FlipBit(folder->path() + "/cindex.scrinfo", 100);
  }
  std::vector<Aside> Found(CacheFolder& folder) {
    const auto found = folder.FindAsides();
    EXPECT_OK(found.status());
    return found.ok() ? *found : std::vector<Aside>();
  }
  static Names NamesOf(const std::vector<Aside>& asides) {
    Names names;
    for (const Aside& aside : asides) names.push_back(aside.name);
    return names;
  }
  // By the test's own count.
  std::uint64_t BytesAt(const std::string& path) {
    const auto info = disk_.Info(path);
    if (!info.ok()) return 0;
    if (!info->is_directory()) return info->bytes;
    std::uint64_t bytes = 0;
    const auto names = disk_.List(path);
    for (const std::string& name : names.ok() ? *names : Names()) bytes += BytesAt(path + "/" + name);
    return bytes;
  }
  bool IsThere(const std::string& path) { return disk_.Info(path).ok(); }
};

TEST_F(AsideTest, WhereNothingLiesAsideNothingIsFound) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  EXPECT_EQ(NamesOf(Found(*folder)), Names{});
}

TEST_F(AsideTest, EachKindIsFoundWithItsBytesOldestFirst) {
  PutAside();
  const auto folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  ASSERT_OK(folder->SetAside(1, "Ckpt1-Rank1.fti", "offset 0"));

  const std::vector<Aside> found = Found(*folder);
  ASSERT_EQ(NamesOf(found), (Names{"damaged.3.1", "taken.2.1", "cindex.scrinfo.damaged.1", "scr.dataset.1"}));
  const std::vector<std::pair<Kind, DatasetId>> expected = {
      {Kind::kDamaged, 3}, {Kind::kTaken, 2}, {Kind::kDamaged, 0}, {Kind::kInPlace, 1}};
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].kind, expected[i].first) << found[i].name;
    EXPECT_EQ(found[i].dataset, expected[i].second) << found[i].name;
    EXPECT_EQ(found[i].bytes, BytesAt(folder->path() + "/" + found[i].name)) << found[i].name;
    EXPECT_GT(found[i].bytes, i == 2 ? 0u : 10'000u) << found[i].name;
    EXPECT_TRUE(i == 0 || found[i].since_us > found[i - 1].since_us) << found[i].name;
  }
  // What a start finds is the same.
  EXPECT_EQ(NamesOf(load.asides), (Names{"damaged.3.1", "taken.2.1", "cindex.scrinfo.damaged.1"}));
}

TEST_F(AsideTest, SinceIsWhenItWasSetAsideAndNotWhenItWasWritten) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK_AND_ASSIGN(const FileInfo before, disk_.Info(folder->DatasetPath(1)));
  ASSERT_OK(WriteDataset(*folder, 2));  // time goes on
  ASSERT_OK(folder->SetDatasetAside(1));
  const std::vector<Aside> found = Found(*folder);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_GT(found[0].since_us, (before.ctime.tv_sec + 10) * 1'000'000);
  ASSERT_OK_AND_ASSIGN(const FileInfo after, disk_.Info(folder->path() + "/damaged.1.1"));
  EXPECT_EQ(found[0].since_us, after.ctime.tv_sec * 1'000'000);
}

TEST_F(AsideTest, NamesThatNobodyHereGivesAreLeftAlone) {
  auto folder = Open();
  const Names others = {"damaged.5",       "damaged.5.1.keep", "damaged.x.1", "damaged.5.01",   "taken.5",
                        "removed",         "removed.x",        "removed.1.1", "mine.damaged.1", "run.cairn.damaged.",
                        "rest.damaged.5.1"};
  for (const std::string& name : others) ASSERT_OK(disk_.MakeDirectory(folder->path() + "/" + name, 0700));
  folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_EQ(NamesOf(load.asides), Names{});
  for (const std::string& name : others) EXPECT_TRUE(IsThere(folder->path() + "/" + name)) << name;
}

TEST_F(AsideTest, EachKindIsRemovedAndNothingElse) {
  PutAside();
  const auto folder = Open();
  ASSERT_OK(folder->Load().status());
  ASSERT_OK(folder->SetAside(1, "Ckpt1-Rank1.fti", "offset 0"));
  std::vector<Aside> left = Found(*folder);
  ASSERT_EQ(left.size(), 4u);
  while (!left.empty()) {
    EXPECT_OK(folder->RemoveAside(left.front()));
    EXPECT_OK(folder->RemoveAside(left.front())) << "not there: OK";
    left.erase(left.begin());
    EXPECT_EQ(NamesOf(Found(*folder)), NamesOf(left));
  }
  EXPECT_EQ(TreeAt(folder->path() + "/cindex.scrinfo").FindPath({"DSET", "1"}), nullptr);
  ASSERT_OK(WriteDataset(*folder, 1));  // its number is free for who fetches it anew
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, Open()->Load());
  EXPECT_EQ(WholeIds(load), Ids({1, 4}));
  EXPECT_TRUE(load.warnings.empty());
}

TEST_F(AsideTest, WhatIsLeftOfAFailedRemovalIsFoundAndGoesWithTheNext) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(folder->SetDatasetAside(1));
  disk_.FailOn({.op = FakeOp::kRemove, .path_part = "rank_1.cat"});
  EXPECT_STATUS(absl::StatusCode::kUnavailable, folder->RemoveAside(Found(*folder).at(0)), "injected");
  const std::vector<Aside> rest = Found(*folder);
  ASSERT_EQ(NamesOf(rest), Names{"removed.1"});
  EXPECT_EQ(rest[0].kind, Kind::kGoing);
  EXPECT_GT(rest[0].bytes, 0u);
  EXPECT_EQ(rest[0].bytes, BytesAt(folder->path() + "/removed.1"));
  EXPECT_OK(folder->RemoveAside(rest[0]));
  EXPECT_EQ(NamesOf(Found(*folder)), Names{});
}

// The power fails at each operation of the removal of each kind. The next start finds it as it was, or nothing of it.
TEST_F(AsideTest, AfterAnyCrashTheNextStartHasAllOfItOrNothing) {
  for (const Kind kind : {Kind::kDamaged, Kind::kInPlace, Kind::kTaken}) {
    bool finished = false;
    for (std::uint64_t n = 1; !finished; ++n) {
      SCOPED_TRACE(fmt::format("kind {}, operation {}", static_cast<int>(kind), n));
      ASSERT_OK(RemoveTree(disk_, "/ssd"));
      auto folder = Open();
      for (const DatasetId id : {1, 2}) ASSERT_OK(WriteDataset(*folder, id));
      if (kind == Kind::kInPlace) {
        ASSERT_OK(folder->SetAside(1, "Ckpt1-Rank1.fti", "offset 0"));
      } else {
        ASSERT_OK(folder->SetDatasetAside(
            1, kind == Kind::kTaken ? CacheFolder::Why::kNumberTaken : CacheFolder::Why::kDamaged));
      }
      const Aside aside = Found(*folder).at(0);
      ASSERT_EQ(aside.kind, kind);
      disk_.SyncAll();
      disk_.CrashAt(n);
      finished = folder->RemoveAside(aside).ok();
      disk_.CrashAt(std::uint64_t{1} << 40);
      disk_.Restart(n);
      folder = Open();
      ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
      ASSERT_EQ(WholeIds(load), Ids({2}));
      for (const Aside& left : load.asides) {
        EXPECT_NE(left.kind, Kind::kGoing);
        EXPECT_EQ(left.bytes, aside.bytes) << left.name;
      }
      EXPECT_LE(load.asides.size(), finished ? 0u : 1u);
      ASSERT_OK_AND_ASSIGN(const Names names, disk_.List(folder->path()));
      EXPECT_EQ(names.size(), 3 + load.asides.size());  // index, run.cairn, dataset 2
    }
  }
}

TEST_F(AsideTest, AStartSaysWhatItCannotRemoveAndCountsIt) {
  auto folder = Open();
  ASSERT_OK(disk_.MakeDirectory(folder->path() + "/removed.7", 0700));
  ASSERT_OK(WriteTestFile(disk_, folder->path() + "/removed.7/rest", "1234567"));
  disk_.FailOn({.op = FakeOp::kRemove, .path_part = "removed.7"});
  folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_TRUE(Warned(load, "removed.7"));
  ASSERT_EQ(NamesOf(load.asides), Names{"removed.7"});
  EXPECT_EQ(load.asides[0].bytes, 7u);
  ASSERT_OK_AND_ASSIGN(const CacheLoad again, Open()->Load());
  EXPECT_EQ(NamesOf(again.asides), Names{});
}

// What cannot be read says nothing of the run.
TEST_F(AsideTest, AStartGoesOnWithoutWhatItCannotLookAt) {
  auto folder = Open();
  ASSERT_OK(WriteDataset(*folder, 1));
  ASSERT_OK(WriteDataset(*folder, 2));
  ASSERT_OK(folder->SetDatasetAside(1));
  disk_.FailOn({.op = FakeOp::kInfo, .path_part = "damaged.1.1", .times = 100});
  folder = Open();
  ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
  EXPECT_EQ(WholeIds(load), Ids({2}));
  EXPECT_TRUE(Warned(load, "what lies aside is not known"));
  EXPECT_STATUS(absl::StatusCode::kUnavailable, folder->FindAsides(), "injected");
}

// --- Whatever is damaged: what is counted is what is there ---

class RandomDamage {
 public:
  RandomDamage(std::uint64_t seed, FakeDisk& disk) : random_(seed), disk_(disk) {}

  std::uint64_t Draw(std::uint64_t below) { return random_() % below; }

  // Some file below `path` gets a flipped bit, is cut, or goes.
  void Hurt(const std::string& path) {
    const auto files = ListFilesBelow(disk_, path);
    ASSERT_OK(files.status());
    if (files->empty()) return;
    const auto& [name, info] = *std::next(files->begin(), static_cast<std::ptrdiff_t>(Draw(files->size())));
    const std::string file = path + "/" + name;
    if (info.bytes == 0 || Draw(3) == 0) {
      ASSERT_OK(disk_.Remove(file));
    } else if (Draw(2) == 0) {
      disk_.FlipBit(file, Draw(info.bytes * 8));
    } else {
      ASSERT_OK_AND_ASSIGN(const auto open, disk_.Open(file, {.writable = true}));
      ASSERT_OK(open->Truncate(Draw(info.bytes)));
    }
  }

 private:
  std::mt19937_64 random_;
  FakeDisk& disk_;
};

TEST_F(AsideTest, AfterRandomDamageAllThatIsNotWholeIsCounted) {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  const std::uint64_t first = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
#if defined(__SANITIZE_THREAD__)  // takes seconds for each
  constexpr std::uint64_t kSeeds = 20;
#else
  constexpr std::uint64_t kSeeds = 200;
#endif
  for (std::uint64_t seed = first; seed < first + (given != nullptr ? 1 : kSeeds) && !HasFailure(); ++seed) {
    SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
    RandomDamage damage(seed, disk_);
    ASSERT_OK(RemoveTree(disk_, "/ssd"));
    auto folder = Open();
    DatasetId next = 1;
    for (int round = 0; round < 4; ++round) {
      for (std::uint64_t n = 1 + damage.Draw(3); n > 0; --n, ++next) {
        ASSERT_OK(WriteDataset(*folder, next, static_cast<std::uint32_t>(1 + damage.Draw(3))));
      }
      for (std::uint64_t n = damage.Draw(3); n > 0; --n) {
        const DatasetId id = 1 + damage.Draw(next - 1);
        if (damage.Draw(2) == 0) {
          folder->SetAside(id, fmt::format("Ckpt{}-Rank0.fti", id), "").IgnoreError();  // it may be gone
        } else {
          ASSERT_OK(folder->SetDatasetAside(
              id, damage.Draw(3) == 0 ? CacheFolder::Why::kNumberTaken : CacheFolder::Why::kDamaged));
        }
      }
      for (std::uint64_t n = damage.Draw(3); n > 0; --n) damage.Hurt(folder->path());
      folder = Open();
      ASSERT_OK_AND_ASSIGN(const CacheLoad load, folder->Load());
      std::uint64_t whole = BytesAt(folder->path() + "/cindex.scrinfo") + BytesAt(folder->path() + "/run.cairn");
      for (const auto& [id, dataset] : load.whole) whole += BytesAt(folder->DatasetPath(id));
      std::uint64_t aside = 0;
      for (const Aside& one : load.asides) aside += one.bytes;
      EXPECT_EQ(BytesAt(folder->path()), whole + aside);
      if (!load.asides.empty() && damage.Draw(2) == 0) {
        EXPECT_OK(folder->RemoveAside(load.asides[damage.Draw(load.asides.size())]));
      }
    }
  }
}

}  // namespace
}  // namespace cairn
