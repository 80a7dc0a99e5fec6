#include "client/grpc/daemon_order.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::transport {
namespace {

constexpr char kRun[] = "grpc+run:/runs/7";

class DaemonOrderTest : public ::testing::Test {
 protected:
  // Letters are daemons, as the folder tells of them.
  std::string Arranged(const std::string& told, std::uint64_t session = 1, const std::string& target = kRun) {
    std::vector<Address> addresses;
    for (const char name : told) addresses.emplace_back().told_in = std::string(1, name);
    order_.Arrange(target, session, &addresses);
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
  order_.Served(kRun, 1, "b");
  order_.Served(kRun, 1, "c");
  EXPECT_EQ(Arranged("abc"), "cab");
  EXPECT_EQ(Arranged("ab"), "ab") << "it is gone";
}

TEST_F(DaemonOrderTest, EachHasItsTurnUntilOneServes) {
  std::string asked;
  for (int i = 0; i < 6; ++i) {
    asked += Arranged("abc").front();
    order_.InVain(kRun, 1, asked.substr(asked.size() - 1));
  }
  EXPECT_EQ(asked, "abcabc");
  order_.Served(kRun, 1, "b");
  EXPECT_EQ(Arranged("abc"), "bac");
  EXPECT_EQ(Arranged("dabc"), "bdac") << "it has found its daemon: what was asked in vain before counts no more";
  order_.InVain(kRun, 1, "a");
  EXPECT_EQ(Arranged("abcd"), "bcda") << "who is not known comes before those that were asked in vain";
}

TEST_F(DaemonOrderTest, ANewSessionGoesByWhoHasServedAndByNobodysFailures) {
  order_.Served(kRun, 1, "b");
  order_.InVain(kRun, 1, "b");
  order_.InVain(kRun, 1, "a");
  EXPECT_EQ(Arranged("abc"), "cba");
  EXPECT_EQ(Arranged("abc", 0), "bac");
  EXPECT_EQ(Arranged("abc", 2), "bac") << "another session's turns are its own";
}

// Two sessions in step, each with the daemon that the other does not have.
TEST_F(DaemonOrderTest, SessionsDoNotKeepEachOtherFromTheirDaemons) {
  for (const std::uint64_t session : {1, 2}) order_.InVain(kRun, session, Arranged("ab", session).substr(0, 1));
  for (const std::uint64_t session : {1, 2}) EXPECT_EQ(Arranged("ab", session), "ba") << session;
  order_.Served(kRun, 1, "b");
  EXPECT_EQ(Arranged("ab", 2), "ba");
  order_.InVain(kRun, 2, "b");
  EXPECT_EQ(Arranged("ab", 2), "ab") << "it has its turn though b serves the other session";
}

TEST_F(DaemonOrderTest, OfVeryManySearchesTheOldestIsForgotten) {
  for (std::uint64_t session = 1; session <= DaemonOrder::kSearchesMax; ++session) order_.InVain(kRun, session, "a");
  EXPECT_EQ(Arranged("ab", 1), "ba");
  order_.InVain(kRun, DaemonOrder::kSearchesMax + 1, "a");
  EXPECT_EQ(Arranged("ab", 1), "ab");
  EXPECT_EQ(Arranged("ab", 2), "ba");
}

TEST_F(DaemonOrderTest, TheOneThatHasServedAndDoesNotAnyMoreIsLast) {
  order_.Served(kRun, 1, "b");
  order_.InVain(kRun, 1, "b");
  EXPECT_EQ(Arranged("abc"), "acb");
  order_.InVain(kRun, 1, "a");
  order_.InVain(kRun, 1, "c");
  EXPECT_EQ(Arranged("abc"), "bac");
}

TEST_F(DaemonOrderTest, EachAddressHasItsOwn) {
  order_.Served(kRun, 1, "b");
  order_.InVain(kRun, 1, "a");
  EXPECT_EQ(Arranged("abc", 1, "grpc+run:/runs/8"), "abc");
}

TEST_F(DaemonOrderTest, NothingIsNotedOfADaemonThatWasNamed) {
  std::vector<Address> addresses(2);
  addresses[0].target = "a:1";
  addresses[1].told_in = "b";
  order_.InVain("grpc://a:1", 1, "");
  order_.Arrange("grpc://a:1", 1, &addresses);
  EXPECT_EQ(addresses[0].target, "a:1");
  std::swap(addresses[0], addresses[1]);
  order_.Served("grpc://a:1", 1, "");
  order_.Arrange("grpc://a:1", 1, &addresses);
  EXPECT_EQ(addresses[1].target, "a:1");
}

TEST_F(DaemonOrderTest, WhoIsGoneIsForgotten) {
  order_.InVain(kRun, 1, "a");
  EXPECT_EQ(Arranged("bc"), "bc");
  EXPECT_EQ(Arranged("abc"), "abc");
}

}  // namespace
}  // namespace cairn::transport
