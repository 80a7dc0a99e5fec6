// Redundancy schemes that an application asks for, with a daemon that plays a script: cairn_redundancy and
// CAIRN_REDUNDANCY.
#include <stdlib.h>

#include <string>

#include "client/library/redundancy.h"
#include "proto/frame.h"
#include "tests/client/played_session.h"

namespace cairn {
namespace {

class RedundancyTest : public PlayedSessionTest {
 protected:
  ~RedundancyTest() override { unsetenv("CAIRN_REDUNDANCY"); }
  static bool Says(const cairn_session* session, const std::string& text) {
    return std::string(cairn_error(session)).find(text) != std::string::npos;
  }
  // That comes with the next begin, which is refused.
  static local::Scheme NextScheme(FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Refuse(begin, local::FAILED, "refused");
    peer.Expect(local::Request::kAbort);
    return begin.begin().scheme();
  }
  static local::Scheme NextSchemeOfFiles(FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kOutputBegin);
    peer.Refuse(begin, local::FAILED, "refused");
    return begin.output_begin().scheme();
  }
};

TEST_F(RedundancyTest, WhoAsksForNothingSaysNothing) {
  cairn_session* session = Open([](FakePeer& peer) {
    EXPECT_EQ(NextScheme(peer), local::SCHEME_NOT_GIVEN);
    EXPECT_EQ(NextSchemeOfFiles(peer), local::SCHEME_NOT_GIVEN);
  });
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_output_begin(session, 2, CAIRN_OUTPUT, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(RedundancyTest, ASchemeIsForAllThatIsBegunFromThenOn) {
  cairn_session* session = Open([](FakePeer& peer) {
    EXPECT_EQ(NextScheme(peer), local::SCHEME_SINGLE);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_PARTNER);
    EXPECT_EQ(NextSchemeOfFiles(peer), local::SCHEME_PARTNER);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_XOR);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_RS);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_NOT_GIVEN);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_NOT_GIVEN);
  });
  EXPECT_EQ(cairn_redundancy(session, "single"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, "partner"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 2, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_output_begin(session, 3, CAIRN_OUTPUT, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, "xor"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 4, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, "rs"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 5, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 6, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, "rs"), CAIRN_OK);
  EXPECT_EQ(cairn_redundancy(session, ""), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 7, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(RedundancyTest, TheEnvironmentCountsUnlessTheSessionSaysSomethingElse) {
  ASSERT_EQ(setenv("CAIRN_REDUNDANCY", "xor", 1), 0);
  cairn_session* session = Open([](FakePeer& peer) {
    EXPECT_EQ(NextScheme(peer), local::SCHEME_XOR);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_SINGLE);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_XOR);
  });
  ASSERT_EQ(setenv("CAIRN_REDUNDANCY", "rs", 1), 0);  // too late: it was opened
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, "single"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 2, nullptr), CAIRN_FAILED);
  EXPECT_EQ(cairn_redundancy(session, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 3, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(RedundancyTest, WhatIsNoSchemeIsTheCallersErrorAndTheOneFromBeforeHolds) {
  cairn_session* session = Open([](FakePeer& peer) { EXPECT_EQ(NextScheme(peer), local::SCHEME_RS); });
  EXPECT_EQ(cairn_redundancy(session, "rs"), CAIRN_OK);
  for (const char* wrong : {"mirror", "XOR",    " xor",    "single\n", "rs:",         "rs:4",       "rs:4+",
                            "rs:+2",  "rs:0+2", "rs:4+0",  "rs:04+2",  "rs:4+2 ",     "rs:63+2",    "rs:1+100",
                            "rs4+2",  "rs:4-2", "xor:3+2", "xor:64+1", "partner:1+1", "single:1+1", "folder:4+2"}) {
    EXPECT_EQ(cairn_redundancy(session, wrong), CAIRN_INVALID_ARGUMENT) << wrong;
    EXPECT_TRUE(Says(session, "not single, partner, xor, rs or folder")) << cairn_error(session);
  }
  EXPECT_EQ(cairn_redundancy(nullptr, "xor"), CAIRN_INVALID_ARGUMENT);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(RedundancyTest, ASchemeMaySayHowLargeItsSetsAre) {
  ASSERT_EQ(setenv("CAIRN_REDUNDANCY", "rs:62+2", 1), 0);
  const auto next = [](FakePeer& peer, local::Scheme scheme, std::uint32_t members, std::uint32_t checksums) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Refuse(begin, local::FAILED, "refused");
    peer.Expect(local::Request::kAbort);
    EXPECT_EQ(begin.begin().scheme(), scheme);
    EXPECT_EQ(begin.begin().scheme_members(), members);
    EXPECT_EQ(begin.begin().scheme_checksums(), checksums);
  };
  cairn_session* session = Open([&](FakePeer& peer) {
    next(peer, local::SCHEME_RS, 64, 2);
    next(peer, local::SCHEME_RS, 6, 2);
    next(peer, local::SCHEME_XOR, 8, 1);
    next(peer, local::SCHEME_RS, 0, 0);
    const local::Request begin = peer.Expect(local::Request::kOutputBegin);
    peer.Refuse(begin, local::FAILED, "refused");
    EXPECT_EQ(begin.output_begin().scheme_members(), 2u);
    EXPECT_EQ(begin.output_begin().scheme_checksums(), 1u);
  });
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  std::uint64_t step = 1;
  for (const char* scheme : {"rs:4+2", "xor:7+1", "rs"}) {
    EXPECT_EQ(cairn_redundancy(session, scheme), CAIRN_OK) << scheme;
    EXPECT_EQ(cairn_checkpoint(session, ++step, nullptr), CAIRN_FAILED);
  }
  EXPECT_EQ(cairn_redundancy(session, "rs:1+1"), CAIRN_OK);
  EXPECT_EQ(cairn_output_begin(session, 9, CAIRN_OUTPUT, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(RedundancyTest, AnEnvironmentThatNamesNoSchemeOpensNothing) {
  ASSERT_EQ(setenv("CAIRN_REDUNDANCY", "mirror", 1), 0);
  const cairn_options options = daemon_.options();
  cairn_session* session = nullptr;
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_INVALID_ARGUMENT);
  EXPECT_TRUE(Says(nullptr, "CAIRN_REDUNDANCY is \"mirror\": not single, partner, xor, rs or folder"))
      << cairn_error(nullptr);
}

TEST_F(RedundancyTest, ABeginThatIsToldAgainHasTheSchemeAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      EXPECT_EQ(first.Expect(local::Request::kBegin).begin().scheme(), local::SCHEME_PARTNER);
    }
    FakePeer second = daemon_.Accept();
    second.Greet();
    EXPECT_EQ(NextScheme(second), local::SCHEME_PARTNER);
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_redundancy(session, "partner"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

// It would pass over the scheme, and promise what it does not keep.
TEST_F(RedundancyTest, AnOlderDaemonIsNotAskedToKeepWhatItDoesNotKnow) {
  constexpr std::uint32_t kBefore = CAIRN_PROTOCOL_OF_SCHEMES - 1;
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    peer.Greet(3, kBefore);
    peer.Expect(local::Request::kAbort);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_NOT_GIVEN);
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_redundancy(session, "xor"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_UNSUPPORTED);
  EXPECT_TRUE(Says(session, "the daemon speaks protocol 3, redundancy schemes of datasets need 4"))
      << cairn_error(session);
  EXPECT_EQ(cairn_output_begin(session, 1, CAIRN_OUTPUT, nullptr), CAIRN_UNSUPPORTED);
  EXPECT_EQ(cairn_redundancy(session, nullptr), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 2, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

TEST_F(RedundancyTest, AnOlderDaemonIsNotAskedForSetsOfASize) {
  daemon_.Play([this] {
    FakePeer peer = daemon_.Accept();
    peer.Greet(3, CAIRN_PROTOCOL_OF_SET_SIZES - 1);
    peer.Expect(local::Request::kAbort);
    EXPECT_EQ(NextScheme(peer), local::SCHEME_RS);
  });
  cairn_session* session = OpenOrDie(daemon_.options());
  EXPECT_EQ(cairn_redundancy(session, "rs:4+2"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 1, nullptr), CAIRN_UNSUPPORTED);
  EXPECT_TRUE(Says(session, "the daemon speaks protocol 4, sizes of redundancy sets need 5")) << cairn_error(session);
  EXPECT_EQ(cairn_redundancy(session, "rs"), CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session, 2, nullptr), CAIRN_FAILED);
  daemon_.Join();
  cairn_close(session);
}

}  // namespace
}  // namespace cairn
