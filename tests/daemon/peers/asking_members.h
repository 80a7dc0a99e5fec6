// Members that ask each other over a simulated network, and one that says what it likes.
#ifndef CAIRN_TESTS_DAEMON_PEERS_ASKING_MEMBERS_H_
#define CAIRN_TESTS_DAEMON_PEERS_ASKING_MEMBERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/first_frame.h"
#include "daemon/peers/questions.h"
#include "storage/base/status.h"
#include "tests/daemon/peers/sample.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/status_matchers.h"
#include "tests/support/stepped.h"

namespace cairn {

inline const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");
inline constexpr std::chrono::milliseconds kDeadline(2'000);
inline constexpr Questions::Patience kPatience{.each = kDeadline, .total = std::chrono::milliseconds(10'000)};

inline peer::Question AskShow(DatasetId id = 7) {
  peer::Question question;
  question.mutable_show()->set_dataset(id);
  return question;
}
// Says what was asked, and is as long as wanted.
inline peer::Answer ShowAnswer(DatasetId id, std::size_t bytes = 0) {
  peer::Answer answer;
  answer.mutable_show()->mutable_dataset()->set_dataset(id);
  answer.mutable_show()->mutable_dataset()->set_error(std::string(bytes, 'x'));
  return answer;
}

class AskingMembers : public ::testing::Test {
 protected:
  struct Node {
    Member self;
    std::unique_ptr<SteppedLoop> loop;
    PeerNet* net = nullptr;
    std::unique_ptr<FirstFrame> links;
    std::unique_ptr<Questions> questions;
    std::vector<std::pair<PeerIdentity, peer::Question>> asked;
    std::vector<Questions::Then> held;
    std::vector<std::unique_ptr<PeerLink>> to_others;  // whose first frame is no question
  };
  using Result = std::shared_ptr<std::optional<absl::StatusOr<peer::Answer>>>;
  using AllResult = std::shared_ptr<std::optional<Questions::Answers>>;

  // Answers with what was asked for.
  Node& Start(std::uint32_t number, Questions::Limits limits = {}) {
    Node& node = nodes_[number];
    node.self = MemberOf(number);
    node.loop = std::make_unique<SteppedLoop>(stepper_);
    node.net = &network_.Open(node.self.address,
                              {.run = kRun, .node = node.self.node, .incarnation = node.self.incarnation}, *node.loop);
    node.loop->Run([&] {
      node.links = std::make_unique<FirstFrame>(FirstFrame::Given{
          .loop = *node.loop, .net = *node.net, .run = kRun, .silence = std::chrono::milliseconds(3'000)});
      node.links->Others().Serve(kRun, [&node](std::unique_ptr<PeerLink> link) {
        link->Start({.on_frame = [](const peer::Frame&) {}, .on_closed = [](const absl::Status&) {}});
        node.to_others.push_back(std::move(link));
      });
      node.questions = Questions::Make(
          {.loop = *node.loop, .net = node.links->With(peer::Frame::kQuestion), .run = kRun, .limits = limits},
          [this, &node](const PeerIdentity& who, const peer::Question& question, Questions::Then then) {
            node.asked.emplace_back(who, question);
            if (hold_) return node.held.push_back(std::move(then));
            then(answer_(question));
          });
    });
    return node;
  }
  // Without a word to anybody, or so that its links break.
  void End(std::uint32_t number, bool silently) {
    Node& node = nodes_.at(number);
    silently ? network_.Vanish(node.self.address) : network_.Die(node.self.address);
    node.loop->Stop();
    node.to_others.clear();
    node.questions.reset();
    node.links.reset();
    old_loops_.push_back(std::move(node.loop));
    nodes_.erase(number);
  }
  void TearDown() override {
    while (!nodes_.empty()) End(nodes_.begin()->first, /*silently=*/true);
    for (Foreign& foreign : foreign_) foreign.link.reset();
  }

  Result Ask(Node& from, const Member& to, const peer::Question& question = AskShow()) {
    auto result = std::make_shared<std::optional<absl::StatusOr<peer::Answer>>>();
    from.loop->Run([&] {
      from.questions->Ask(to, question, kDeadline, [result](absl::StatusOr<peer::Answer> answer) {
        EXPECT_FALSE(result->has_value()) << "a second answer";
        *result = std::move(answer);
      });
      EXPECT_FALSE(result->has_value()) << "inside the call";
    });
    return result;
  }
  AllResult AskAll(Node& from, const std::vector<Member>& to, const Questions::Patience& patience = kPatience) {
    auto result = std::make_shared<std::optional<Questions::Answers>>();
    from.loop->Run([&] {
      from.questions->AskAll(to, AskShow(), patience, [result](Questions::Answers answers) {
        EXPECT_FALSE(result->has_value()) << "a second answer";
        *result = std::move(answers);
      });
    });
    return result;
  }
  // Runs what is due, and lets the time pass, until it is so. Returns how long that took.
  std::chrono::milliseconds RunUntil(const std::function<bool()>& so,
                                     std::chrono::milliseconds at_most = std::chrono::milliseconds(60'000)) {
    const auto begin = stepper_.now(), end = begin + at_most;
    while (!so() && stepper_.now() < end) {
      if (!stepper_.Step()) stepper_.Turn(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(so());
    return std::chrono::duration_cast<std::chrono::milliseconds>(stepper_.now() - begin);
  }
  void RunFor(std::chrono::milliseconds time) {
    const auto end = stepper_.now() + time;
    while (stepper_.now() < end) {
      if (!stepper_.Step()) stepper_.Turn(std::chrono::milliseconds(1));
    }
  }
  absl::StatusOr<peer::Answer> Get(const Result& result,
                                   std::chrono::milliseconds at_most = kDeadline + std::chrono::milliseconds(10)) {
    RunUntil([&] { return result->has_value(); }, at_most);
    return result->has_value() ? **result : absl::StatusOr<peer::Answer>(Internal("nobody was called"));
  }
  std::vector<std::string> Links(const std::string& to) {
    std::vector<std::string> from;
    for (const auto& [who, whom] : network_.links()) {
      if (whom == to) from.push_back(who);
    }
    return from;
  }

  // --- A member that says what it likes ---
  struct Foreign {
    Member self;
    std::unique_ptr<SteppedLoop> loop;
    PeerNet* net = nullptr;
    std::unique_ptr<PeerLink> link;
    std::vector<peer::Frame> frames;
    std::optional<absl::Status> closed;

    void Take(std::unique_ptr<PeerLink> taken) {
      link = std::move(taken);
      frames.clear();
      closed.reset();
      link->Start({.on_frame = [this](peer::Frame frame) { frames.push_back(std::move(frame)); },
                   .on_closed = [this](const absl::Status& why) { closed = why; }});
    }
  };
  Foreign& StartForeign(std::uint32_t number) {
    Foreign& foreign = foreign_.emplace_back();
    foreign.self = MemberOf(number);
    foreign.loop = std::make_unique<SteppedLoop>(stepper_);
    foreign.net =
        &network_.Open(foreign.self.address, {.run = kRun, .node = foreign.self.node, .incarnation = 1}, *foreign.loop);
    foreign.loop->Run([&foreign] {
      foreign.net->Serve(kRun, [&foreign](std::unique_ptr<PeerLink> link) { foreign.Take(std::move(link)); });
    });
    return foreign;
  }
  void Dial(Foreign& foreign, const Member& to) {
    foreign.link.reset();
    foreign.loop->Run([&] {
      foreign.net->Dial(kRun, to.address, std::chrono::milliseconds(1'000), [&foreign](auto link) {
        ASSERT_OK(link);
        foreign.Take(*std::move(link));
      });
    });
    RunUntil([&] { return foreign.link != nullptr; });
  }
  void Say(Foreign& foreign, const peer::Frame& frame) {
    foreign.loop->Run([&] { foreign.link->Send(frame); });
  }
  static peer::Frame FrameOf(const peer::Question& question) {
    peer::Frame frame;
    *frame.mutable_question() = question;
    return frame;
  }
  void ExpectRefused(Foreign& foreign, absl::StatusCode code, const std::string& text) {
    RunUntil([&] { return foreign.closed.has_value(); }, std::chrono::milliseconds(20'000));
    ASSERT_EQ(foreign.frames.size(), 1u);
    const peer::Refused& refused = foreign.frames[0].answer().refused();
    EXPECT_EQ(refused.code(), static_cast<std::uint32_t>(code)) << refused.text();
    EXPECT_THAT(refused.text(), ::testing::HasSubstr(text));
  }

  Stepper stepper_{1};
  SimNetwork network_{[this] { return std::chrono::milliseconds(1 + stepper_.Draw(10)); }};
  std::map<std::uint32_t, Node> nodes_;
  std::deque<Foreign> foreign_;
  std::vector<std::unique_ptr<SteppedLoop>> old_loops_;
  bool hold_ = false;
  std::function<absl::StatusOr<peer::Answer>(const peer::Question&)> answer_ = [](const peer::Question& question) {
    return ShowAnswer(question.show().dataset());
  };
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_PEERS_ASKING_MEMBERS_H_
