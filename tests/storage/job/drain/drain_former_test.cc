// FTI's former checkpoints at the target: which a drain removes, and which it leaves.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/fti/execution.h"
#include "tests/storage/file/fti/sample_export.h"
#include "tests/storage/job/drain/drain_fixture.h"

namespace cairn {
namespace {

namespace fs = std::filesystem;
using testing::DrainFixture;

constexpr fti::Topology kTopology{.ranks = 4, .node_size = 2, .group_size = 2, .heads = false};

class DrainFormerTest : public DrainFixture {
 protected:
  DrainFormerTest() {
    options_.parallel = 1;
    Hook();
  }

  // All that there is in the folder from now on. Of FTI's folders that are empty then, FTI leaves those as well.
  void Checkpoint(std::int32_t id, const std::string& folder = "fti", fti::Level level = fti::Level::kLocal,
                  const std::string& execution = "cairn") {
    std::vector<std::string> folders;
    if (fs::exists(from_ + "/" + folder)) {
      for (const auto& entry : fs::recursive_directory_iterator(from_ + "/" + folder)) {
        if (entry.is_directory()) folders.push_back(entry.path());
      }
    }
    fs::remove_all(from_ + "/" + folder);
    testing::SampleExport sample(kTopology, level, ftiff::Letter::kF, id);
    sample.what.folder = from_ + "/" + folder;
    sample.what.execution = execution;
    ASSERT_OK(fti::Write(*disk_, sample.what));
    for (const std::string& before : folders) fs::create_directories(before);
  }
  // One of level 4, and one of level 1, whose folders tell the ranks of each node.
  void CheckpointOfTwoLevels(std::int32_t global, std::int32_t local) {
    Checkpoint(local, "sample");
    Checkpoint(global, "fti", fti::Level::kGlobal);
    fs::remove_all(from_ + "/fti/Local");
    fs::rename(from_ + "/sample/Local", from_ + "/fti/Local");
    fs::remove_all(from_ + "/sample");
  }
  // Another node's files lie in a folder of their own, and its drain has the same target.
  void GiveNode1ToOther() {
    fs::remove_all(other_);
    fs::create_directories(other_ + "/fti/Local");
    fs::rename(from_ + "/fti/Local/node1", other_ + "/fti/Local/node1");
  }
  DrainReport DrainedFromOther() {
    DrainOptions options = options_;
    options.from = other_;
    options.wrap_source = options.wrap_target = {};
    auto drain = Drain::Open(*disk_, options);
    if (!drain.ok()) return ADD_FAILURE() << drain.status(), DrainReport();
    auto report = (*drain)->Pass(stop_);
    EXPECT_OK(report);
    return report.ok() ? *std::move(report) : DrainReport();
  }
  void Anew() const {
    for (const std::string& folder : {from_, to_, other_}) {
      fs::remove_all(folder);
      fs::create_directory(folder);
    }
  }
  static void SetTimes(const std::string& root, fs::file_time_type time) {
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) fs::last_write_time(entry.path(), time);
    }
  }
  // Before the call at the target, once.
  void Before(std::string_view call, const std::string& path_part, const std::function<void()>& act) {
    target_hooks_.before = [=, done = false](std::string_view what, const std::string& path) mutable {
      if (what == call && path.find(path_part) != path.npos && !std::exchange(done, true)) act();
      return absl::OkStatus();
    };
  }

  const std::string other_ = folder_ + "/other";
  const std::string node0_ = "fti/Local/node0/cairn/", node1_ = "fti/Local/node1/cairn/";
};

TEST_F(DrainFormerTest, ACheckpointOfFtiTakesThePlaceOfItsFormerOne) {
  const std::string level = "fti/Local/node0/cairn/l1/", other = "fti/Local/node1/cairn/l1/";
  Checkpoint(3);
  EXPECT_EQ(Drained().former, 0U);
  // Not a drain's own; and what FTI's user keeps.
  std::ofstream(to_ + "/" + level + "Ckpt2-Rank0.fti") << "by hand";
  Put("fti/Global/cairn/l4_archive/Ckpt1-Rank0.fti", "kept");
  EXPECT_EQ(Drained().former, 0U);
  Checkpoint(5);
  // Of a node whose drain is behind nothing has come yet.
  std::filesystem::rename(from_ + "/fti/Local/node1", folder_ + "/node1");
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(level + "Ckpt3-Rank0.fti") && IsThere(level + "Ckpt5-Rank0.fti"));
  std::filesystem::rename(folder_ + "/node1", from_ + "/fti/Local/node1");
  EXPECT_EQ(Drained().former, 4U);
  for (const char* rank : {"0", "1"}) EXPECT_FALSE(IsThere(level + "Ckpt3-Rank" + rank + ".fti"));
  for (const char* rank : {"2", "3"}) EXPECT_FALSE(IsThere(other + "Ckpt3-Rank" + rank + ".fti"));
  EXPECT_TRUE(IsThere(level + "Ckpt2-Rank0.fti") && IsThere("fti/Global/cairn/l4_archive/Ckpt1-Rank0.fti"));
  EXPECT_TRUE(IsThere(level + "Ckpt5-Rank0.fti") && IsThere(other + "Ckpt5-Rank3.fti"));
  // An older one that comes again is brought again, and takes no newer one's place.
  Checkpoint(4);
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(level + "Ckpt4-Rank0.fti") && IsThere(level + "Ckpt5-Rank0.fti"));
}

