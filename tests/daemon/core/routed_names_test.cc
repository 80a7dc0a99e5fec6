// The application's own names in open outputs: daemon/core/routed_names.h.
#include "daemon/core/routed_names.h"
#include "storage/base/path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;

constexpr DatasetId kId = 5, kOther = 6;

class RoutedNamesTest : public ::testing::Test {
 protected:
  absl::Status Take(const std::string& name, Rank rank = 0) { return names_.Take(kId, name, rank, 0); }
  absl::Status Add(const std::string& name, Rank rank = 0) {
    return names_.AddDirectory(kId, name, {.path = "/cache/" + name, .given = name + "/"}, rank);
  }
  static Dataset Of(std::uint32_t nranks) {
    Dataset dataset;
    dataset.id = kId;
    dataset.nranks = nranks;
    return dataset;
  }

  RoutedNames names_;
};

// --- Files ---

TEST_F(RoutedNamesTest, ANameIsTheFirstRanksUntilItIsGivenBack) {
  EXPECT_OK(Take("out/a", 1));
  EXPECT_OK(Take("out/a", 1)) << "its own again";
  EXPECT_STATUS(kInvalid, Take("out/a", 2), "out/a is rank 1's file in dataset 5");
  EXPECT_OK(names_.Take(kOther, "out/a", 2, 0)) << "another dataset";
  names_.GiveBack(kId, "out/a");
  EXPECT_OK(Take("out/a", 2));
  names_.GiveBack(kId, "unknown");
  names_.GiveBack(77, "unknown");
}

TEST_F(RoutedNamesTest, OneFileIsNotAnothersDirectory) {
  ASSERT_OK(Take("a/b"));
  EXPECT_STATUS(kInvalid, Take("a"), "a and a/b are files");
  EXPECT_STATUS(kInvalid, Take("a/b/c"), "a/b/c and a/b are files");
  EXPECT_STATUS(kInvalid, Take("a/b/c/d"), "a/b are files");
  EXPECT_OK(Take("a/c"));
  EXPECT_OK(Take("a/b.c")) << "sorts between a/b and a/b/";
  EXPECT_OK(Take("a/b0")) << "sorts behind a/b/";
  EXPECT_OK(Take("ab"));
  names_.GiveBack(kId, "a/b");
  EXPECT_OK(Take("a/b/c"));
}

TEST_F(RoutedNamesTest, WhatIsKeptForCheckpointsOfMemoryIsNobodys) {
  for (const char* name :
       {"ckpt.3", "ckpt.3/rank_0.cat", "ckpt.3/Ckpt3-Rank0.fti", "ckpt.3.bp", "ckpt.3.bp/md.idx", "rank_0.cat/data"}) {
    EXPECT_STATUS(kInvalid, Take(name), "such names") << name;
    EXPECT_STATUS(kInvalid, names_.CheckDirectory(kId, name), "such names") << name;
    EXPECT_STATUS(kInvalid, Add(name), "such names") << name;
  }
  for (const char* name : {"ckpt", "ckpt.", "ckpt.x", "ckpt.3a", "ckpt.bp", "ckpt.3.bpx", "a/ckpt.3", "xckpt.3",
                           "ckpt.3/rank_0.ckpt", "ckpt.3/a/b"}) {
    EXPECT_OK(Take(name)) << name;
  }
}

TEST_F(RoutedNamesTest, ARankRoutesSoManyFilesAndNoMore) {
  EXPECT_OK(names_.Take(kId, "a", 0, RoutedNames::kFilesMax - 1));
  EXPECT_STATUS(kExhausted, names_.Take(kId, "b", 0, RoutedNames::kFilesMax), "more than 65536 files of a rank");
  EXPECT_OK(names_.Take(kId, "a", 0, RoutedNames::kFilesMax)) << "one that it has";
}

TEST_F(RoutedNamesTest, ADatasetHasSoManyFilesAndNoMore) {
  for (std::size_t i = 0; i < 8 * RoutedNames::kFilesMax; ++i) {
    if (!Take(std::to_string(i)).ok()) FAIL() << i;
  }
  EXPECT_STATUS(kExhausted, Take("one more"), "524288 of a dataset");
  EXPECT_OK(Take("7"));
  EXPECT_OK(names_.Take(kOther, "one more", 0, 0));
}

// --- Directories ---

