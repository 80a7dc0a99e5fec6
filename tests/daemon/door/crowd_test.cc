#include "daemon/door/crowd.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace cairn {
namespace {

TEST(CrowdTest, TheOldestOfThePlaceThatHasTheMostGoes) {
  Crowd crowd;
  EXPECT_EQ(crowd.Victim(), std::nullopt);
  const auto a1 = crowd.Add("a");
  const auto b1 = crowd.Add("b");
  const auto b2 = crowd.Add("b");
  EXPECT_EQ(crowd.Victim(), b1);
  crowd.Remove(b1);
  EXPECT_EQ(crowd.Victim(), a1) << "as many of each: the oldest";
  crowd.Remove(a1);
  EXPECT_EQ(crowd.Victim(), b2);
  crowd.Remove(b2);
  EXPECT_EQ(crowd.size(), 0u);
}

// A member from a place of its own stays, however many come from another.
TEST(CrowdTest, NobodyCrowdsOutAnotherPlace) {
  constexpr std::size_t kMax = 16;
  Crowd crowd;
  const auto member = crowd.Add("member");
  for (int i = 0; i < 10'000; ++i) {
    crowd.Add("flood");
    if (crowd.size() <= kMax) continue;
    ASSERT_NE(crowd.Victim(), member);
    crowd.Remove(*crowd.Victim());
  }
  EXPECT_EQ(crowd.size(), kMax);
}

}  // namespace
}  // namespace cairn
