// Without shared memory: pieces with checksums, resume of a broken stream. The transport is tests/client/fake_grpc.cc,
// which lies beside this test as libcairn_grpc.so and is found there.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "client/library/crc32c.h"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

bool Says(const cairn_session* session, const std::string& text) {
  return std::string(cairn_error(session)).find(text) != std::string::npos;
}

class IngestTest : public testing::Test {
 protected:
  IngestTest() : data_(5000), address_("grpc+unix:" + daemon_.path()) { std::iota(data_.begin(), data_.end(), 0); }
  ~IngestTest() override {
    daemon_.Join();
    cairn_close(session_);
  }
  void OpenSession(std::uint32_t deadline_ms = 0) {
    cairn_options options = daemon_.options();
    options.address = address_.c_str();
    if (deadline_ms != 0) options.deadline_ms = deadline_ms;
    session_ = OpenOrDie(options);
    ASSERT_EQ(cairn_protect(session_, 3, data_.data(), data_.size(), CAIRN_INT32), CAIRN_OK);
  }
  void Open(std::function<void(FakePeer&)> script) {
    daemon_.PlayPeer(std::move(script));
    OpenSession();
  }
  // As a daemon that knows nothing of it.
  static void RefuseSession(FakePeer peer) {
    local::Reply hello;
    hello.mutable_hello()->set_protocol(CAIRN_PROTOCOL_NEWEST);
    peer.Answer(peer.Expect(local::Request::kHello), std::move(hello));
    peer.Refuse(peer.Expect(local::Request::kOpen), local::FAILED_PRECONDITION, "no such session");
  }
  static void AnswerBegin(FakePeer& peer, std::uint64_t dataset = 1) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    local::Reply reply;
    reply.mutable_begin()->set_dataset(dataset);
    *reply.mutable_begin()->mutable_plan() = MakeTestPlan(begin.begin().variables(), 1000);
    peer.Answer(begin, std::move(reply));
  }
  // Takes pieces [from, to) and puts their bytes where they belong.
  void TakePieces(FakePeer& peer, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      const local::Request request = peer.Expect(local::Request::kPiece);
      const local::Piece& piece = request.piece();
      ASSERT_EQ(piece.index(), i);
      EXPECT_EQ(piece.id(), 3);
      ASSERT_EQ(piece.offset(), i * 1000);
      EXPECT_EQ(piece.crc32c(), lc_crc32c(0, piece.data().data(), piece.data().size()));
      taken_.resize(i * 1000);
      taken_ += piece.data();
      crcs_.resize(i);
      crcs_.push_back(piece.crc32c());
    }
  }
  void TakeCommit(FakePeer& peer) {
    const local::Request commit = peer.Expect(local::Request::kCommit);
    EXPECT_TRUE(commit.commit().has_digest());
    EXPECT_EQ(commit.commit().digest(), lc_crc32c(0, crcs_.data(), crcs_.size() * sizeof(crcs_[0])));
    EXPECT_EQ(std::memcmp(taken_.data(), data_.data(), taken_.size()), 0);
    EXPECT_EQ(taken_.size(), data_.size() * sizeof(data_[0]));
    local::Reply reply;
    reply.mutable_committed()->set_dataset(1);
    peer.Answer(commit, std::move(reply));
  }

  FakeDaemon daemon_;
  std::vector<std::int32_t> data_;
  std::string address_;
  std::string taken_;
  std::vector<std::uint32_t> crcs_;
  cairn_session* session_ = nullptr;
};

TEST_F(IngestTest, PiecesTravelInPlanOrderWithChecksumsAndADigest) {
  Open([this](FakePeer& peer) {
    AnswerBegin(peer);
    TakePieces(peer, 0, 20);
    TakeCommit(peer);
  });
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_checkpoint(session_, 1, &dataset), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(dataset, 1u);
}

