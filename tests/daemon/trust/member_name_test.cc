// How certificates and TLS name runs and members.
#include "daemon/trust/member_name.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using testing::MemberOf;
using testing::RunOf;

constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr char kName[] =
    "cairn://abababababababababababababababab/node/0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c/life/00000000000000ff";

TEST(MemberNameTest, AMembersNameSaysRunNodeAndLife) {
  const PeerIdentity member = MemberOf(RunOf(0xab), 0x0c, 255);
  EXPECT_EQ(MemberName(member), kName);
  ASSERT_OK_AND_ASSIGN(const PeerIdentity again, ParseMemberName(kName));
  EXPECT_EQ(again, member);
  const PeerIdentity last = MemberOf(RunOf(1), 2, UINT64_MAX);
  ASSERT_OK_AND_ASSIGN(const PeerIdentity last_again, ParseMemberName(MemberName(last)));
  EXPECT_EQ(last_again, last);
}

TEST(MemberNameTest, NothingElseIsAName) {
  const std::string name = kName;
  EXPECT_STATUS(kInvalidArgument, ParseMemberName(""), "names no member");
  for (std::size_t n = 0; n < name.size(); ++n) {
    EXPECT_STATUS(kInvalidArgument, ParseMemberName(name.substr(0, n)), "names no member");
  }
  for (const char* tail : {"0", "/", " ", "\n", "?x"}) EXPECT_FALSE(ParseMemberName(name + tail).ok()) << tail;
  EXPECT_FALSE(ParseMemberName(name + std::string(1, '\0')).ok());
  EXPECT_FALSE(ParseMemberName("CAIRN" + name.substr(5)).ok());
  std::string upper = name;
  upper[name.find("ab")] = 'A';
  EXPECT_FALSE(ParseMemberName(upper).ok());
}

// Whatever is taken for a name is written again just so: no two texts name the same member.
TEST(MemberNameTest, WhateverIsTakenIsWrittenAgainByteByByte) {
  const char* const given = std::getenv("CAIRN_TEST_SEED");
  const auto seed = given == nullptr ? std::random_device{}() : std::strtoul(given, nullptr, 10);
  SCOPED_TRACE("CAIRN_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::string alphabet = "0123456789abcdefABCDEF:/-+x \n\0cairnodelf";
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string text = kName;
    for (int change = static_cast<int>(random() % 3); change >= 0; --change) {
      const std::size_t at = random() % text.size();
      const char byte = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        default:
          text.erase(at, 1);
      }
    }
    const auto member = ParseMemberName(text);
    if (!member.ok()) continue;
    ++taken;
    ASSERT_EQ(MemberName(*member), text);
  }
  EXPECT_GT(taken, 0);
}

TEST(MemberNameTest, AServersNameIsTheRun) {
  const std::string name = RunServerName(RunOf(0xab));
  EXPECT_EQ(name, "abababababababababababababababab.run.cairn");
  EXPECT_EQ(ParseRunServerName(name), RunOf(0xab));
  for (const char* other : {"", "abab.run.cairn", ".run.cairn", "ABABABABABABABABABABABABABABABAB.run.cairn",
                            "abababababababababababababababab.run.cairn.", "abababababababababababababababab"}) {
    EXPECT_EQ(ParseRunServerName(other), std::nullopt) << other;
  }
}

}  // namespace
}  // namespace cairn