// FTI has begun anew, or gone back: its numbers do not only grow.
TEST_F(DrainFormerTest, AnOlderCheckpointOfAHigherNumberTakesNobodysPlace) {
  Checkpoint(5);
  Drained();
  options_.delete_source = true;
  Checkpoint(4);
  Drained();
  Checkpoint(6);
  std::filesystem::rename(from_ + "/fti/Local/node1", folder_ + "/node1");
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere("fti/Local/node0/cairn/l1/Ckpt4-Rank0.fti"));
}

TEST_F(DrainFormerTest, OfTwoApplicationsWithOneIdNothingIsRemoved) {
  options_.delete_source = true;
  Checkpoint(3, "a");
  Drained();
  Checkpoint(5, "b");
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere("a/Local/node0/cairn/l1/Ckpt3-Rank0.fti"));
}

TEST_F(DrainFormerTest, WhatWasRefusedIsNoPartOfANewerCheckpoint) {
  const std::string level = "fti/Local/node0/cairn/l1/";
  Checkpoint(3);
  Drained();
  std::ofstream(to_ + "/" + level + "Ckpt5-Rank0.fti") << "half of it, by hand";
  Checkpoint(5);
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(level + "Ckpt3-Rank1.fti"));
}

// FTI keeps the last checkpoint of each level, and restarts from the newest of all.
TEST_F(DrainFormerTest, ALowerLevelTakesNoHigherOnesPlaceAHigherOneTakesThatOfAll) {
  using enum fti::Level;
  const std::vector<std::pair<fti::Level, std::string>> levels = {{kLocal, node0_ + "l1/"},
                                                                  {kPartner, node0_ + "l2/"},
                                                                  {kEncoded, node0_ + "l3/"},
                                                                  {kGlobal, "fti/Global/cairn/l4/"}};
  for (std::size_t at = 1; at < levels.size(); ++at) {
    Anew();
    Checkpoint(3, "fti", levels[at].first);
    Drained();
    Checkpoint(5, "fti", levels[at - 1].first);
    EXPECT_EQ(Drained().former, 0U) << at;
    EXPECT_TRUE(IsThere(levels[at].second + "Ckpt3-Rank0.fti")) << at;
    Checkpoint(6, "fti", levels[at].first);
    EXPECT_GT(Drained().former, 0U) << at;
    EXPECT_FALSE(IsThere(levels[at].second + "Ckpt3-Rank0.fti")) << at;
    EXPECT_FALSE(IsThere(levels[at - 1].second + "Ckpt5-Rank0.fti")) << at;
    EXPECT_TRUE(IsThere(levels[at].second + "Ckpt6-Rank0.fti")) << at;
  }
}

TEST_F(DrainFormerTest, AllThatALevelsFolderHasOfTheFormerOneGoes) {
  Checkpoint(3, "fti", fti::Level::kPartner);
  Put("fti/Local/node0/cairn/lL4Dir/Ckpt2-Rank0.fti", ReadPath(from_ + "/" + node0_ + "l2/Ckpt3-Rank0.fti"));
  Drained();
  Checkpoint(5, "fti", fti::Level::kPartner);
  EXPECT_EQ(Drained().former, 8U) << "files and copies, but of level 4 nothing";
  EXPECT_FALSE(IsThere(node0_ + "l2/Ckpt3-Pcof0.fti"));
  EXPECT_TRUE(IsThere(node0_ + "lL4Dir/Ckpt2-Rank0.fti"));
  Checkpoint(6, "fti", fti::Level::kGlobal);
  EXPECT_EQ(Drained().former, 9U);
  EXPECT_FALSE(IsThere(node0_ + "lL4Dir/Ckpt2-Rank0.fti"));
}

