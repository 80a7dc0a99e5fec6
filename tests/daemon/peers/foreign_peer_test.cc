// A peer that is a member by its certificate, and says what it likes: what real members make of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/frames.h"
#include "tests/daemon/peers/sample.h"
#include "tests/daemon/peers/sim_cluster.h"

namespace cairn {
namespace {

using peer::Elsewhere;
using std::chrono::milliseconds;

// By hand, with frames as they come.
class Hand {
 public:
  Hand(SimCluster& sim, std::uint32_t number, std::uint64_t incarnation = 1)
      : sim_(sim), loop_(sim.stepper()), self_(MemberOf(number, incarnation)) {
    net_ = &sim.network().Open(self_.address,
                               {.run = SimCluster::run(), .node = self_.node, .incarnation = incarnation}, loop_);
    sim_.others.push_back(&loop_);
  }
  ~Hand() {
    std::erase(sim_.others, &loop_);
    link_.reset();
    given_up_.clear();
    sim_.network().Vanish(self_.address);
  }

  const Member& self() const { return self_; }
  void Dial(const std::string& address) {
    Reset();
    loop_.Run([&] {
      net_->Dial(SimCluster::run(), address, milliseconds(1000), [this](auto link) {
        ASSERT_TRUE(link.ok());
        Take(*std::move(link));
      });
    });
    ASSERT_TRUE(sim_.RunUntil([this] { return link_ != nullptr; }, milliseconds(3000)));
  }
  // Others dial this one.
  void Serve() {
    loop_.Run([this] { net_->Serve(SimCluster::run(), [this](auto link) { Take(std::move(link)); }); });
  }
  // As if no link had come.
  void Reset() {
    Close();
    closed_.reset();
    frames_.clear();
  }
  bool linked() const { return link_ != nullptr; }
  void Close() {
    loop_.Run([this] {
      link_.reset();
      given_up_.clear();
    });
  }
  void Send(const peer::Frame& frame) {
    loop_.Run([&] { link_->Send(frame); });
  }
  void Join(
      std::uint64_t epoch, const std::function<void(peer::Join&)>& spoil = [](peer::Join&) {},
      std::vector<Member> below = {}) {
    peer::Frame frame = frames::Join(epoch, self_, below.empty() ? 0 : 1, std::move(below)).front();
    spoil(*frame.mutable_join());
    Send(frame);
  }
  void Pulse() {
    peer::Frame frame;
    frame.mutable_pulse();
    Send(frame);
  }
  // The first of this kind that has come, or comes soon.
  std::optional<peer::Frame> Get(peer::Frame::BodyCase body) {
    const auto is = [body](const peer::Frame& frame) { return frame.body_case() == body; };
    sim_.RunUntil([&] { return std::ranges::any_of(frames_, is); }, milliseconds(3000));
    const auto found = std::ranges::find_if(frames_, is);
    return found == frames_.end() ? std::nullopt : std::optional(*found);
  }
  std::optional<peer::Elsewhere> GetElsewhere() {
    const auto frame = Get(peer::Frame::kElsewhere);
    return frame ? std::optional(frame->elsewhere()) : std::nullopt;
  }
  bool IsClosed() const { return closed_.has_value(); }
  bool Closed() {
    return sim_.RunUntil([this] { return closed_.has_value(); }, milliseconds(3000));
  }

 private:
  // Whoever comes again has given up the link before; what it said there last may still be on the way.
  void Take(std::unique_ptr<PeerLink> link) {
    if (link_ != nullptr) {
      closed_ = absl::CancelledError("another came");
      given_up_.push_back(std::move(link_));
    }
    link_ = std::move(link);
    link_->Start({.on_frame = [this](peer::Frame frame) { frames_.push_back(std::move(frame)); },
                  .on_closed = [this](const absl::Status& why) { closed_ = why; }});
  }