TEST_F(IngestTest, ABoxTravelsPacked) {
  std::vector<std::int32_t> block(102 * 52);
  std::iota(block.begin(), block.end(), 0);
  data_.clear();
  for (int i = 1; i < 101; ++i) {
    for (int j = 1; j < 51; ++j) data_.push_back(block[static_cast<std::size_t>(i * 52 + j)]);
  }
  daemon_.PlayPeer([this](FakePeer& peer) {
    AnswerBegin(peer);
    TakePieces(peer, 0, 20);
    TakeCommit(peer);
  });
  cairn_options options = daemon_.options();
  options.address = address_.c_str();
  session_ = OpenOrDie(options);
  const std::uint64_t shape[] = {100, 50}, start[] = {0, 0}, memory[] = {102, 52}, ghost[] = {1, 1};
  ASSERT_EQ(cairn_protect_array(session_, 3, "a", block.data(), CAIRN_INT32, 2, shape, start, shape, memory, ghost),
            CAIRN_OK);
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(IngestTest, ABrokenStreamIsResumedWithTheNextPiece) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet(11);
      AnswerBegin(first, 40);
      TakePieces(first, 0, 8);
    }
    FakePeer peer = daemon_.Accept();
    EXPECT_EQ(peer.Greet(11).launch(), 11u);
    const local::Request resume = peer.Expect(local::Request::kResume);
    EXPECT_EQ(resume.resume().dataset(), 40u);
    local::Reply reply;
    reply.mutable_resume()->set_pieces(6);
    peer.Answer(resume, std::move(reply));
    TakePieces(peer, 6, 20);
    TakeCommit(peer);
  });
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_OK) << cairn_error(session_);
}

TEST_F(IngestTest, WhatWasCommittedBeforeTheStreamBrokeIsNotSentAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      AnswerBegin(first, 40);
      TakePieces(first, 0, 20);
      first.Expect(local::Request::kCommit);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    local::Reply reply;
    reply.mutable_resume()->set_committed(true);
    peer.Answer(peer.Expect(local::Request::kResume), std::move(reply));
    peer.Answer(peer.Expect(local::Request::kClose), {});
  });
  OpenSession();
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_checkpoint(session_, 1, &dataset), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(dataset, 40u);
  cairn_close(session_);
  session_ = nullptr;
}

TEST_F(IngestTest, WhatTheSuccessorDoesNotKnowIsBegunAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      AnswerBegin(first, 40);
      TakePieces(first, 0, 3);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    peer.Refuse(peer.Expect(local::Request::kResume), local::NOT_FOUND, "no dataset 40");
    AnswerBegin(peer, 41);
    TakePieces(peer, 0, 20);
    TakeCommit(peer);
  });
  OpenSession();
  std::uint64_t dataset = 0;
  EXPECT_EQ(cairn_checkpoint(session_, 1, &dataset), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(dataset, 41u);
}

// Of several daemons of the run another one has told of itself later, or ours is not back yet.
TEST_F(IngestTest, OfASearchADaemonThatDoesNotKnowTheSessionIsNotTheLastWord) {
  address_ = "grpc+run:" + daemon_.path();
  daemon_.Play([this] {
    {
      FakePeer ours = daemon_.Accept();
      ours.Greet(11);
      AnswerBegin(ours, 40);
      TakePieces(ours, 0, 8);
    }
    for (int i = 0; i < 2; ++i) RefuseSession(daemon_.Accept());
    FakePeer back = daemon_.Accept();
    EXPECT_EQ(back.Greet(11).launch(), 11u);
    local::Reply reply;
    reply.mutable_resume()->set_pieces(8);
    back.Answer(back.Expect(local::Request::kResume), std::move(reply));
    TakePieces(back, 8, 20);
    TakeCommit(back);
  });
  unsetenv("FAKE_GRPC_SESSIONS");
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_OK) << cairn_error(session_);
  std::istringstream sessions(getenv("FAKE_GRPC_SESSIONS"));
  const std::vector<std::string> asked(std::istream_iterator<std::string>(sessions), {});
  ASSERT_EQ(asked.size(), 4u);
  EXPECT_EQ(asked[0], "0") << "it opens";
  EXPECT_NE(asked[1], "0") << "it looks for its daemon";
  EXPECT_EQ(asked[2], asked[1]);
  EXPECT_EQ(asked[3], asked[1]);
}

