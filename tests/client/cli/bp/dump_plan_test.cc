#include "client/cli/bp/dump_plan.h"

#include <gtest/gtest.h>

#include "storage/base/status.h"
#include "tests/support/status_matchers.h"

namespace cairn::cli {
namespace {

bp5::Variable Written(bp5::Kind kind, std::vector<std::uint32_t> steps) {
  bp5::Variable variable;
  variable.name = "T";
  variable.kind = kind;
  variable.steps = std::move(steps);
  return variable;
}

std::vector<std::uint32_t> Steps(const bp5::Variable& variable, const std::string& step, bool relative = false) {
  const auto steps = StepsOf(variable, 10, {.step = step, .relative = relative, .start = {}, .count = {}, .block = {}});
  EXPECT_OK(steps.status());
  return steps.ok() ? *steps : std::vector<std::uint32_t>();
}

absl::Status Refused(const bp5::Variable& variable, const std::string& step, bool relative = false) {
  return StepsOf(variable, 10, {.step = step, .relative = relative, .start = {}, .count = {}, .block = {}}).status();
}

using Numbers = std::vector<std::uint32_t>;

TEST(StepsOfTest, WithoutAStepScalarsHaveAllAndArraysTheirLast) {
  EXPECT_EQ(Steps(Written(bp5::Kind::kGlobalValue, {1, 4, 7}), ""), (Numbers{1, 4, 7}));
  EXPECT_EQ(Steps(Written(bp5::Kind::kLocalValue, {1, 4, 7}), ""), (Numbers{1, 4, 7}));
  EXPECT_EQ(Steps(Written(bp5::Kind::kGlobalArray, {1, 4, 7}), ""), Numbers{7});
}

TEST(StepsOfTest, StepsCountOverTheDirectoryOrTheVariablesOwn) {
  const bp5::Variable variable = Written(bp5::Kind::kGlobalArray, {1, 4, 7});
  EXPECT_EQ(Steps(variable, "4"), Numbers{4});
  EXPECT_EQ(Steps(variable, "2", true), Numbers{7});
  EXPECT_EQ(Steps(variable, "-1"), Numbers{7});
  EXPECT_EQ(Steps(variable, "-3"), Numbers{1});
  EXPECT_EQ(Steps(variable, "all"), (Numbers{1, 4, 7}));
}

TEST(StepsOfTest, AStepWithoutTheVariableIsNotFoundAndTheOthersAreTold) {
  const absl::Status status = Refused(Written(bp5::Kind::kGlobalArray, {0, 2, 3, 4, 9}), "5");
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(MessageOf(status), "T was not written in step 5; it was in 0, 2 to 4, 9");
}

TEST(StepsOfTest, NoNumbersAndStepsThatAreNotThereAreRefused) {
  const bp5::Variable variable = Written(bp5::Kind::kGlobalArray, {1, 4, 7});
  for (const char* const step : {"x", "1x", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Refused(variable, step))) << step;
  }
  for (const char* const step : {"10", "-4"}) EXPECT_TRUE(absl::IsNotFound(Refused(variable, step))) << step;
  EXPECT_TRUE(absl::IsNotFound(Refused(variable, "3", true)));
}

TEST(ParseNumbersTest, TakesListsOfNumbersAndNothingElse) {
  EXPECT_EQ(*ParseNumbers("--start", "0,-10,7"), (std::vector<std::int64_t>{0, -10, 7}));
  EXPECT_TRUE(ParseNumbers("--start", "")->empty());
  for (const char* const text : {",", "1,", "1,,2", "a", "1 2", "1;2", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseNumbers("--start", text).status())) << text;
  }
}

Box Chosen(std::vector<std::int64_t> start, std::vector<std::int64_t> count) {
  const auto box =
      BoxOf(Extents{7, 11}, {.step = "", .start = std::move(start), .count = std::move(count), .block = {}});
  EXPECT_OK(box.status());
  return box.ok() ? *box : Box();
}

TEST(BoxOfTest, StartsCountFromTheEndToo) {
  EXPECT_EQ(Chosen({}, {}), (Box{{0, 0}, {7, 11}}));
  EXPECT_EQ(Chosen({2, 3}, {}), (Box{{2, 3}, {5, 8}}));
  EXPECT_EQ(Chosen({-2, 3}, {1, -1}), (Box{{5, 3}, {1, 8}}));
  EXPECT_EQ(Chosen({}, {-2, 0}), (Box{{0, 0}, {6, 0}}));
  EXPECT_EQ(Chosen({7, 11}, {}), (Box{{7, 11}, {0, 0}}));
}

TEST(BoxOfTest, WhatLeavesTheArrayIsRefusedAndNamesTheDimension) {
  const auto refuse = [](std::vector<std::int64_t> start, std::vector<std::int64_t> count, std::string_view part) {
    const auto box =
        BoxOf(Extents{7, 11}, {.step = "", .start = std::move(start), .count = std::move(count), .block = {}});
    EXPECT_TRUE(absl::IsInvalidArgument(box.status())) << box.status();
    EXPECT_NE(MessageOf(box.status()).find(part), std::string_view::npos) << box.status();
  };
  refuse({0, 12}, {}, "dimension 1: outside of {7, 11}");
  refuse({-8, 0}, {}, "dimension 0");
  refuse({3, 0}, {5, 1}, "start 3 and count 5 in dimension 0");
  refuse({3, 0}, {INT64_MAX, 1}, "dimension 0");
  refuse({3, 0}, {INT64_MIN, 1}, "dimension 0");
  refuse({INT64_MIN, 0}, {}, "dimension 0");
  refuse({1}, {}, "1 numbers for an array of 2 dimensions");
}

}  // namespace
}  // namespace cairn::cli
