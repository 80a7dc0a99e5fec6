#include "storage/place/age.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

using Maker = Age::Maker;

Age OfLaunch(LaunchId launch, DatasetId id, std::int64_t created_us) {
  return {.maker = Maker::kLaunch, .launch = launch, .created_us = created_us, .id = id};
}
Age Adopted(DatasetId id, std::int64_t created_us) {
  return {.maker = Maker::kAdopted, .launch = 0, .created_us = created_us, .id = id};
}
Age Scrs(DatasetId id, std::int64_t created_us) {
  return {.maker = Maker::kScr, .launch = 0, .created_us = created_us, .id = id};
}
void ExpectNewer(const Age& newer, const Age& older) {
  EXPECT_TRUE(IsNewer(newer, older));
  EXPECT_FALSE(IsNewer(older, newer));
}

TEST(AgeTest, LaunchesCountMoreThanNumbersAndClocks) {
  ExpectNewer(OfLaunch(2, 5, 10), OfLaunch(1, 9, 20));
  ExpectNewer(OfLaunch(2, 6, 10), OfLaunch(2, 5, 20));
}

TEST(AgeTest, ScrsIsNewerByAHigherNumberOrALaterTime) {
  ExpectNewer(Scrs(5, 20), OfLaunch(1, 4, 10));
  ExpectNewer(Scrs(5, 10), OfLaunch(1, 4, 20));  // SCR has seen number 4, whatever the clocks say
  ExpectNewer(Scrs(3, 20), OfLaunch(1, 4, 10));  // it had gone back
  ExpectNewer(OfLaunch(1, 4, 20), Scrs(3, 10));
}

TEST(AgeTest, OfOneNumberTheLaterOneIsNewer) {
  ExpectNewer(Scrs(4, 20), OfLaunch(1, 4, 10));
  ExpectNewer(OfLaunch(1, 4, 20), Scrs(4, 10));
}

TEST(AgeTest, WithoutATimeTheNumberTells) {
  ExpectNewer(OfLaunch(1, 4, 10), Scrs(3, 0));
  ExpectNewer(Scrs(4, 0), Scrs(3, 10));
  ExpectNewer(Adopted(4, 0), Adopted(3, 10));
}

TEST(AgeTest, WhatNoLaunchHasMadeIsAsOldAsItWasMadeThere) {
  ExpectNewer(OfLaunch(1, 4, 20), Adopted(9, 10));
  ExpectNewer(Scrs(3, 20), Adopted(9, 10));
  ExpectNewer(Scrs(3, 20), Scrs(4, 10));  // number 3 was given out again
}

}  // namespace
}  // namespace cairn
