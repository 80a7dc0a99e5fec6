// Members of the run that keep no rules: as somebody who asks, and as somebody who answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "daemon/bulk/frame.h"
#include "daemon/trust/member_name.h"
#include "storage/base/checksum.h"
#include "storage/base/clock.h"
#include "tests/daemon/bulk/bulk_node.h"
#include "tests/daemon/door/raw_peer.h"
#include "tests/daemon/trust/members.h"
#include "tests/support/status_matchers.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;
using testing::BulkNode;
using testing::CredentialOf;
using testing::MemberOf;
using testing::NewAuthority;
using testing::Pattern;
using testing::RawPeer;
using testing::RawServer;
using testing::ReadInHand;
using testing::RunOf;
using testing::WarningsHeard;

constexpr auto kDataLoss = absl::StatusCode::kDataLoss;
constexpr auto kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr auto kUnavailable = absl::StatusCode::kUnavailable;

const RunId kRun = RunOf(1);

class BulkHostileTest : public ::testing::Test {
 protected:
  RawPeer::Tls Tls() const {
    return {.shown = &credential_, .server_name = RunServerName(kRun), .protocol = std::string(kBulkProtocol)};
  }
  RawPeer Asker(BulkNode& node) {
    RawPeer peer = RawPeer::Connect(node.door().port());
    EXPECT_EQ(peer.Dial(Tls()), "");
    EXPECT_TRUE(peer.Introduce());
    return peer;
  }
  static bulk::Answer AnswerFrom(RawPeer& peer, std::string* payload = nullptr) {
    const std::string head = peer.Receive(BulkPrefix::kBytes);
    EXPECT_EQ(head.size(), BulkPrefix::kBytes);
    bulk::Answer answer;
    if (head.size() < BulkPrefix::kBytes) return answer;
    const auto prefix = ParsePrefix(std::as_bytes(std::span(head)).first<BulkPrefix::kBytes>());
    EXPECT_OK(prefix);
    EXPECT_TRUE(answer.ParseFromString(peer.Receive(prefix->header_bytes)));
    const std::string bytes = peer.Receive(prefix->payload_bytes);
    if (payload != nullptr) *payload = bytes;
    return answer;
  }
  static bulk::Request Question(bulk::Request::Op op, const std::string& name, std::uint64_t bytes = 0) {
    bulk::Request request;
    request.set_op(op);
    request.set_name(name);
    request.set_bytes(bytes);
    return request;
  }

  const std::shared_ptr<const Authority> authority_ = NewAuthority(kRun);
  const Credential credential_ = CredentialOf(*authority_, MemberOf(kRun, 9), WallNow());
};

// --- Who asks ---

TEST_F(BulkHostileTest, QuestionsThatAreWrongAreAnsweredWithTheField) {
  BulkNode node(1);
  node.Enter(authority_);
  node.Write("/cache/file", "0123456789");
  RawPeer peer = Asker(node);
  const std::uint64_t huge = std::uint64_t{1} << 63;
  bulk::Request far = Question(bulk::Request::READ, "file", 1);
  far.set_offset(huge);
  bulk::Request long_name = Question(bulk::Request::INFO, std::string(5000, 'a'));
  for (const auto& [request, part] :
       std::vector<std::pair<bulk::Request, std::string>>{{Question(bulk::Request::READ, "file", huge), "bytes"},
                                                          {Question(bulk::Request::READ, "file"), "bytes"},
                                                          {far, "offset"},
                                                          {Question(bulk::Request::OPEN, "../x"), "name"},
                                                          {long_name, "name"},
                                                          {bulk::Request(), "op: 0"}}) {
    ASSERT_TRUE(peer.Send(FrameHead(request)));
    EXPECT_STATUS(kInvalidArgument, StatusOf(AnswerFrom(peer)), part);
  }
  ASSERT_TRUE(peer.Send(FrameHead(Question(bulk::Request::READ, "file", 11))));
  EXPECT_STATUS(kDataLoss, StatusOf(AnswerFrom(peer)), "file");
  std::string payload;
  ASSERT_TRUE(peer.Send(FrameHead(Question(bulk::Request::READ, "file", 10))));
  EXPECT_OK(StatusOf(AnswerFrom(peer, &payload)));
  EXPECT_EQ(payload, "0123456789");
}

TEST_F(BulkHostileTest, WhatIsNoQuestionEndsTheConnection) {
  BulkNode node(1);
  node.Enter(authority_);
  for (const auto& [bytes, part] :
       std::vector<std::pair<std::string, std::string>>{{std::string(8, '\xff'), "header: 4294967295 bytes"},
                                                        {std::string("\0\0\0\0\1\0\0\0", 8), "payload"},
                                                        {std::string("\1\0\0\0\0\0\0\0\xff", 9), "cannot be read"}}) {
    const WarningsHeard log;
    RawPeer peer = Asker(node);
    ASSERT_TRUE(peer.Send(bytes));
    EXPECT_NE(peer.End(), "still open after a minute");
    EXPECT_TRUE(log.Wait(part)) << log.all();
  }
}