TEST_F(DrainFormerTest, WhatFtisUserKeepsAndWhatIsNoCheckpointFileStays) {
  CheckpointOfTwoLevels(3, 2);
  const std::string file = ReadPath(from_ + "/fti/Global/cairn/l4/Ckpt3-Rank0.fti");
  const std::vector<std::string> names = {
      "fti/Global/cairn/l4_archive/Ckpt1-Rank0.fti", "fti/Global/cairn/dCP/Ckpt1-Rank0.fti",
      "fti/Global/cairn/l4/dCPFile-Rank0.fti", "fti/Global/cairn/l4/Ckpt1-Rank0.fti.old"};
  for (const std::string& name : names) Put(name, file);
  fs::create_symlink("Ckpt3-Rank0.fti", from_ + "/fti/Global/cairn/l4/Ckpt2-Rank0.fti");
  Drained();
  CheckpointOfTwoLevels(5, 4);
  EXPECT_EQ(Drained().former, 8U);
  EXPECT_FALSE(IsThere("fti/Global/cairn/l4/Ckpt3-Rank0.fti"));
  EXPECT_FALSE(IsThere(node0_ + "l1/Ckpt2-Rank0.fti"));
  for (const std::string& name : names) EXPECT_TRUE(IsThere(name)) << name;
  EXPECT_TRUE(IsThere("fti/Global/cairn/l4/Ckpt2-Rank0.fti")) << "a link";
}

TEST_F(DrainFormerTest, DifferentialFilesTakeNobodysPlaceAndAreInNobodysWay) {
  Checkpoint(3);
  Drained();
  Checkpoint(9);
  for (const char* rank : {"0", "1", "2", "3"}) {
    const std::string node = std::string("/fti/Local/node") + (*rank < '2' ? "0" : "1") + "/cairn/l1/Ckpt9-Rank" + rank;
    Put(std::string("fti/Global/cairn/dCP/dCPFile-Rank") + rank + ".fti", ReadPath(from_ + node + ".fti"));
    fs::remove(from_ + node + ".fti");
  }
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
  Checkpoint(5);
  EXPECT_EQ(Drained().former, 4U) << "although the differential files lie in another folder than those of level 1";
}

TEST_F(DrainFormerTest, OneNumberAtTwoLevelsIsOneCheckpoint) {
  Checkpoint(3);
  Drained();
  Checkpoint(3, "fti", fti::Level::kGlobal);
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
}

TEST_F(DrainFormerTest, WhatTheSourceStillHasStays) {
  Checkpoint(3);
  fs::rename(from_ + "/fti", folder_ + "/three");
  Checkpoint(5);
  fs::copy(folder_ + "/three", from_ + "/fti", fs::copy_options::recursive | fs::copy_options::skip_existing);
  Drained();
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
}

TEST_F(DrainFormerTest, OnlyWhatADrainHasMadeAndNobodyHasChangedGoes) {
  Checkpoint(3);
  const std::string found = node0_ + "l1/Ckpt3-Rank0.fti", changed = node0_ + "l1/Ckpt3-Rank1.fti";
  fs::create_directories(to_ + "/" + node0_ + "l1");
  fs::copy_file(from_ + "/" + found, to_ + "/" + found);  // the same, by hand
  EXPECT_EQ(Drained().there_files, 1U);
  std::ofstream(to_ + "/" + changed, std::ios::app) << "more";
  Checkpoint(5);
  EXPECT_EQ(Drained().former, 2U);
  EXPECT_TRUE(IsThere(found));
  EXPECT_TRUE(IsThere(changed));
  EXPECT_FALSE(IsThere(node1_ + "l1/Ckpt3-Rank2.fti"));
}

TEST_F(DrainFormerTest, AnotherExecutionsCheckpointsAreItsOwn) {
  Checkpoint(3, "fti", fti::Level::kLocal, "other");
  Drained();
  const std::string others = "fti/Local/node0/other/l1/";
  Checkpoint(5);
  fs::create_directories(from_ + "/" + others);
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(others + "Ckpt3-Rank0.fti"));
}

