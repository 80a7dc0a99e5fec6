// cairn_checkpoint against a daemon that answers Begin as no daemon may.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "tests/client/checkpoint_fixture.h"
#include "tests/client/fake_daemon.h"

namespace cairn {
namespace {

// What a daemon must not answer a Begin with. Nothing may be written outside the image, nothing read outside memory.
struct BadBegin {
  const char* name;
  std::function<void(local::BeginReply&)> spoil;
};

class BadBeginTest : public CheckpointTest, public testing::WithParamInterface<BadBegin> {};

TEST_P(BadBeginTest, IsRefusedWithoutTouchingMemory) {
  Open([this](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    local::Reply reply = BeginReplyFor(begin, image_, true);
    GetParam().spoil(*reply.mutable_begin());
    const bool fresh = reply.begin().image().fresh();
    peer.Answer(begin, std::move(reply), fresh ? image_.fd() : -1);
    EXPECT_FALSE(peer.Receive());
  });
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_INTERNAL) << cairn_error(session_);
  EXPECT_TRUE(Says(session_, "protocol")) << cairn_error(session_);
}

const BadBegin kBadBegins[] = {
    {"VariableBeyondTheLast", [](local::BeginReply& b) { b.mutable_plan()->set_variable(3, 1); }},
    {"PieceBeyondItsVariable", [](local::BeginReply& b) { b.mutable_plan()->set_variable_offset(3, 39001); }},
    {"OffsetThatOverflows", [](local::BeginReply& b) { b.mutable_plan()->set_variable_offset(3, ~std::uint64_t{0}); }},
    {"PieceBeyondTheImage", [](local::BeginReply& b) { b.mutable_plan()->set_image_offset(3, kImageBytes - 999); }},
    {"ImageOffsetThatOverflows",
     [](local::BeginReply& b) { b.mutable_plan()->set_image_offset(3, ~std::uint64_t{0} - 500); }},
    {"PieceOfNoBytes", [](local::BeginReply& b) { b.mutable_plan()->set_bytes(3, 0); }},
    {"PieceOfTooManyBytes", [](local::BeginReply& b) { b.mutable_plan()->set_bytes(3, ~std::uint64_t{0}); }},
    {"ColumnsThatDiffer", [](local::BeginReply& b) { b.mutable_plan()->add_variable(0); }},
    {"AFewReleases", [](local::BeginReply& b) { b.mutable_plan()->add_after_released(0); }},
    {"BytesForgotten", [](local::BeginReply& b) { b.mutable_plan()->set_bytes(3, 999); }},
    {"NoPlan", [](local::BeginReply& b) { b.clear_plan(); }},
    {"ThePlanOfNoReply",
     [](local::BeginReply& b) {
       b.clear_plan();
       b.set_same_plan(true);
     }},
    {"NoImage", [](local::BeginReply& b) { b.clear_image(); }},
    {"ImageLargerThanItsDescriptor", [](local::BeginReply& b) { b.mutable_image()->set_bytes(kImageBytes + 1); }},
    {"ImageOfNoBytes", [](local::BeginReply& b) { b.mutable_image()->set_bytes(0); }},
};

INSTANTIATE_TEST_SUITE_P(All, BadBeginTest, testing::ValuesIn(kBadBegins),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(CheckpointTest, AnImageThatCouldShrinkUnderTheApplicationIsRefused) {
  FakeImage unsealed(8, kImageBytes, /*sealed=*/false);
  Open([&](FakePeer& peer) {
    const local::Request begin = peer.Expect(local::Request::kBegin);
    peer.Answer(begin, BeginReplyFor(begin, unsealed, true), unsealed.fd());
    EXPECT_FALSE(peer.Receive());
  });
  EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_INTERNAL);
  EXPECT_TRUE(Says(session_, "sealed")) << cairn_error(session_);
  daemon_.Join();
}

TEST_F(CheckpointTest, ADescriptorThatWasPromisedMustComeAndOneThatWasNotMustNot) {
  for (const bool promised : {true, false}) {
    Open([&](FakePeer& peer) {
      const local::Request begin = peer.Expect(local::Request::kBegin);
      peer.Answer(begin, BeginReplyFor(begin, image_, promised), promised ? -1 : image_.fd());
      EXPECT_FALSE(peer.Receive());
    });
    EXPECT_EQ(cairn_checkpoint(session_, 0, nullptr), CAIRN_INTERNAL) << promised;
    EXPECT_TRUE(Says(session_, "descriptor")) << cairn_error(session_);
    daemon_.Join();
    cairn_close(session_);
    session_ = nullptr;
  }
}

}  // namespace
}  // namespace cairn