  SimCluster& sim_;
  SteppedLoop loop_;
  Member self_;
  PeerNet* net_;
  std::unique_ptr<PeerLink> link_;
  std::vector<std::unique_ptr<PeerLink>> given_up_;
  std::vector<peer::Frame> frames_;
  std::optional<absl::Status> closed_;
};

class ForeignPeerTest : public ::testing::Test {
 protected:
  ForeignPeerTest() {
    for (std::uint32_t number = 1; number <= 3; ++number) sim_.Start(number);
    EXPECT_TRUE(sim_.RunUntil([this] { return sim_.IsSettled(); }, 6 * sim_.settings.term));
    top_ = sim_.Acting().at(0);
    other_ = top_ == 1 ? 2 : 1;
  }
  const std::string& AddressOfTop() { return sim_.node(top_).address; }
  bool HasMember(const NodeId& node) { return sim_.at(top_).table().entries.contains(node); }
  // Refused with this word, closed, and nothing has changed.
  void ExpectRefused(Hand& hand, Elsewhere::Why why, const std::string& text) {
    const auto elsewhere = hand.GetElsewhere();
    ASSERT_TRUE(elsewhere);
    EXPECT_EQ(elsewhere->why(), why) << elsewhere->text();
    EXPECT_NE(elsewhere->text().find(text), std::string::npos) << elsewhere->text();
    EXPECT_TRUE(hand.Closed());
    sim_.RunFor(sim_.settings.term);
    EXPECT_TRUE(sim_.IsSettled()) << sim_.Settled();
  }

  SimCluster sim_{1};
  std::uint32_t top_ = 0, other_ = 0;
};

TEST_F(ForeignPeerTest, WhoJoinsIsWelcomedAndGetsTheTable) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  hand.Join(1);
  const auto welcome = hand.Get(peer::Frame::kWelcome);
  ASSERT_TRUE(welcome);
  const auto place = frames::ToPlace(welcome->welcome().place(), "p");
  ASSERT_TRUE(place.ok());
  EXPECT_EQ(place->coordinator.node, sim_.node(top_).id);
  EXPECT_TRUE(place->path.empty());
  const auto table = hand.Get(peer::Frame::kTable);
  ASSERT_TRUE(table);
  EXPECT_TRUE(table->table().whole());
  EXPECT_EQ(table->table().entries_size(), 3);
  EXPECT_TRUE(sim_.RunUntil([&] { return HasMember(NodeOf(50)); }, milliseconds(3000)));
}

TEST_F(ForeignPeerTest, WhatIsNotAJoinFirstIsRefused) {
  for (int i = 0; i < 4; ++i) {
    Hand hand(sim_, 50);
    hand.Dial(AddressOfTop());
    peer::Frame frame;
    if (i == 1) frame.mutable_below();
    if (i == 2) frame.mutable_welcome();
    if (i == 3) frame.mutable_leave();
    hand.Send(frame);
    ExpectRefused(hand, Elsewhere::INVALID, "the first one is a join");
  }
}

TEST_F(ForeignPeerTest, AJoinIsRefusedByTheNameOfItsField) {
  const std::vector<std::pair<std::string, std::function<void(peer::Join&)>>> bad = {
      {"join.self", [](auto& join) { join.mutable_self()->set_node(NodeOf(2)); }},
      {"join.self", [](auto& join) { join.mutable_self()->set_incarnation(2); }},
      {"join.self.host", [](auto& join) { join.mutable_self()->set_host(std::string(65, 'x')); }},
      {"join.members_below", [](auto& join) { *join.add_below() = frames::From(MemberOf(60)); }},
      {"join.epoch", [](auto& join) { join.set_epoch(UINT64_MAX); }},
  };
  for (const auto& [field, spoil] : bad) {
    Hand hand(sim_, 50);
    hand.Dial(AddressOfTop());
    hand.Join(1, spoil);
    ExpectRefused(hand, Elsewhere::INVALID, field);
    EXPECT_FALSE(HasMember(NodeOf(50)));
  }
}

TEST_F(ForeignPeerTest, WhatAChildSaysLaterIsRefusedByTheNameOfItsField) {
  const std::vector<std::pair<std::string, std::function<void(peer::Frame&)>>> bad = {
      {"below.now[0].node", [](auto& frame) { frame.mutable_below()->add_now(); }},
      {"below.now: not who", [](auto& frame) { *frame.mutable_below()->add_now() = frames::From(MemberOf(50, 9)); }},
      {"frame: 4", [](auto& frame) { frame.mutable_welcome(); }},
      {"frame: 6", [](auto& frame) { frame.mutable_table(); }},
      {"frame: 1", [](auto& frame) { frame.mutable_join(); }},
      {"frame: 0", [](auto&) {}},
  };
  for (const auto& [text, spoil] : bad) {
    Hand hand(sim_, 50);
    hand.Dial(AddressOfTop());
    hand.Join(1);
    ASSERT_TRUE(hand.Get(peer::Frame::kWelcome));
    peer::Frame frame;
    spoil(frame);
    hand.Send(frame);
    const auto elsewhere = hand.GetElsewhere();
    ASSERT_TRUE(elsewhere) << text;
    EXPECT_EQ(elsewhere->why(), Elsewhere::INVALID);
    EXPECT_NE(elsewhere->text().find(text), std::string::npos) << elsewhere->text();
    EXPECT_TRUE(hand.Closed());
  }
}

TEST_F(ForeignPeerTest, NobodyTakesAwayTheCoordinatorOrThoseWhoAreElsewhere) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  Member of_top = MemberOf(1, 9999);
  of_top.node = sim_.node(top_).id;
  hand.Join(1);
  ASSERT_TRUE(hand.Get(peer::Frame::kWelcome));
  for (const frames::BelowChange& change :
       {frames::BelowChange{{of_top}, {}},
        frames::BelowChange{{}, {{sim_.node(top_).id, sim_.node(top_).incarnation, GoneWhy::kLeft}}},
        frames::BelowChange{{}, {{sim_.node(other_).id, sim_.node(other_).incarnation, GoneWhy::kLost}}},
        frames::BelowChange{{}, {{sim_.node(other_).id, 1, GoneWhy::kLeft}}}}) {
    hand.Send(frames::Below(change).front());
  }
  sim_.RunFor(milliseconds(3000));
  EXPECT_TRUE(HasMember(sim_.node(other_).id));
  EXPECT_EQ(sim_.at(top_).table().entries.at(sim_.node(top_).id).member.incarnation, sim_.node(top_).incarnation);
  EXPECT_FALSE(sim_.at(top_).table().entries.at(sim_.node(other_).id).missing);
}