// Two applications, of which one has kept files of another kind than the other.
TEST_F(DrainFormerTest, CopiesAndFilesThatAreThereTwiceTellOfTwoApplications) {
  const auto expect_none = [&](const std::string& from, const std::string& to) {
    Checkpoint(5);
    fs::create_directories(from_ + "/two/Local/node0/cairn/" + to.substr(0, to.find('/')));
    fs::rename(from, from_ + "/two/Local/node0/cairn/" + to);
    EXPECT_EQ(Drained().former, 0U) << to;
    EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti")) << to;
  };
  Checkpoint(3);
  Drained();
  Checkpoint(4, "sample", fti::Level::kPartner);
  const std::string copy = folder_ + "/copy", code = folder_ + "/code";
  fs::rename(from_ + "/sample/Local/node0/cairn/l2/Ckpt4-Pcof0.fti", copy);
  fs::remove_all(from_ + "/sample");
  Checkpoint(4, "sample", fti::Level::kEncoded);
  fs::rename(from_ + "/sample/Local/node0/cairn/l3/Ckpt4-RSed0.fti", code);
  fs::remove_all(from_ + "/sample");
  expect_none(copy, "l2/Ckpt4-Pcof0.fti");

  Anew();
  Checkpoint(3);
  Drained();
  expect_none(code, "l3/Ckpt4-RSed0.fti");

  Anew();
  Checkpoint(3);
  Drained();
  Checkpoint(5, "fti");
  const std::string twice = folder_ + "/twice";
  fs::copy_file(from_ + "/" + node0_ + "l1/Ckpt5-Rank0.fti", twice);
  expect_none(twice, "l1/Ckpt5-Rank0.fti");
}

TEST_F(DrainFormerTest, EachNodesDrainRemovesItsOwnOnceAllNodesFilesAreThere) {
  Checkpoint(3);
  GiveNode1ToOther();
  Drained();
  DrainedFromOther();
  Checkpoint(5);
  GiveNode1ToOther();
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_EQ(DrainedFromOther().former, 2U);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
  EXPECT_FALSE(IsThere(node1_ + "l1/Ckpt3-Rank2.fti"));
  EXPECT_EQ(Drained().former, 2U);
  EXPECT_FALSE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
}

// What others have renamed may not be durable under its name yet.
TEST_F(DrainFormerTest, TheNewOnesNamesAreDurableBeforeTheFormerOneGoesAndThatIsDurableInTheEnd) {
  for (const bool as_a_whole : {true, false}) {
    Anew();
    target_hooks_ = {};
    target_hooks_.syncs_each = !as_a_whole;
    Checkpoint(3);
    GiveNode1ToOther();
    Drained();
    Checkpoint(5);
    GiveNode1ToOther();
    Drained();
    DrainedFromOther();
    std::vector<std::string> calls;
    target_hooks_.before = [&](std::string_view what, const std::string& path) {
      const bool work = path.find(".cairn-drain-") != path.npos;
      const bool counts = what == "remove" || what == "sync folder" || what == "sync all" || what == "rename to";
      if (counts && !work) calls.push_back(std::string(what) + " " + path);
      return absl::OkStatus();
    };
    EXPECT_EQ(Drained().former, 2U);
    const auto is = [](std::string_view begin) {
      return [begin](const std::string& call) { return call.starts_with(begin); };
    };
    EXPECT_TRUE(std::ranges::none_of(calls, is("rename to"))) << "else its own sync counts";
    const auto first = std::ranges::find_if(calls, is("remove "));
    const auto synced = [&](const std::string& call) { return std::find(calls.begin(), first, call) != first; };
    if (target_hooks_.syncs_each) {
      for (std::string folder : {node0_ + "l1", node1_ + "l1"}) {
        for (; !folder.empty(); folder = fs::path(folder).parent_path().string()) {
          EXPECT_TRUE(synced("sync folder " + folder)) << folder;
        }
      }
      EXPECT_TRUE(synced("sync folder "));
    } else {
      EXPECT_TRUE(synced("sync all ") || synced("sync folder "));
    }
    const auto last = std::find_if(calls.rbegin(), calls.rend(), is("remove ")).base();
    EXPECT_TRUE(std::find(last, calls.end(), "sync folder " + node0_ + "l1") != calls.end());
  }
}

TEST_F(DrainFormerTest, APassThatIsStoppedOrHasNoRoomRemovesNothing) {
  Checkpoint(3);
  Drained();
  Checkpoint(5);
  Before("rename to", "config.fti", [this] { stop_ = true; });
  EXPECT_EQ(Drained().former, 0U);
  stop_ = false;
  EXPECT_TRUE(IsThere("fti/config.fti"));
  Put("more", "bytes");
  target_hooks_.before = [](std::string_view what, const std::string& path) {
    return what == "write" && path.find("/work/") != path.npos ? ResourceExhausted("no room") : absl::OkStatus();
  };
  const DrainReport full = Drained();
  EXPECT_TRUE(full.full);
  EXPECT_EQ(full.former, 0U);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
  target_hooks_.before = testing::TreeHooks().before;
  EXPECT_EQ(Drained().former, 4U);
}