// The call's answer if two daemons tell of themselves and the session is refused so many times. Then nobody answers, or
// a daemon that accepts is silent.
struct Refused {
  int times = 0;
  enum { kNobody, kSilent } then = kSilent;
};

class SearchTest : public IngestTest {
 protected:
  SearchTest() { address_ = "grpc+run:" + daemon_.path(); }
  ~SearchTest() override { unsetenv("FAKE_GRPC_UNREACHED"); }
  int Answer(const Refused& refused) {
    daemon_.Play([this, refused] {
      {
        FakePeer ours = daemon_.Accept();
        ours.Greet(11);
        AnswerBegin(ours, 40);
      }
      for (int i = 0; i < refused.times; ++i) RefuseSession(daemon_.Accept());
      if (refused.then == Refused::kNobody) return daemon_.CloseSocket();
      FakePeer silent = daemon_.Accept();
      silent.Expect(local::Request::kHello);
      EXPECT_FALSE(silent.Receive());
    });
    OpenSession(/*deadline_ms=*/1000);
    const int code = cairn_checkpoint(session_, 1, nullptr);
    EXPECT_TRUE(Says(session_, "cairn_checkpoint: no such session (no other daemon")) << cairn_error(session_);
    return code;
  }
};

TEST_F(SearchTest, WhatAllDaemonsHaveRefusedIsRefused) {
  EXPECT_EQ(Answer({.times = 2}), CAIRN_FAILED_PRECONDITION);
}

TEST_F(SearchTest, WhatOneHasRefusedWhileTheOtherIsSilentMayBeKnownToThat) {
  EXPECT_EQ(Answer({.times = 1}), CAIRN_UNAVAILABLE);
}

TEST_F(SearchTest, WhileADaemonIsOutOfReachNothingIsRefusedForGood) {
  setenv("FAKE_GRPC_UNREACHED", "1", 1);
  EXPECT_EQ(Answer({.times = 3}), CAIRN_UNAVAILABLE);
}

TEST_F(SearchTest, DaemonsThatAreGoneAfterTheyHaveRefusedMayComeBackAndKnowIt) {
  EXPECT_EQ(Answer({.times = 3, .then = Refused::kNobody}), CAIRN_UNAVAILABLE);
}

TEST_F(IngestTest, OfASearchThatHasFoundOneDaemonAloneItsWordIsTheLast) {
  address_ = "grpc+run:" + daemon_.path();
  setenv("FAKE_GRPC_ALONE", "1", 1);
  daemon_.Play([this] {
    {
      FakePeer ours = daemon_.Accept();
      ours.Greet(11);
      AnswerBegin(ours, 40);
    }
    RefuseSession(daemon_.Accept());  // once
  });
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_FAILED_PRECONDITION);
  EXPECT_TRUE(Says(session_, "no such session")) << cairn_error(session_);
  EXPECT_FALSE(Says(session_, "no other daemon")) << cairn_error(session_);
  unsetenv("FAKE_GRPC_ALONE");
}

TEST_F(IngestTest, TheOneDaemonThatWasNamedIsTheLastWord) {
  daemon_.Play([this] {
    {
      FakePeer ours = daemon_.Accept();
      ours.Greet(11);
      AnswerBegin(ours, 40);
    }
    RefuseSession(daemon_.Accept());
  });
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_FAILED_PRECONDITION);
  EXPECT_TRUE(Says(session_, "no such session")) << cairn_error(session_);
}

// No session was there before: what it says may be for good.
TEST_F(IngestTest, OfASearchTheFirstWordCounts) {
  address_ = "grpc+run:" + daemon_.path();
  daemon_.Play([this] { RefuseSession(daemon_.Accept()); });
  cairn_options options = daemon_.options();
  options.address = address_.c_str();
  cairn_session* session = nullptr;
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_FAILED_PRECONDITION) << cairn_error(nullptr);
}

