#include "client/cli/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/status_matchers.h"

namespace cairn::cli {
namespace {

using ::testing::ElementsAre;

TEST(NodeListTest, IsExpandedAsScontrolDoes) {
  EXPECT_THAT(*ExpandNodeList("n1"), ElementsAre("n1"));
  EXPECT_THAT(*ExpandNodeList("n1,login-2"), ElementsAre("n1", "login-2"));
  EXPECT_THAT(*ExpandNodeList("cn[008-010,200],gpu7"), ElementsAre("cn008", "cn009", "cn010", "cn200", "gpu7"));
  EXPECT_THAT(*ExpandNodeList("r[1-2]n[3-4]-ib"), ElementsAre("r1n3-ib", "r1n4-ib", "r2n3-ib", "r2n4-ib"));
  EXPECT_THAT(*ExpandNodeList("n[9-11]"), ElementsAre("n9", "n10", "n11"));
  EXPECT_EQ(ExpandNodeList("n[00001-10000]")->size(), 10000u);
}

TEST(NodeListTest, WhatIsNoneIsRefused) {
  for (const char* list : {"", ",", "n1,", "n[", "n]", "n[]", "n[1-]", "n[2-1]", "n[a]", "n[1-2", "n[1]]", "n[-1]"}) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ExpandNodeList(list), "not a list of hosts") << list;
  }
}

TEST(NodeListTest, ThereIsAnEnd) {
  for (const char* list : {"n[0-999999999999]", "n[1-400]m[1-400]", "n[1-100000],m[1-100000]", "n[1-99999,1-99999]"}) {
    EXPECT_STATUS(absl::StatusCode::kInvalidArgument, ExpandNodeList(list), "more than 131072 hosts") << list;
  }
}

}  // namespace
}  // namespace cairn::cli
