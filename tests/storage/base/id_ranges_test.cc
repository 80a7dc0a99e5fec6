// Sets of ids as ranges.
#include "storage/base/id_ranges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace cairn {
namespace {

using Map = std::map<DatasetId, DatasetId>;

TEST(IdRangesTest, NeighboursBecomeOneRange) {
  IdRanges ids;
  EXPECT_TRUE(ids.empty());
  ids.Add(5);
  ids.Add(7);
  EXPECT_EQ(ids.ranges(), (Map{{5, 5}, {7, 7}}));
  ids.Add(6);
  EXPECT_EQ(ids.ranges(), (Map{{5, 7}}));
  ids.AddRange(1, 100);
  EXPECT_EQ(ids.ranges(), (Map{{1, 100}}));
}

TEST(IdRangesTest, RemovingFromTheMiddleLeavesTwoRanges) {
  IdRanges ids;
  ids.AddRange(1, 5);
  ids.Remove(3);
  EXPECT_EQ(ids.ranges(), (Map{{1, 2}, {4, 5}}));
  ids.Remove(1);
  ids.Remove(5);
  ids.Remove(9);
  EXPECT_EQ(ids.ranges(), (Map{{2, 2}, {4, 4}}));
  ids.Remove(2);
  ids.Remove(4);
  EXPECT_TRUE(ids.empty());
}

TEST(IdRangesTest, RandomChangesAreThoseOfAPlainSet) {
  std::mt19937_64 random(17);
  for (int round = 0; round < 50; ++round) {
    IdRanges ids;
    std::set<DatasetId> model;
    for (int step = 0; step < 100; ++step) {
      const DatasetId first = 1 + random() % 40, last = first + random() % 6;
      if (random() % 3 == 0) {
        ids.Remove(first);
        model.erase(first);
      } else {
        ids.AddRange(first, last);
        for (DatasetId id = first; id <= last; ++id) model.insert(id);
      }
      DatasetId before = 0;
      for (const auto& [from, to] : ids.ranges()) {
        ASSERT_LE(from, to);
        ASSERT_GT(from, before);  // apart: two that touch are one
        before = to + 1;
      }
      for (DatasetId id = 0; id < 50; ++id) ASSERT_EQ(ids.Contains(id), model.contains(id)) << id;
    }
  }
}

}  // namespace
}  // namespace cairn
