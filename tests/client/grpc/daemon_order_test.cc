#include "client/grpc/daemon_order.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace cairn::transport {
namespace {

constexpr char kRun[] = "grpc+run:/runs/7";

class DaemonOrderTest : public ::testing::Test {
 protected:
  // Letters are daemons, as the folder tells of them.
  std::string Arranged(const std::string& told, const std::string& target = kRun) {
    std::vector<Address> addresses;
    for (const char name : told) addresses.emplace_back().told_in = std::string(1, name);
    order_.Arrange(target, &addresses);
    std::string names;
    for (const Address& address : addresses) names += address.told_in;
    return names;
  }
  DaemonOrder order_;
};

TEST_F(DaemonOrderTest, WithoutAnyExperienceItIsAsTold) {
  EXPECT_EQ(Arranged("abc"), "abc");
  EXPECT_EQ(Arranged(""), "");
}

TEST_F(DaemonOrderTest, TheLastThatHasServedIsFirst) {
  order_.Served(kRun, "b");
  order_.Served(kRun, "c");
  EXPECT_EQ(Arranged("abc"), "cab");
  EXPECT_EQ(Arranged("ab"), "ab") << "it is gone";
}

TEST_F(DaemonOrderTest, EachHasItsTurnUntilOneServes) {
  std::string asked;
  for (int i = 0; i < 6; ++i) {
    asked += Arranged("abc").front();
    order_.InVain(kRun, asked.substr(asked.size() - 1));
  }
  EXPECT_EQ(asked, "abcabc");
  order_.Served(kRun, "b");
  EXPECT_EQ(Arranged("abc"), "bac");
  EXPECT_EQ(Arranged("dabc"), "bdac") << "who is not known comes before those that were asked in vain";
}

TEST_F(DaemonOrderTest, TheOneThatHasServedAndDoesNotAnyMoreIsLast) {
  order_.Served(kRun, "b");
  order_.InVain(kRun, "b");
  EXPECT_EQ(Arranged("abc"), "acb");
  order_.InVain(kRun, "a");
  order_.InVain(kRun, "c");
  EXPECT_EQ(Arranged("abc"), "bac");
}

TEST_F(DaemonOrderTest, EachAddressHasItsOwn) {
  order_.Served(kRun, "b");
  order_.InVain(kRun, "a");
  EXPECT_EQ(Arranged("abc", "grpc+run:/runs/8"), "abc");
}

TEST_F(DaemonOrderTest, NothingIsNotedOfADaemonThatWasNamed) {
  std::vector<Address> addresses(2);
  addresses[0].target = "a:1";
  addresses[1].told_in = "b";
  order_.InVain("grpc://a:1", "");
  order_.Arrange("grpc://a:1", &addresses);
  EXPECT_EQ(addresses[0].target, "a:1");
  std::swap(addresses[0], addresses[1]);
  order_.Served("grpc://a:1", "");
  order_.Arrange("grpc://a:1", &addresses);
  EXPECT_EQ(addresses[1].target, "a:1");
}

TEST_F(DaemonOrderTest, WhoIsGoneIsForgotten) {
  order_.InVain(kRun, "a");
  EXPECT_EQ(Arranged("bc"), "bc");
  EXPECT_EQ(Arranged("abc"), "abc");
}

}  // namespace
}  // namespace cairn::transport
