// removed.cairn: removed from the prefix, or from everywhere.
#include <gtest/gtest.h>

#include <string>

#include "storage/io/disk.h"
#include "tests/storage/place/prefix/site.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

constexpr char kRecord[] = "/pfs/demo/.scr/scr.dataset.4/removed.cairn";

class RemovedRecordTest : public ::testing::Test {
 protected:
  bool ByUser(DatasetId id) {
    const auto by_user = site.prefix->WasRemovedByUser(id);
    EXPECT_OK(by_user.status());
    return by_user.ok() && *by_user;
  }
  Site site;
};

TEST_F(RemovedRecordTest, WhatWasNeverHereIsNotedAndNeverComes) {
  EXPECT_FALSE(ByUser(4));
  ASSERT_OK(site.prefix->NoteRemovedByUser(4));
  EXPECT_TRUE(ByUser(4));
  EXPECT_FALSE(ByUser(5));
  ASSERT_OK(site.Arrive(4));
  EXPECT_STATUS(kFailedPrecondition, site.Commit(4), "was removed");
  ASSERT_OK(site.prefix->NoteRemovedByUser(4));
  const auto contents = site.prefix->Contents();
  ASSERT_OK(contents.status());
  EXPECT_TRUE(contents->removed.contains(4));
  EXPECT_TRUE(ByUser(4)) << "a look leaves it";
}

TEST_F(RemovedRecordTest, WhatPolicyHasRemovedStaysInCachesUntilTheUserSaysSo) {
  ASSERT_OK(site.Arrive(4));
  ASSERT_OK(site.Commit(4));
  EXPECT_STATUS(kFailedPrecondition, site.prefix->NoteRemovedByUser(4), "committed");
  ASSERT_OK(site.prefix->Remove(4, site.CataloguesOf(4)));
  EXPECT_FALSE(ByUser(4));
  ASSERT_OK(site.prefix->NoteRemovedByUser(4));
  EXPECT_TRUE(ByUser(4));
}

TEST_F(RemovedRecordTest, ADamagedOneIsNoWordOfTheUser) {
  ASSERT_OK(site.prefix->NoteRemovedByUser(4));
  site.disk.FlipBit(kRecord, 100);
  EXPECT_STATUS(kDataLoss, site.prefix->WasRemovedByUser(4).status(), "removed.cairn");
}

// At whichever operation the power fails: what was answered is so, and of what was not answered nothing is half.
TEST_F(RemovedRecordTest, WhatWasAnsweredOutlivesThePower) {
  bool answered = false;
  for (std::uint64_t at = 1; !answered; ++at) {
    ASSERT_LT(at, 100u);
    Site cut;
    ASSERT_OK(cut.Commit(4));
    ASSERT_OK(cut.prefix->Remove(4, cut.CataloguesOf(4)));
    cut.disk.CrashAt(at);
    const bool done = cut.prefix->NoteRemovedByUser(4).ok() && cut.prefix->NoteRemovedByUser(9).ok();
    cut.disk.Restart(at);
    cut.Reopen();
    answered = done;
    for (const DatasetId id : {4, 9}) {
      const auto by_user = cut.prefix->WasRemovedByUser(id);
      ASSERT_OK(by_user.status());
      EXPECT_TRUE(*by_user || !done) << id << " at operation " << at;
    }
  }
}

}  // namespace
}  // namespace cairn
