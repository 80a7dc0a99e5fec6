// One order of protection for all ranks, or why there is none.
#include "storage/job/export/protect_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::ElementsAre;

// A rank for each list; an id above 100 is a value, called by it.
std::vector<catalogue::Catalogue> Ranks(const std::vector<std::vector<std::int32_t>>& ids) {
  std::vector<catalogue::Catalogue> catalogues(ids.size());
  for (std::size_t rank = 0; rank < ids.size(); ++rank) {
    for (const std::int32_t id : ids[rank]) {
      local::Variable& variable = *catalogues[rank].add_variables();
      variable.set_id(id);
      if (id > 100) variable.set_name(std::to_string(id));
    }
  }
  return catalogues;
}

std::vector<std::int32_t> IdsOf(const std::vector<std::vector<std::int32_t>>& ids) {
  const auto order = ProtectOrder(Ranks(ids));
  EXPECT_OK(order);
  std::vector<std::int32_t> joined;
  if (!order.ok()) return joined;
  for (const ProtectedVariable& variable : *order) joined.push_back(variable.id);
  return joined;
}

TEST(ProtectOrderTest, TheOrderIsThatOfTheRanksWithTheNames) {
  const auto order = ProtectOrder(Ranks({{7, 101, 3}, {7, 101, 3}}));
  ASSERT_OK(order);
  EXPECT_THAT(*order, ElementsAre(ProtectedVariable{7, ""}, ProtectedVariable{101, "101"}, ProtectedVariable{3, ""}));
}

TEST(ProtectOrderTest, WhatSomeRanksLackStandsBetweenItsNeighbours) {
  EXPECT_THAT(IdsOf({{1, 3}, {1, 2, 3}, {3, 4}, {}}), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(IdsOf({{1, 3}, {1, 2}, {3, 2}}), ElementsAre(1, 3, 2));
  EXPECT_THAT(IdsOf({{5}, {4, 5}}), ElementsAre(4, 5));
  EXPECT_THAT(IdsOf({}), ElementsAre());
}

TEST(ProtectOrderTest, OrdersThatContradictEachOtherAreNamed) {
  const auto two = ProtectOrder(Ranks({{1, 2, 9}, {1, 2, 9}, {2, 1, 9}}));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, two, "rank 0 protects variable 1 before 2");
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, two, "rank 2 protects variable 2 before 1");
  const auto three = ProtectOrder(Ranks({{8, 1, 2}, {2, 3}, {3, 1}}));
  for (const char* part : {"rank 0 protects variable 1 before 2", "rank 1 protects variable 2 before 3",
                           "rank 2 protects variable 3 before 1"}) {
    EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, three, part);
  }
}

TEST(ProtectOrderTest, ALongContradictionIsCutShort) {
  std::vector<std::vector<std::int32_t>> ranks;
  for (std::int32_t id = 0; id < 50; ++id) ranks.push_back({id, (id + 1) % 50});
  const auto refused = ProtectOrder(Ranks(ranks));
  EXPECT_STATUS(absl::StatusCode::kFailedPrecondition, refused, "and so on");
  EXPECT_LT(refused.status().message().size(), 500u);
}

}  // namespace
}  // namespace cairn