TEST_F(RoutedNamesTest, SeveralRanksMayWriteIntoADirectory) {
  EXPECT_OK(names_.CheckDirectory(kId, "out.bp"));
  ASSERT_OK(names_.AddDirectory(kId, "out.bp", {.path = "/cache/out.bp", .given = "./out.bp/"}, 3));
  EXPECT_OK(names_.CheckDirectory(kId, "out.bp")) << "a directory of the dataset's already";
  ASSERT_OK(names_.AddDirectory(kId, "out.bp", {.path = "/cache/out.bp", .given = "out.bp/"}, 1));
  const auto directories = names_.Directories(kId);
  ASSERT_EQ(directories.size(), 1u);
  EXPECT_EQ(directories.at("out.bp").ranks, (std::set<Rank>{1, 3}));
  EXPECT_EQ(directories.at("out.bp").routed.given, "./out.bp/") << "as the first has given it";
  EXPECT_TRUE(names_.Directories(kOther).empty());
}

TEST_F(RoutedNamesTest, AFileIsNoDirectoryAndADirectoryNoFile) {
  ASSERT_OK(Take("a"));
  ASSERT_OK(Add("d"));
  EXPECT_STATUS(kInvalid, names_.CheckDirectory(kId, "a"), "a is a file of dataset 5");
  EXPECT_STATUS(kInvalid, Add("a"), "a is a file of dataset 5");
  EXPECT_STATUS(kInvalid, Take("d"), "d is a directory of dataset 5");
  EXPECT_OK(names_.CheckDirectory(kOther, "a"));
}

TEST_F(RoutedNamesTest, WhatIsBelowARoutedDirectoryIsPartOfIt) {
  ASSERT_OK(Add("d"));
  EXPECT_STATUS(kInvalid, Take("d/a"), "what is below a routed directory is part of it");
  EXPECT_STATUS(kInvalid, Add("d/e"), "what is below a routed directory is part of it");
  EXPECT_STATUS(kInvalid, names_.CheckDirectory(kId, "d/e/f"), "what is below a routed directory is part of it");
  EXPECT_OK(Take("d.a"));
  ASSERT_OK(Take("e/a"));
  EXPECT_STATUS(kInvalid, Add("e"), "e and e/a are files") << "one of its files is a file of its own";
  ASSERT_OK(Add("f/g"));
  EXPECT_STATUS(kInvalid, Add("f"), "what is below a routed directory is part of it");
  EXPECT_STATUS(kInvalid, Take("f"), "what is below a routed directory is part of it");
}

TEST_F(RoutedNamesTest, AFileThatComesBetweenTheCheckAndTheDirectoryIsSeen) {
  EXPECT_OK(names_.CheckDirectory(kId, "d"));
  ASSERT_OK(Take("d/a", 1));
  EXPECT_STATUS(kInvalid, Add("d", 0), "d and d/a");
  EXPECT_TRUE(names_.Directories(kId).empty());
}

TEST_F(RoutedNamesTest, ADatasetHasSoManyDirectoriesAndNoMore) {
  for (std::size_t i = 0; i < RoutedNames::kDirectoriesMax; ++i) ASSERT_OK(Add(std::to_string(i)));
  EXPECT_STATUS(kExhausted, names_.CheckDirectory(kId, "one more"), "more than 4096 directories");
  EXPECT_OK(names_.CheckDirectory(kId, "7"));
}

TEST_F(RoutedNamesTest, ADirectorysNameIsItsPathBelowThePrefix) {
  const auto name = [](const std::string& given) { return RoutedNames::DirectoryName("/prefix", given); };
  ASSERT_OK_AND_ASSIGN(const std::string plain, name("out.bp/"));
  EXPECT_EQ(plain, "out.bp");
  ASSERT_OK_AND_ASSIGN(const std::string absolute, name("/prefix/a/./b//"));
  EXPECT_EQ(absolute, "a/b");
  for (const char* given : {"/", "/elsewhere/a/", "../a/", ".scr/a/", ""})
    EXPECT_STATUS(kInvalid, name(given), "") << given;
}

// --- What a directory has when it is listed ---

class ListingTest : public RoutedNamesTest {
 protected:
  void Write(const std::string& path, const std::string& bytes) {
    EXPECT_OK(MakeDirectories(disk_, ParentOf(path)));
    EXPECT_OK(ReplaceFile(disk_, path, bytes));
  }

  FakeDisk disk_;
};

