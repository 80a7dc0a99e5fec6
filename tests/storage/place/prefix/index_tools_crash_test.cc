// The tools for a prefix's index under power failures.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "storage/base/path.h"
#include "storage/place/prefix/index_tools.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/fake_disk.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

struct Step {
  std::string name;
  std::function<absl::Status(FakeDisk&)> make;
  Ids after;
  std::string current;
  std::function<void(Site&)> prepare = [](Site&) {};
};

// As a scavenge leaves it.
void LeaveBehind(Site& site, DatasetId id) {
  for (const catalogue::Catalogue& catalogue : site.CataloguesOf(id)) {
    const std::string path = site.prefix->FilePath(catalogue.file(0).prefix_name());
    EXPECT_OK(MakeDirectories(site.disk, ParentOf(path)));
    EXPECT_OK(WriteTestFile(site.disk, path, TestContent(id + catalogue.rank(), site.content_bytes)));
    EXPECT_OK(site.prefix->StoreCatalogue(catalogue));
  }
}

// Of three datasets of Cairn's and one of SCR's.
TEST(IndexToolsCrashTest, AfterAPowerFailureAnywhereAToolHasDoneItsWorkOrNotAndCanDoItAgain) {
  const std::vector<Step> steps = {
      {"current", [](FakeDisk& disk) { return SetIndexCurrent(disk, kPath, "4"); }, {2, 3, 4, 5}, "ckpt.4"},
      {"drop", [](FakeDisk& disk) { return DropFromIndex(disk, kPath, "5"); }, {2, 3, 4}, "ckpt.4"},
      {"drop after", [](FakeDisk& disk) { return DropAfter(disk, kPath, "3").status(); }, {2, 3}, "ckpt.3"},
      {"remove", [](FakeDisk& disk) { return RemoveFromIndex(disk, kPath, "5"); }, {2, 3, 4}, "ckpt.4"},
      {"remove SCR's", [](FakeDisk& disk) { return RemoveFromIndex(disk, kPath, "2"); }, {3, 4, 5}, "ckpt.5"},
      {"remove from a full prefix",
       [](FakeDisk& disk) { return RemoveFromIndex(disk, kPath, "5"); },
       {2, 3, 4},
       "ckpt.4",
       [](Site& site) { site.FillUp(300); }},
      {"remove SCR's from a full prefix",
       [](FakeDisk& disk) { return RemoveFromIndex(disk, kPath, "2"); },
       {3, 4, 5},
       "ckpt.5",
       [](Site& site) { site.FillUp(300); }},
      {"add",
       [](FakeDisk& disk) { return AddToIndex(disk, kPath, "5").status(); },
       {2, 3, 4, 5},
       "ckpt.5",
       [](Site& site) { EXPECT_OK(DropFromIndex(site.disk, kPath, "5")); }},
      {"add SCR's",
       [](FakeDisk& disk) { return AddToIndex(disk, kPath, "2").status(); },
       {2, 3, 4, 5},
       "ckpt.5",
       [](Site& site) { EXPECT_OK(DropFromIndex(site.disk, kPath, "2")); }},
      {"build",
       [](FakeDisk& disk) { return BuildIndex(disk, kPath, 7).status(); },
       {2, 3, 4, 5, 7},
       "ckpt.7",
       [](Site& site) { LeaveBehind(site, 7); }},
  };
  for (const Step& step : steps) {
    bool done = false;
    for (std::uint64_t at = 1; !done; ++at) {
      for (std::uint64_t seed = 0; seed < 3; ++seed) {
        Site site;
        site.content_bytes = site.scr_bytes = 4000;
        site.PutScr(2);
        for (const DatasetId id : {3, 4, 5}) ASSERT_OK(site.Commit(id));
        step.prepare(site);
        const Ids before = site.Restorable();
        site.disk.SyncAll();
        site.disk.CrashAt(at);
        const absl::Status made = step.make(site.disk);
        done = made.ok();
        site.disk.Restart(seed);
        site.disk.SetCapacity(UINT64_MAX);
        site.Reopen();
        const Ids now = site.Restorable();
        EXPECT_TRUE(now == step.after || (!made.ok() && now == before)) << step.name << " at " << at;
        if (made.ok()) {
          EXPECT_EQ(site.Current(), step.current) << step.name;
          continue;
        }
        const absl::Status again = step.make(site.disk);
        EXPECT_TRUE(again.ok() || absl::IsNotFound(again) || absl::IsAlreadyExists(again))
            << step.name << " at " << at << ": " << again;
        EXPECT_EQ(site.Restorable(), step.after) << step.name << " at " << at;
        EXPECT_EQ(site.Current(), step.current) << step.name << " at " << at;
      }
    }
  }
}

}  // namespace
}  // namespace cairn