TEST_F(BulkHostileTest, ManyOpensCostNothingThatStays) {
  BulkNode node(1);
  node.Enter(authority_);
  node.Write("/cache/file", "0123456789");
  RawPeer peer = Asker(node);
  constexpr std::uint64_t kAtOnce = 100;
  for (std::uint64_t round = 0; round < 50; ++round) {
    std::string questions;
    for (std::uint64_t i = 0; i < kAtOnce; ++i) {
      bulk::Request request = Question(bulk::Request::OPEN, "file");
      request.set_id(round * kAtOnce + i);
      questions += FrameHead(request);
    }
    ASSERT_TRUE(peer.Send(questions));
    for (std::uint64_t i = 0; i < kAtOnce; ++i) EXPECT_EQ(AnswerFrom(peer).id(), round * kAtOnce + i);
  }
}

TEST_F(BulkHostileTest, WhoDoesNotTakeItsAnswersLosesTheConnection) {
  BulkNode node(1, {.take = milliseconds(300)});
  node.Enter(authority_);
  node.Write("/cache/file", Pattern(kWindowBytesMax));
  const WarningsHeard log;
  RawPeer peer = Asker(node);
  std::string questions;
  for (int i = 0; i < 64; ++i) questions += FrameHead(Question(bulk::Request::READ, "file", kWindowBytesMax));
  ASSERT_TRUE(peer.Send(questions));
  EXPECT_TRUE(log.Wait("has not taken an answer in time")) << log.all();
}

TEST_F(BulkHostileTest, WhoAsksNothingLosesTheConnection) {
  BulkNode node(1, {.quiet = milliseconds(100)});
  node.Enter(authority_);
  RawPeer silent = Asker(node);
  EXPECT_NE(silent.End(), "still open after a minute");
  RawPeer halting = Asker(node);
  ASSERT_TRUE(halting.Send("\x10"));
  EXPECT_NE(halting.End(), "still open after a minute");
}

TEST_F(BulkHostileTest, NobodyKeepsTheMemoryOfAllForLong) {
  BulkNode node(1, {.serving_windows_max = 2, .serving_windows_each = 2, .take = milliseconds(500)});
  BulkNode other(2);
  node.Enter(authority_);
  other.Enter(authority_);
  const std::string bytes = Pattern(4 * kWindowBytesMax);
  node.Write("/cache/file", bytes);
  std::vector<RawPeer> hoarders;
  for (int i = 0; i < 3; ++i) {
    hoarders.push_back(Asker(node));
    std::string questions;
    for (int k = 0; k < 32; ++k) questions += FrameHead(Question(bulk::Request::READ, "file", kWindowBytesMax));
    ASSERT_TRUE(hoarders.back().Send(questions));
  }
  ASSERT_OK_AND_ASSIGN(const std::string all, testing::ReadAll(*other.FilesOf(kRun, node), "/file"));
  EXPECT_TRUE(all == bytes);
}

// --- Who answers ---

// A member that answers as it is told, for as many connections as come.
class Liar {
 public:
  struct Said {
    bulk::Answer answer;
    std::string payload;
  };
  Liar(const RawPeer::Tls& tls, std::function<Said(const bulk::Request& request)> say)
      : server_([tls, say = std::move(say)](RawPeer peer) { Serve(peer, tls, say); }, /*connections=*/64) {}
  std::string address() const { return server_.address(); }

 private:
  static void Serve(RawPeer& peer, const RawPeer::Tls& tls, const std::function<Said(const bulk::Request&)>& say) {
    if (!peer.Answer(tls).empty() || !peer.Introduce()) return;
    for (;;) {
      const std::string head = peer.Receive(BulkPrefix::kBytes);
      if (head.size() < BulkPrefix::kBytes) return;
      const auto prefix = ParsePrefix(std::as_bytes(std::span(head)).first<BulkPrefix::kBytes>());
      bulk::Request request;
      if (!prefix.ok() || !request.ParseFromString(peer.Receive(prefix->header_bytes))) return;
      const Said said = say(request);
      if (said.answer.id() == 0 || !peer.Send(FrameHead(said.answer, said.payload.size()))) continue;
      if (!said.payload.empty()) peer.Send(said.payload);
    }
  }

  RawServer server_;
};

class BulkLiarTest : public BulkHostileTest {
 protected:
  BulkLiarTest() { node_.Enter(authority_); }