TEST_F(ForeignPeerTest, WhoIsSaidToHaveLeftAndIsThereComesBackAtOnce) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  hand.Join(1);
  ASSERT_TRUE(hand.Get(peer::Frame::kWelcome));
  hand.Send(frames::Below({.now = {}, .gone = {{sim_.node(other_).id, sim_.node(other_).incarnation, GoneWhy::kLeft}}})
                .front());
  ASSERT_TRUE(sim_.RunUntil([this] { return !HasMember(sim_.node(other_).id); }, milliseconds(3000)));
  EXPECT_TRUE(sim_.RunUntil([this] { return HasMember(sim_.node(other_).id); }, milliseconds(3000)));
}

TEST_F(ForeignPeerTest, WhoHasTheOtherBelowItselfIsRefused) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  Member of_top = MemberOf(1);
  of_top.node = sim_.node(top_).id;
  hand.Join(1, [](auto&) {}, {of_top});
  ExpectRefused(hand, Elsewhere::CIRCLE, "join.below");
}

// --- Epochs ---

TEST_F(ForeignPeerTest, AJoinOfAnEpochThatIsOverIsRefusedWithTheNewerOneNamed) {
  sim_.Kill(top_, /*silently=*/true);
  ASSERT_TRUE(sim_.RunUntil([this] { return sim_.IsSettled(); }, 6 * sim_.settings.term));
  top_ = sim_.Acting().at(0);
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  hand.Join(1);
  const auto elsewhere = hand.GetElsewhere();
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->why(), Elsewhere::NEWER);
  EXPECT_EQ(elsewhere->coordinator().epoch(), 2U);
  EXPECT_EQ(elsewhere->coordinator().node(), sim_.node(top_).id);
  EXPECT_EQ(elsewhere->coordinator().address(), AddressOfTop());
}

TEST_F(ForeignPeerTest, ACoordinatorThatHearsOfANewerEpochActsNoMoreAndGoesAboveIt) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  hand.Join(5);
  const auto elsewhere = hand.GetElsewhere();
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->why(), Elsewhere::UNATTACHED);
  EXPECT_TRUE(sim_.RunUntil([this] { return sim_.IsSettled(); }, 6 * sim_.settings.term)) << sim_.Settled();
  EXPECT_EQ(sim_.at(top_).coordinator().name.epoch, 6U);
}