TEST_F(ListingTest, EveryFileBelowHasItsNameAndItsBytes) {
  ASSERT_OK(names_.AddDirectory(kId, "out/d.bp", {.path = "/cache/d", .given = "./out/d.bp//"}, 0));
  Write("/cache/d/data.0", "12345");
  Write("/cache/d/sub/x", "1");
  ASSERT_OK_AND_ASSIGN(const auto listed, RoutedNames::List(disk_, names_.Directories(kId)));
  ASSERT_EQ(listed.size(), 1u);
  const ListedFiles& files = listed.at("out/d.bp");
  ASSERT_EQ(files.size(), 2u);
  const ListedFile& data = files.at("out/d.bp/data.0");
  EXPECT_EQ(data.routed.path, "/cache/d/data.0");
  EXPECT_EQ(data.routed.given, "./out/d.bp/data.0");
  EXPECT_EQ(data.info.bytes, 5u);
  EXPECT_EQ(files.at("out/d.bp/sub/x").routed.path, "/cache/d/sub/x");
}

TEST_F(ListingTest, ANameThatCannotBeKeptIsNamed) {
  ASSERT_OK(Add("d"));
  Write("/cache/d/bad\nname", "1");
  EXPECT_STATUS(kInvalid, RoutedNames::List(disk_, names_.Directories(kId)), "/cache/d");
}

TEST_F(ListingTest, ADirectoryThatIsGoneIsNotFound) {
  ASSERT_OK(Add("d"));
  EXPECT_STATUS(absl::StatusCode::kNotFound, RoutedNames::List(disk_, names_.Directories(kId)), "");
}

TEST_F(ListingTest, WhatIsInADirectoryIsTheLowestRanksThatRoutedIt) {
  ASSERT_OK(Add("d", 2));
  ASSERT_OK(Add("d", 1));
  ASSERT_OK(Add("e", 3));
  ASSERT_OK(Add("empty", 1));
  Write("/cache/d/a", "123");
  Write("/cache/d/b", "4567");
  Write("/cache/e/c", "89");
  ASSERT_OK(MakeDirectories(disk_, "/cache/empty"));
  ASSERT_OK_AND_ASSIGN(auto listed, RoutedNames::List(disk_, names_.Directories(kId)));
  EXPECT_FALSE(names_.AreListed(kId));
  std::map<Rank, std::uint64_t> added;
  names_.DirectoriesListed(kId, std::move(listed), [&added](Rank rank, std::uint64_t bytes) { added[rank] += bytes; });
  EXPECT_TRUE(names_.AreListed(kId));
  EXPECT_EQ(added, (std::map<Rank, std::uint64_t>{{1, 7}, {3, 2}}));
  const ListedFiles files = names_.TakeListed(kId, 1);
  EXPECT_EQ(files.size(), 2u);
  EXPECT_TRUE(files.contains("d/a"));
  EXPECT_TRUE(files.contains("d/b"));
  EXPECT_TRUE(names_.TakeListed(kId, 1).empty()) << "once";
  EXPECT_TRUE(names_.TakeListed(kId, 2).empty());
  EXPECT_EQ(names_.TakeListed(kId, 3).size(), 1u);
}

TEST_F(ListingTest, ADirectoryOnAnotherNodeIsNotListedHere) {
  ASSERT_OK(names_.AddDirectoryElsewhere(kId, "d"));
  ASSERT_OK(names_.AddDirectoryElsewhere(kId, "d")) << "by another rank";
  EXPECT_STATUS(kInvalid, Take("d/a"), "what is below a routed directory is part of it");
  EXPECT_STATUS(kInvalid, Take("d"), "d is a directory of dataset 5");
  ASSERT_OK(Take("a"));
  EXPECT_STATUS(kInvalid, names_.AddDirectoryElsewhere(kId, "a"), "a is a file of dataset 5");
  EXPECT_TRUE(names_.Directories(kId).empty());
  EXPECT_TRUE(names_.Places(kId).roots.empty());
  ASSERT_OK(Add("d", 2));
  EXPECT_EQ(names_.Directories(kId).at("d").routed.path, "/cache/d") << "this node has one of that name, too";
  Write("/cache/d/x", "123");
  ASSERT_OK_AND_ASSIGN(auto listed, RoutedNames::List(disk_, names_.Directories(kId)));
  ASSERT_OK(names_.AddDirectoryElsewhere(kId, "e"));
  names_.DirectoriesListed(kId, std::move(listed), [](Rank rank, std::uint64_t) { EXPECT_EQ(rank, 2u); });
  EXPECT_EQ(names_.TakeListed(kId, 2).size(), 1u);
}

// --- Files that several nodes have stored ---