TEST_F(DrainFormerTest, WhereNotAllCouldBeListedNothingIsRemoved) {
  Checkpoint(3);
  Put("locked/file", "x");
  Drained();
  Checkpoint(5);
  source_hooks_.before = [](std::string_view what, const std::string& path) {
    return what == "list" && path == "locked" ? PermissionDenied("not for you") : absl::OkStatus();
  };
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
  source_hooks_.before = testing::TreeHooks().before;
  EXPECT_EQ(Drained().former, 4U);
}

// Nothing is removed where the target is now because of what lies where it was.
TEST_F(DrainFormerTest, ATargetThatWasMovedAwayKeepsAll) {
  Checkpoint(3);
  Drained();
  Checkpoint(5);
  bool named = false;
  target_hooks_.before = [&, moved = false](std::string_view what, const std::string& path) mutable {
    named = named || (what == "rename to" && path == "fti/config.fti");
    if (named && what == "list" && path == "fti/Local/node0/cairn" && !std::exchange(moved, true)) {
      fs::rename(to_, folder_ + "/away");
      fs::copy(folder_ + "/away", to_, fs::copy_options::recursive);
    }
    return absl::OkStatus();
  };
  EXPECT_FALSE(Run().ok());
  EXPECT_TRUE(Is(folder_ + "/away/" + node0_ + "l1/Ckpt3-Rank0.fti"));
}

TEST_F(DrainFormerTest, OfOneAgeTheHigherNumberIsTheNewer) {
  const auto time = fs::file_time_type::clock::now() - std::chrono::hours(1);
  Checkpoint(3);
  SetTimes(from_, time);
  Drained();
  Checkpoint(5);
  SetTimes(from_, time);
  EXPECT_EQ(Drained().former, 4U);
}

TEST_F(DrainFormerTest, WhatCannotBeSeenIsNotTheNewer) {
  Checkpoint(3);
  Drained();
  Checkpoint(5);
  bool looks = false;
  target_hooks_.before = [&](std::string_view what, const std::string& path) {
    looks = looks || (what == "list" && path.ends_with("/l1"));
    const bool newer = path.find("Ckpt5-Rank") != path.npos;
    return looks && what == "info" && newer ? Unavailable("hangs") : absl::OkStatus();
  };
  EXPECT_EQ(Drained().former, 0U);
  EXPECT_TRUE(looks);
  EXPECT_TRUE(IsThere(node0_ + "l1/Ckpt3-Rank0.fti"));
}

TEST_F(DrainFormerTest, WhatIsAnothersAtTheLastMomentStaysAndWhatHasGoneIsGone) {
  Checkpoint(3);
  Drained();
  Checkpoint(5);
  const std::string changed = node0_ + "l1/Ckpt3-Rank0.fti", gone = node0_ + "l1/Ckpt3-Rank1.fti",
                    refused = node1_ + "l1/Ckpt3-Rank2.fti";
  bool looked = false, replaced = false;
  target_hooks_.before = [&](std::string_view what, const std::string& path) -> absl::Status {
    looked = looked || (what == "list" && path == node1_ + "l1");  // what is former is known
    if (looked && (what == "sync all" || what == "sync folder") && !std::exchange(replaced, true)) {
      std::ofstream(to_ + "/" + changed) << "by hand";
    }
    if (what == "remove" && path == gone) fs::remove(to_ + "/" + gone);
    if (what == "remove" && path == refused) return PermissionDenied("not for you");
    return absl::OkStatus();
  };
  const DrainReport report = Drained();
  EXPECT_TRUE(replaced);
  EXPECT_EQ(At(changed), "by hand");
  EXPECT_EQ(report.former, 2U);
  EXPECT_EQ(report.failed.count(), 1U);
  EXPECT_EQ(Why(report.failed, refused), "a newer checkpoint has come: not for you");
  EXPECT_TRUE(IsThere(refused));
}

// The drain that removed it does not take it for one that it has brought.
TEST_F(DrainFormerTest, OneThatComesBackIsBroughtAgain) {
  Checkpoint(3);
  const std::string file = node0_ + "l1/Ckpt3-Rank0.fti", kept = folder_ + "/kept";
  fs::create_hard_link(from_ + "/" + file, kept);
  auto drain = Drain::Open(*disk_, options_);
  ASSERT_OK(drain);
  ASSERT_OK((*drain)->Pass(stop_));
  Checkpoint(5);
  auto report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_EQ(report->former, 4U);
  fs::create_hard_link(kept, from_ + "/" + file);
  report = (*drain)->Pass(stop_);
  ASSERT_OK(report);
  EXPECT_EQ(report->files, 1U);
  EXPECT_TRUE(IsThere(file));
}

}  // namespace
}  // namespace cairn
