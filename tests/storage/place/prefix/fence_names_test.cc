// Names that say under which launch something was committed or removed.
#include "storage/place/prefix/fence_names.h"

#include <gtest/gtest.h>

namespace cairn::fence_names {
namespace {

TEST(FenceNamesTest, NamesAreReadAsTheyWereMade) {
  EXPECT_EQ(CommitOf(12), "commit.12.cairn");
  EXPECT_EQ(CommitterOf("commit.12.cairn"), 12u);
  EXPECT_EQ(RemovalMark(3, 12), "remove.3.12.cairn");
  EXPECT_EQ(ParseRemovalMark("remove.3.12.cairn"), std::pair(DatasetId{3}, LaunchId{12}));
}

TEST(FenceNamesTest, OtherNamesAreNone) {
  for (const char* name :
       {"commit.cairn", "commit..cairn", "commit.0.cairn", "commit.01.cairn", "commit.1.cairn.work", "commit.x.cairn",
        "commit.-1.cairn", "xcommit.1.cairn", "commit.99999999999999999999.cairn", "removed.cairn", ""}) {
    EXPECT_FALSE(CommitterOf(name).has_value()) << name;
  }
  for (const char* name :
       {"remove.3.cairn", "remove.3.0.cairn", "remove.0.3.cairn", "remove.3.12", "remove..12.cairn", "remove.3..cairn",
        "remove.3.12.13.cairn", "remove.03.12.cairn", "removed.cairn", ".cairn", ""}) {
    EXPECT_FALSE(ParseRemovalMark(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace cairn::fence_names