class ApartTest : public ::testing::Test {
 protected:
  void Has(Rank rank, const std::vector<std::string>& names) {
    dataset_.parts.resize(std::max<std::size_t>(dataset_.parts.size(), rank + 1));
    catalogue::Catalogue& catalogue = dataset_.parts[rank].catalogue;
    catalogue.set_rank(rank);
    for (const std::string& name : names) catalogue.add_file()->set_prefix_name(name);
  }
  Dataset dataset_;
};

TEST_F(ApartTest, FilesOfOneDirectoryWithNamesOfTheirOwnGoTogether) {
  Has(0, {"d/data.0", "d/md.idx", "a"});
  Has(1, {});
  Has(2, {"d/data.1", "d/data", "d.x"});
  EXPECT_OK(RoutedNames::CheckApart(dataset_));
}

TEST_F(ApartTest, OneNameOfTwoRanksIsToldWithBoth) {
  Has(0, {"d/md.idx"});
  Has(1, {"d/data"});
  Has(2, {"d/md.idx"});
  EXPECT_STATUS(kInvalid, RoutedNames::CheckApart(dataset_), "d/md.idx: rank 0 and rank 2");
}

TEST_F(ApartTest, OneRanksFileIsNotAnothersDirectory) {
  Has(0, {"d/a/b/c"});
  Has(1, {"d/a"});
  EXPECT_STATUS(kInvalid, RoutedNames::CheckApart(dataset_), "d/a of rank 1 and d/a/b/c of rank 0");
}

// --- The end of an output ---

TEST_F(RoutedNamesTest, ListsAreMadeOnceForAnOutput) {
  EXPECT_TRUE(names_.StartListing(kId));
  EXPECT_FALSE(names_.StartListing(kId));
  EXPECT_TRUE(names_.StartListing(kOther));
}

TEST_F(RoutedNamesTest, TheLastRankThatEndsItIsTold) {
  const Dataset dataset = Of(3);
  EXPECT_FALSE(names_.Ended(dataset, 1));
  EXPECT_FALSE(names_.Ended(dataset, 1)) << "the same one again";
  EXPECT_FALSE(names_.Ended(dataset, 0));
  EXPECT_TRUE(names_.Ended(dataset, 2));
  names_.Forget(kId);
  EXPECT_TRUE(names_.Ended(Of(1), 0)) << "the only one";
}

TEST_F(RoutedNamesTest, WhoWaitsForTheListIsHandedBackAndNotRun) {
  bool ran = false;
  names_.WhenListed(kId, 1, [&ran] { ran = true; });
  names_.WhenListed(kId, 0, [] {});
  const auto waiting = names_.DirectoriesListed(kId, {}, [](Rank, std::uint64_t) {});
  EXPECT_FALSE(ran) << "it may be what is being looked through";
  ASSERT_EQ(waiting.size(), 2u);
  waiting.at(1)();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(names_.DirectoriesListed(kId, {}, [](Rank, std::uint64_t) {}).empty());
}

TEST_F(RoutedNamesTest, WhatIsForgottenHasNoNamesAnyMore) {
  ASSERT_OK(Take("a", 1));
  ASSERT_OK(Add("d"));
  ASSERT_OK(names_.Take(kOther, "a", 1, 0));
  names_.DirectoriesListed(kId, {}, [](Rank, std::uint64_t) {});
  names_.Forget(kId);
  EXPECT_OK(Take("a", 2));
  EXPECT_OK(Take("d/a", 2));
  EXPECT_FALSE(names_.AreListed(kId));
  EXPECT_STATUS(kInvalid, names_.Take(kOther, "a", 2, 0), "rank 1's");
}

// --- For growing outputs ---

TEST_F(RoutedNamesTest, APlaceIsARoutedDirectoryOrAFolderInWhichAnIndexWasRouted) {
  EXPECT_TRUE(names_.Places(kId).roots.empty());
  ASSERT_OK(Add("d"));
  ASSERT_OK(Take("out.bp/md.idx"));
  ASSERT_OK(Take("out.bp/data.0"));
  ASSERT_OK(Take("deep/er.bp/md.idx"));
  ASSERT_OK(Take("md.idx"));
  ASSERT_OK(Take("other.md.idx"));
  const OpenPlaces places = names_.Places(kId);
  EXPECT_EQ(places.roots, (std::map<std::string, std::string>{{"d", "/cache/d"}}));
  EXPECT_EQ(places.index_folders, (std::set<std::string>{"out.bp", "deep/er.bp"}));
}

}  // namespace
}  // namespace cairn
