// Links go to whom their first frame is for: daemon/peers/first_frame.h.
#include "daemon/peers/first_frame.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/daemon/peers/asking_members.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

class FirstFrameTest : public AskingMembers {};

TEST_F(FirstFrameTest, ALinkThatSaysNothingEndsAndOnlySoManyOfThemWait) {
  Node& two = Start(2);
  Foreign& foreign = StartForeign(50);
  std::vector<std::unique_ptr<PeerLink>> mute;
  for (std::size_t i = 0; i < FirstFrame::kNewcomersMax; ++i) {
    Dial(foreign, two.self);
    mute.push_back(std::move(foreign.link));
  }
  Dial(foreign, two.self);
  RunUntil([&] { return foreign.closed.has_value(); }, milliseconds(100));
  EXPECT_EQ(Links(two.self.address).size(), FirstFrame::kNewcomersMax);
  RunFor(milliseconds(3'100));
  EXPECT_TRUE(Links(two.self.address).empty());
  mute.clear();
  Dial(foreign, two.self);
  Say(foreign, FrameOf(AskShow()));
  RunUntil([&] { return !foreign.frames.empty(); }, milliseconds(100));
}

TEST_F(FirstFrameTest, WhoeverGetsALinkGetsItsFramesFromTheFirstOnAndItsEnd) {
  SteppedLoop loop(stepper_);
  const Member self = MemberOf(2);
  PeerNet& net = network_.Open(self.address, {.run = kRun, .node = self.node, .incarnation = 1}, loop);
  std::unique_ptr<FirstFrame> links;
  std::unique_ptr<PeerLink> link;
  std::vector<std::uint32_t> heights;
  bool closed = false;
  loop.Run([&] {
    links = std::make_unique<FirstFrame>(
        FirstFrame::Given{.loop = loop, .net = net, .run = kRun, .silence = milliseconds(3'000)});
    links->With(peer::Frame::kPulse).Serve(kRun, [&](std::unique_ptr<PeerLink> taken) {
      link = std::move(taken);
      link->Start({.on_frame = [&](const peer::Frame& frame) { heights.push_back(frame.pulse().height()); },
                   .on_closed = [&](const absl::Status&) { closed = true; }});
      EXPECT_TRUE(heights.empty()) << "inside the call";
    });
  });
  Foreign& foreign = StartForeign(50);
  Dial(foreign, self);
  for (std::uint32_t height = 1; height <= 3; ++height) {
    peer::Frame frame;
    frame.mutable_pulse()->set_height(height);
    Say(foreign, frame);
  }
  foreign.loop->Run([&] { foreign.link.reset(); });
  RunUntil([&] { return closed; }, milliseconds(100));
  EXPECT_EQ(heights, (std::vector<std::uint32_t>{1, 2, 3}));
  // Of another kind: nobody takes it.
  Dial(foreign, self);
  Say(foreign, FrameOf(AskShow()));
  RunUntil([&] { return foreign.closed.has_value(); }, milliseconds(100));
  network_.Vanish(self.address);
  link.reset();
  links.reset();
  loop.Stop();
}

TEST_F(FirstFrameTest, AMemberThatServesNothingLetsNobodyIn) {
  Node& two = Start(2);
  two.loop->Run([&] {
    two.questions->Stop();
    two.questions.reset();
    two.links->With(peer::Frame::kJoin).Serve(kRun, [](std::unique_ptr<PeerLink>) {});
  });
  Foreign& foreign = StartForeign(50);
  Dial(foreign, two.self);
  Say(foreign, FrameOf(AskShow()));
  RunUntil([&] { return foreign.closed.has_value(); }, milliseconds(100));
  EXPECT_TRUE(two.to_others.empty()) << "what questions no longer takes is nobody else's";
}

}  // namespace
}  // namespace cairn
