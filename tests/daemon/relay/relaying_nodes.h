// Daemons that carry links to homes for each other, over a simulated network, for tests. What goes over a link is a
// number: the dataset of a PartFailed upwards, of a DatasetFailed downwards.
#ifndef CAIRN_TESTS_DAEMON_RELAY_RELAYING_NODES_H_
#define CAIRN_TESTS_DAEMON_RELAY_RELAYING_NODES_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/first_frame.h"
#include "daemon/relay/relay.h"
#include "tests/daemon/peers/sample.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/stepped.h"

namespace cairn {

class RelayingNodes {
 public:
  // One end of a link, and what has come there.
  struct End {
    std::unique_ptr<PeerLink> link;
    bool home = false;
    std::uint64_t name = 0;  // of the link, 0 at home until something has come
    std::uint64_t sent = 0;  // so many numbers, from 1
    std::vector<std::uint64_t> came;
    std::optional<absl::Status> closed, failed;  // failed: there will be no link
  };
  using EndPtr = std::shared_ptr<End>;
  struct Node {
    Member self;
    std::unique_ptr<SteppedLoop> loop;
    RelayNumbers numbers;
    std::unique_ptr<FirstFrame> first;
    std::unique_ptr<Relay> relay;
    std::vector<EndPtr> at_home;  // links to this home, by age
  };

  explicit RelayingNodes(std::uint64_t seed, RelaySettings settings = {}) : settings_(settings), stepper_(seed) {}
  ~RelayingNodes() {
    while (!nodes_.empty()) Kill(nodes_.begin()->first, /*silently=*/true);
  }