  // A file of 3 MiB, told as it is but for what `lie` makes of it.
  std::shared_ptr<Disk> Lying(std::function<void(const bulk::Request& request, Liar::Said& said)> lie) {
    liars_.push_back(std::make_unique<Liar>(Tls(), [this, lie = std::move(lie)](const bulk::Request& request) {
      Liar::Said said;
      said.answer.set_id(request.id());
      if (request.op() == bulk::Request::READ) said.payload = bytes_.substr(request.offset(), request.bytes());
      said.answer.set_crc32c(Crc32c(std::as_bytes(std::span(said.payload))));
      *said.answer.mutable_info() = ToMessage(FileInfo{.bytes = bytes_.size(), .inode = 1, .mode = 0100600});
      lie(request, said);
      return said;
    }));
    return node_.bulk().DiskOf(kRun, MemberOf(kRun, 9).node, liars_.back()->address());
  }
  absl::Status Read(Disk& disk) {
    CAIRN_ASSIGN_OR_RETURN(const auto file, disk.Open("/file", {}));
    ReadInHand read(*file, 0, bytes_.size());
    CAIRN_RETURN_IF_ERROR(read.Wait());
    EXPECT_TRUE(read.bytes() == bytes_);
    return absl::OkStatus();
  }

  const std::string bytes_ = Pattern(3 << 20);
  std::vector<std::unique_ptr<Liar>> liars_;  // each ends when its connections have
  BulkNode node_{1, {.connections_max = 1, .dial = milliseconds(20'000), .answer = milliseconds(300)}};
};

TEST_F(BulkLiarTest, TheTruthIsTaken) {
  EXPECT_OK(Read(*Lying([](const bulk::Request&, Liar::Said&) {})));
}

TEST_F(BulkLiarTest, AFlippedBitIsDataLossAndEndsTheConnection) {
  const auto disk = Lying([](const bulk::Request& request, Liar::Said& said) {
    if (request.offset() == 1 << 20) said.payload[777] = static_cast<char>(said.payload[777] ^ 4);
  });
  const WarningsHeard log;
  const absl::Status status = Read(*disk);
  EXPECT_STATUS(kDataLoss, status, "arrived");
  for (const std::string& part : {MemberOf(kRun, 9).node, std::string("/file"), std::string("1048576")}) {
    EXPECT_STATUS(kDataLoss, status, part);
    EXPECT_TRUE(log.Wait(part == "/file" ? "'file'" : part)) << log.all();
  }
  // On another connection.
  EXPECT_OK(disk->Info("/file"));
}

TEST_F(BulkLiarTest, SilenceEnds) {
  EXPECT_STATUS(kUnavailable, Read(*Lying([](const bulk::Request& request, Liar::Said& said) {
                  if (request.op() == bulk::Request::READ) said.answer.set_id(0);
                })),
                "no answer within 300 ms");
}

TEST_F(BulkLiarTest, AnswersThatDoNotFitEndTheConnection) {
  const auto lie = [this](const char* part, std::function<void(Liar::Said&)> change) {
    EXPECT_STATUS(kUnavailable, Read(*Lying([change](const bulk::Request& request, Liar::Said& said) {
                    if (request.op() == bulk::Request::READ) change(said);
                  })),
                  part);
  };
  lie("id 77", [](Liar::Said& said) { said.answer.set_id(77); });
  lie("payload of 1048575 bytes", [](Liar::Said& said) { said.payload.pop_back(); });
  lie("payload of 1048576 bytes, not 0", [](Liar::Said& said) { said.answer.set_code(5); });
  lie("code 99", [](Liar::Said& said) {
    said.answer.set_code(99);
    said.payload.clear();
  });
}

TEST_F(BulkLiarTest, InfoAndNamesAreNotBelieved) {
  const auto bad_info = Lying([](const bulk::Request&, Liar::Said& said) { said.answer.mutable_info()->set_mode(0); });
  EXPECT_STATUS(kUnavailable, bad_info->Info("/file"), "neither a file");
  const auto names = [this](std::string payload, bool more) {
    return Lying([=](const bulk::Request&, Liar::Said& said) {
             said.payload = payload;
             said.answer.set_more(more);
             said.answer.set_crc32c(Crc32c(std::as_bytes(std::span(said.payload))));
           })
        ->List("/");
  };
  EXPECT_STATUS(kUnavailable, names(std::string("b\0a\0", 4), false), "order");
  EXPECT_STATUS(kUnavailable, names(std::string("..\0", 3), false), "'..'");
  EXPECT_STATUS(kUnavailable, names("", true), "without end");
  EXPECT_STATUS(kUnavailable, names(std::string("a\0", 2), true), "order");  // the same again
  EXPECT_OK(names(std::string("a\0b\0", 4), false));
}

}  // namespace
}  // namespace cairn