TEST_F(ForeignPeerTest, AnAbsurdEpochIsNotBelieved) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  hand.Join(std::uint64_t{1} << 40);
  ExpectRefused(hand, Elsewhere::UNATTACHED, "epoch 1 is the newest here");
  EXPECT_EQ(sim_.at(top_).coordinator().name.epoch, 1U);
}

TEST_F(ForeignPeerTest, AMemberThatIsNoCoordinatorBelievesNoStrangersEpoch) {
  Hand hand(sim_, 50);
  hand.Dial(sim_.node(other_).address);
  hand.Join(5);
  ExpectRefused(hand, Elsewhere::UNATTACHED, "");
  EXPECT_EQ(sim_.at(other_).coordinator().name.epoch, 1U);
}

// --- What a child makes of a parent ---

class ForeignParentTest : public ForeignPeerTest {
 protected:
  // A member that cannot read the lease, and is told of the hand alone.
  ForeignParentTest() : hand_(sim_, 50) {
    sim_.arbiter_fails = [](const SimCluster::ArbiterCall& call) {
      return call.node == 9 ? absl::UnavailableError("out of reach") : absl::OkStatus();
    };
    hand_.Serve();
    sim_.settings.peers = {hand_.self().address};
    sim_.Start(9);
    EXPECT_TRUE(sim_.RunUntil([this] { return hand_.linked(); }, milliseconds(3000)));
    EXPECT_TRUE(hand_.Get(peer::Frame::kJoin));
  }
  static frames::Place PlaceAt(std::uint64_t epoch) {
    return {.coordinator =
                {.epoch = epoch, .node = NodeOf(50), .incarnation = 1, .host = "h", .address = "10.0.0.50:17001"},
            .path = {},
            .attached = true};
  }
  void Welcome(std::uint64_t epoch) {
    hand_.Send(frames::Welcome(PlaceAt(epoch)));
    EXPECT_TRUE(sim_.RunUntil([this] { return sim_.at(9).coordinator().attached; }, milliseconds(3000)));
  }
  peer::Frame PulseOf(const frames::Place& place) {
    peer::Frame frame;
    *frame.mutable_pulse()->mutable_place() = frames::From(place);
    return frame;
  }

  Hand hand_;
};

TEST_F(ForeignParentTest, AStaleParentIsToldOfTheNewerEpochAndLeft) {
  Welcome(7);
  hand_.Send(PulseOf(PlaceAt(8)));
  ASSERT_TRUE(sim_.RunUntil([this] { return sim_.at(9).coordinator().name.epoch == 8; }, milliseconds(3000)));
  hand_.Send(PulseOf(PlaceAt(7)));
  const auto elsewhere = hand_.GetElsewhere();
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->why(), Elsewhere::NEWER);
  EXPECT_EQ(elsewhere->coordinator().epoch(), 8U);
  EXPECT_TRUE(hand_.Closed());
}

TEST_F(ForeignParentTest, AStaleTableIsRefusedTheSameWay) {
  Welcome(7);
  hand_.Send(frames::Table(6, 1, true, {}).front());
  const auto elsewhere = hand_.GetElsewhere();
  ASSERT_TRUE(elsewhere);
  EXPECT_EQ(elsewhere->why(), Elsewhere::NEWER);
  EXPECT_EQ(elsewhere->coordinator().epoch(), 7U);
}