TEST_F(IngestTest, MoreThanWasSentCannotHaveBeenReceived) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      AnswerBegin(first, 40);
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    local::Reply reply;
    reply.mutable_resume()->set_pieces(21);
    peer.Answer(peer.Expect(local::Request::kResume), std::move(reply));
    EXPECT_FALSE(peer.Receive());
  });
  OpenSession();
  EXPECT_EQ(cairn_checkpoint(session_, 1, nullptr), CAIRN_INTERNAL) << cairn_error(session_);
}

class IngestRestoreTest : public IngestTest {
 protected:
  void SendPlan(FakePeer& peer) {
    restore_ = peer.Expect(local::Request::kRestore);
    local::Reply reply;
    *reply.mutable_restore()->mutable_plan() = MakeTestPlan(restore_.restore().variables(), 1000);
    peer.Answer(restore_, std::move(reply));
  }
  void SendPiece(FakePeer& peer, std::uint64_t i, bool damaged = false) {
    local::Reply reply;
    local::Piece& piece = *reply.mutable_piece();
    piece.set_index(i);
    piece.set_id(3);
    piece.set_offset(i * 1000);
    piece.set_data(reinterpret_cast<const char*>(stored_.data()) + i * 1000, 1000);
    piece.set_crc32c(lc_crc32c(0, piece.data().data(), 1000));
    if (damaged) (*piece.mutable_data())[5] ^= 1;
    peer.Answer(restore_, std::move(reply));
  }
  void SendEnd(FakePeer& peer) {
    local::Reply reply;
    reply.mutable_restore_end()->set_tier(local::TIER_CACHE);
    peer.Answer(restore_, std::move(reply));
  }

  local::Request restore_;
  std::vector<std::int32_t> stored_ = std::vector<std::int32_t>(5000, 77);
};

TEST_F(IngestRestoreTest, PiecesComeBackCheckedAndAreTold) {
  Open([this](FakePeer& peer) {
    SendPlan(peer);
    for (std::uint64_t i = 0; i < 20; ++i) SendPiece(peer, i);
    while (peer.told() < 20) ASSERT_TRUE(peer.Receive());
    SendEnd(peer);
  });
  EXPECT_EQ(cairn_restore(session_, 2), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(data_, stored_);
}

TEST_F(IngestRestoreTest, APieceThatIsDamagedOnItsWayIsAskedForAgain) {
  daemon_.Play([this] {
    {
      FakePeer first = daemon_.Accept();
      first.Greet();
      SendPlan(first);
      SendPiece(first, 0);
      SendPiece(first, 1, /*damaged=*/true);
      while (first.Receive()) {
      }
    }
    FakePeer peer = daemon_.Accept();
    peer.Greet();
    SendPlan(peer);
    for (std::uint64_t i = 0; i < 20; ++i) SendPiece(peer, i);
    while (peer.told() < 20) ASSERT_TRUE(peer.Receive());
    SendEnd(peer);
  });
  OpenSession();
  EXPECT_EQ(cairn_restore(session_, 2), CAIRN_OK) << cairn_error(session_);
  EXPECT_EQ(data_, stored_);
}

TEST_F(IngestRestoreTest, APieceThatIsNotTheNextIsRefused) {
  Open([this](FakePeer& peer) {
    SendPlan(peer);
    SendPiece(peer, 1);
    while (peer.Receive()) {
    }
  });
  EXPECT_EQ(cairn_restore(session_, 2), CAIRN_INTERNAL);
  EXPECT_TRUE(Says(session_, "not the next one")) << cairn_error(session_);
}

TEST_F(IngestTest, NobodyThereIsUnavailable) {
  daemon_.CloseSocket();
  cairn_options options = daemon_.options();
  options.address = address_.c_str();
  cairn_session* session = nullptr;
  EXPECT_EQ(cairn_open(&options, &session), CAIRN_UNAVAILABLE);
  EXPECT_TRUE(Says(nullptr, "nobody answers there")) << cairn_error(nullptr);
}

}  // namespace
}  // namespace cairn