  Node& Start(std::uint32_t number, bool serves = false) {
    Node& node = nodes_[number];
    node.self = MemberOf(number, ++lives_[number]);
    node.loop = std::make_unique<SteppedLoop>(stepper_);
    const PeerIdentity self{.run = kRun, .node = node.self.node, .incarnation = node.self.incarnation};
    PeerNet& net = network.Open(node.self.address, self, *node.loop);
    node.loop->Run([&] {
      node.first = std::make_unique<FirstFrame>(
          FirstFrame::Given{.loop = *node.loop, .net = net, .run = kRun, .silence = std::chrono::milliseconds(3'000)});
      node.relay = std::make_unique<Relay>(Relay::Given{.loop = *node.loop,
                                                        .net = node.first->With(peer::Frame::kAttach),
                                                        .self = self,
                                                        .settings = settings_,
                                                        .numbers = node.numbers});
      if (serves) Serve(node);
    });
    return node;
  }
  // As kill -9 (silently: as a pulled node).
  void Kill(std::uint32_t number, bool silently = false) {
    Node& node = nodes_.at(number);
    silently ? network.Vanish(node.self.address) : network.Die(node.self.address);
    node.loop->Stop();
    for (const EndPtr& end : node.at_home) end->link = nullptr;
    for (const auto& [from, end] : ends_) {
      if (from == number) end->link = nullptr;
    }
    node.relay = nullptr;
    node.first = nullptr;
    old_loops_.push_back(std::move(node.loop));
    nodes_.erase(number);
  }
  // As all the others find out after some time.
  void TellMissing(std::uint32_t number) {
    for (auto& [other, node] : nodes_) {
      if (other != number) node.loop->Run([&node = node, number] { node.relay->IsMissing(NodeOf(number)); });
    }
  }
  bool IsUp(std::uint32_t number) const { return nodes_.contains(number); }
  Node& operator[](std::uint32_t number) { return nodes_.at(number); }
  std::string AddressOf(std::uint32_t number) const { return MemberOf(number).address; }

  // A link of that node to the home; its end has no link before it is there.
  EndPtr Dial(std::uint32_t from, std::uint32_t home) {
    const auto end = std::make_shared<End>();
    ends_.emplace_back(from, end);
    end->name = ends_.size();
    nodes_.at(from).loop->Run([&] {
      nodes_.at(from).relay->Dial(NodeOf(home), AddressOf(home), std::chrono::seconds(20),
                                  [end](absl::StatusOr<std::unique_ptr<PeerLink>> link) {
                                    if (link.ok()) return Own(end, *std::move(link), /*home=*/false);
                                    end->failed = link.status();
                                  });
    });
    return end;
  }
  // The same, and waits for it.
  EndPtr Linked(std::uint32_t from, std::uint32_t home) {
    EndPtr end = Dial(from, home);
    EXPECT_TRUE(RunUntil([&] { return end->link != nullptr; }));
    return end;
  }
  // The next number goes, with so many bytes besides.
  void Say(const EndPtr& end, std::size_t bytes = 0) {
    peer::Frame frame;
    const auto fill = [&](auto& failed) {
      failed.set_dataset(kPerLink * end->name + ++end->sent);
      failed.set_why(std::string(bytes, 'x'));
    };
    end->home ? fill(*frame.mutable_from_home()->mutable_failed()) : fill(*frame.mutable_to_home()->mutable_failed());
    end->link->Send(std::move(frame));
  }
  bool RunUntil(const std::function<bool()>& so,
                std::chrono::milliseconds at_most = std::chrono::milliseconds(60'000)) {
    const auto end = stepper_.now() + at_most;
    while (!so() && stepper_.now() < end) {
      if (!stepper_.Step()) stepper_.Turn(std::chrono::milliseconds(1));
    }
    return so();
  }
  void RunFor(std::chrono::milliseconds time) {
    const auto end = stepper_.now() + time;
    RunUntil([&] { return stepper_.now() >= end; }, time);
  }
  Stepper& stepper() { return stepper_; }
  // Whose links lead to this node.
  std::vector<std::uint32_t> Below(std::uint32_t number) const {
    std::vector<std::uint32_t> below;
    for (const auto& [who, whom] : network.links()) {
      for (const auto& [other, node] : nodes_) {
        if (whom == AddressOf(number) && who == node.self.address) below.push_back(other);
      }
    }
    return below;
  }

  static inline const RunId kRun = *RunId::Parse("00112233445566778899aabbccddeeff");

 private:
  static constexpr std::uint64_t kPerLink = 1'000'000;
  void Serve(Node& node) {
    node.relay->Serve([this, &node](std::unique_ptr<PeerLink> link) {
      const auto end = std::make_shared<End>();
      node.at_home.push_back(end);
      Own(end, std::move(link), /*home=*/true);
    });
  }
  static void Own(const EndPtr& end, std::unique_ptr<PeerLink> link, bool home) {
    end->link = std::move(link);
    end->home = home;
    const std::weak_ptr<End> weak = end;
    end->link->Start({.on_frame =
                          [weak](const peer::Frame& frame) {
                            const EndPtr end = weak.lock();
                            if (end == nullptr) return;
                            EXPECT_FALSE(end->closed) << "after the last report";
                            const std::uint64_t number =
                                end->home ? frame.to_home().failed().dataset() : frame.from_home().failed().dataset();
                            if (end->name == 0) end->name = number / kPerLink;
                            EXPECT_EQ(end->name, number / kPerLink) << "of another link";
                            end->came.push_back(number % kPerLink);
                          },
                      .on_closed =
                          [weak](const absl::Status& why) {
                            if (const EndPtr end = weak.lock()) end->closed = why;
                          }});
  }

  const RelaySettings settings_;
  Stepper stepper_;

 public:
  SimNetwork network{[this] { return std::chrono::milliseconds(1 + stepper_.Draw(3)); }};

 private:
  std::map<std::uint32_t, std::uint64_t> lives_;
  std::map<std::uint32_t, Node> nodes_;
  std::vector<std::pair<std::uint32_t, EndPtr>> ends_;
  std::vector<std::unique_ptr<SteppedLoop>> old_loops_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_RELAY_RELAYING_NODES_H_