TEST_F(ForeignParentTest, WhatAParentMustNotSayEndsTheLink) {
  const std::vector<std::pair<std::string, peer::Frame>> bad = [this] {
    std::vector<std::pair<std::string, peer::Frame>> list;
    list.emplace_back("table.epoch", frames::Table(9, 1, true, {}).front());
    list.emplace_back("welcome: a second", frames::Welcome(PlaceAt(7)));
    list.emplace_back("place.coordinator.epoch", PulseOf(PlaceAt(std::uint64_t{1} << 50)));
    list.emplace_back("frame: 0", peer::Frame());
    peer::Frame frame;
    frame.mutable_leave();
    list.emplace_back("frame: 3", frame);
    frame.mutable_pulse()->mutable_place()->add_path("x");
    list.emplace_back("pulse.place.path", frame);
    return list;
  }();
  for (const auto& [text, frame] : bad) {
    Welcome(7);
    hand_.Send(frame);
    const auto elsewhere = hand_.GetElsewhere();
    ASSERT_TRUE(elsewhere) << text;
    EXPECT_NE(elsewhere->text().find(text), std::string::npos) << elsewhere->text();
    ASSERT_TRUE(hand_.Closed());
    EXPECT_FALSE(sim_.at(9).coordinator().attached);
    hand_.Reset();
    ASSERT_TRUE(sim_.RunUntil([this] { return hand_.linked(); }, sim_.settings.term));
    ASSERT_TRUE(hand_.Get(peer::Frame::kJoin)) << "it tries again, and knows nobody else";
  }
}

TEST_F(ForeignParentTest, WhoWouldBeBelowItselfLeaves) {
  Welcome(7);
  frames::Place place = PlaceAt(7);
  place.path = {NodeOf(51), SimCluster::IdOf(9)};
  hand_.Send(PulseOf(place));
  EXPECT_TRUE(hand_.Closed());
}

TEST_F(ForeignParentTest, ATableThatIsTooLargeIsRefused) {
  Welcome(7);
  TableChange change;
  for (std::uint32_t i = 0; i < frames::kListMax; ++i)
    change.entries.push_back({.member = MemberOf(100 + i), .missing = false});
  peer::Frame frame = frames::Table(7, 1, false, change).front();
  frame.mutable_table()->set_more(true);
  for (std::uint32_t i = 0; i < 70; ++i) hand_.Send(frame);
  EXPECT_TRUE(hand_.Closed()) << "16 384 and no more";
  EXPECT_TRUE(sim_.at(9).table().entries.empty());
}

TEST_F(ForeignParentTest, ATableThatGrowsBitByBitIsRefusedAtTheSameSize) {
  Welcome(7);
  std::uint32_t next = 100;
  for (std::uint32_t version = 1; version <= 70 && !hand_.IsClosed(); ++version) {
    TableChange change;
    for (std::uint32_t i = 0; i < frames::kListMax; ++i) {
      change.entries.push_back({.member = MemberOf(next++), .missing = false});
    }
    hand_.Send(frames::Table(7, version, false, change).front());
    sim_.RunFor(milliseconds(20));
  }
  EXPECT_TRUE(hand_.Closed()) << "16 384 and no more";
  EXPECT_LE(sim_.at(9).table().entries.size(), 16'384u);
}

// What changes below a member while its Join is on the way is not lost; and a parent whose answer comes too late has no
// child.
TEST_F(ForeignParentTest, WhatChangesBetweenAJoinAndItsAnswerIsSent) {
  sim_.node(9).loop->Run([this] { sim_.at(9).UpdateSelf({.datasets = 77, .bytes = 1, .sessions = 1}); });
  const auto below = hand_.Get(peer::Frame::kBelow);
  ASSERT_TRUE(below);
  EXPECT_EQ(below->below().now(0).summary().datasets(), 77U);
}

TEST_F(ForeignParentTest, AnAnswerThatComesTooLateIsNotHeard) {
  sim_.RunFor(sim_.settings.term / 4);  // it has given up
  EXPECT_TRUE(hand_.Closed());
  EXPECT_FALSE(sim_.at(9).coordinator().attached);
}

TEST_F(ForeignPeerTest, AJoinWhoseSenderHasGivenUpTakesNothingAwayAndIsForgottenAsWhoeverIsLost) {
  Hand hand(sim_, 50);
  hand.Dial(AddressOfTop());
  hand.Join(1);
  hand.Close();
  sim_.RunFor(sim_.settings.term / 4);
  for (std::uint32_t number = 1; number <= 3; ++number) EXPECT_TRUE(HasMember(sim_.node(number).id)) << number;
  EXPECT_TRUE(sim_.RunUntil([this] { return sim_.IsSettled(); }, 5 * sim_.settings.term)) << sim_.Settled();
}

}  // namespace
}  // namespace cairn
