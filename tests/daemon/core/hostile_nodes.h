// Something that is not a daemon in the place of one, among simulated nodes: as one that serves ranks of a launch, and
// as a launch's home. For tests.
#ifndef CAIRN_TESTS_DAEMON_CORE_HOSTILE_NODES_H_
#define CAIRN_TESTS_DAEMON_CORE_HOSTILE_NODES_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/first_frame.h"
#include "daemon/peers/link.h"
#include "daemon/relay/relay.h"
#include "proto/catalogue.pb.h"
#include "proto/peer.pb.h"
#include "storage/base/ids.h"
#include "tests/daemon/core/fake_client.h"
#include "tests/daemon/core/simulated_nodes.h"
#include "tests/support/status_matchers.h"

namespace cairn {

inline constexpr char kHostileAddress[] = "10.0.0.9:17600";
inline const std::string kHostileNode(32, 'e');

// As the node says itself, once it is a member.
inline NodeId NodeIdOf(SimulatedNodes& nodes, int i) {
  const auto id = std::make_shared<NodeId>();
  for (int asked = 0; id->empty() && asked < 100; ++asked) {
    nodes[i].core().Nodes({}, [id](const absl::StatusOr<admin::NodesReply>& reply) {
      ASSERT_OK(reply.status());
      for (const admin::NodeRow& row : reply->runs(0).nodes()) {
        if (row.here()) *id = row.node();
      }
    });
    nodes.Pass(std::chrono::milliseconds(100));
  }
  return *id;
}

class HostileNodesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nodes.StartAll();
    client = std::make_unique<FakeClient>(nodes[0]);
    ASSERT_EQ(CodeOfReply(client->Open({.rank = 0, .nranks = 2, .key = "job.1"})), local::OK);
    run = *RunId::Parse(client->run());
  }
  void TearDown() override {
    client = nullptr;
    link = nullptr;
    relay = nullptr;
  }

  // To the first node, as a member of the run.
  void Dial() {
    const PeerIdentity self{.run = run, .node = kHostileNode, .incarnation = 1};
    if (relay == nullptr) {
      PeerNet& net = nodes.network.Open(kHostileAddress, self, nodes.loop());
      relay = std::make_unique<Relay>(
          Relay::Given{.loop = nodes.loop(), .net = net, .self = self, .settings = {}, .numbers = numbers});
    }
    const NodeId home = NodeIdOf(nodes, 0);
    const auto dialled = std::make_shared<std::optional<absl::StatusOr<std::unique_ptr<PeerLink>>>>();
    relay->Dial(home, nodes[0].address(), std::chrono::seconds(5),
                [dialled](absl::StatusOr<std::unique_ptr<PeerLink>> end) { *dialled = std::move(end); });
    ASSERT_TRUE(nodes.AdvanceUntil([dialled] { return dialled->has_value(); }));
    ASSERT_OK((*dialled)->status());
    link = std::move(**dialled).value();
    closed = false;
    said.clear();
    // What it says ahead comes at any time.
    link->Start({.on_frame =
                     [this](peer::Frame frame) {
                       if (!frame.from_home().has_foretold()) said.push_back(frame.from_home());
                     },
                 .on_closed = [this](const absl::Status&) { closed = true; }});
  }
  void Say(const peer::ToHome& what) {
    peer::Frame frame;
    *frame.mutable_to_home() = what;
    link->Send(std::move(frame));
    nodes.Pass(std::chrono::milliseconds(100));
  }
  void Introduce() {
    ASSERT_NO_FATAL_FAILURE(Dial());
    peer::ToHome parts;
    parts.mutable_parts()->set_launch(1);
    Say(parts);
    ASSERT_FALSE(closed);
  }
  peer::ToHome FromRank(std::uint64_t session, std::uint64_t call) {
    peer::ToHome from;
    from.mutable_from_rank()->set_session(session);
    from.mutable_from_rank()->mutable_request()->set_call(call);
    return from;
  }
  // Rank 1, through this node.
  void OpenRank() {
    peer::ToHome open = FromRank(1, 1);
    local::Open& wish = *open.mutable_from_rank()->mutable_request()->mutable_open();
    wish.set_prefix("/somewhere/else");
    wish.set_rank(1);
    wish.set_nranks(2);
    wish.set_launch_key("job.1");
    Say(open);
    ASSERT_FALSE(said.empty());
    ASSERT_EQ(said.back().to_rank().reply().status().code(), local::OK) << said.back().DebugString();
  }
  // Both ranks have begun it, and rank 1 has handed it over.
  DatasetId Begin(std::uint64_t step) {
    EXPECT_EQ(CodeOfReply(client->Begin(step, own)), local::OK);
    EXPECT_TRUE(client->Fill(own));
    peer::ToHome begin = FromRank(1, 10 + step);
    local::Begin& wish = *begin.mutable_from_rank()->mutable_request()->mutable_begin();
    wish.set_step(step);
    wish.set_attempt(1);
    wish.set_file_bytes(8192);
    *wish.add_variables() = PlainOf(1, "bytes of rank 1").variable;
    Say(begin);
    EXPECT_EQ(said.back().to_rank().reply().status().code(), local::OK) << said.back().DebugString();
    peer::ToHome commit = FromRank(1, 0);
    commit.mutable_from_rank()->mutable_request()->mutable_commit();
    Say(commit);
    return said.back().to_rank().reply().has_committed() ? said.back().to_rank().reply().committed().dataset() : 0;
  }
  catalogue::Catalogue Sound(DatasetId id, std::uint64_t step) {
    catalogue::Catalogue catalogue;
    catalogue.set_run(run.Hex());
    catalogue.set_launch(1);
    catalogue.set_dataset(id);
    catalogue.set_step(step);
    catalogue.set_rank(1);
    catalogue.set_nranks(2);
    *catalogue.add_variables() = PlainOf(1, "bytes of rank 1").variable;
    catalogue::FileEntry& file = *catalogue.add_file();
    file.set_name("Ckpt" + std::to_string(id) + "-Rank1.fti");
    file.set_prefix_name("ckpt." + std::to_string(id) + "/Ckpt" + std::to_string(id) + "-Rank1.fti");
    file.set_bytes(8192);
    file.add_crc32c(1);
    return catalogue;
  }
  bool Lives() {
    FakeClient other(nodes[0]);
    return CodeOfReply(other.Open({.observer = true})) == local::OK;
  }

  const Memory own = {PlainOf(1, "bytes of rank 0")};
  SimulatedNodes nodes{11, 2};
  std::unique_ptr<FakeClient> client;
  RunId run;
  RelayNumbers numbers;
  std::unique_ptr<Relay> relay;
  std::unique_ptr<PeerLink> link;
  std::vector<peer::FromHome> said;
  bool closed = false;
};

// The second node has made the launch; then something else answers in its place.
class HostileHomeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    nodes.StartAll();
    FakeClient maker(nodes[1]);
    ASSERT_EQ(CodeOfReply(maker.Open({.rank = 0, .nranks = 2, .key = "job.1"})), local::OK);
    run = *RunId::Parse(maker.run());
    // The first node gets to know the second one before that goes.
    FakeClient known(nodes[0]);
    ASSERT_EQ(CodeOfReply(known.Open({.rank = 1, .nranks = 2, .key = "job.1"})), local::OK);
    const PeerIdentity self{.run = run, .node = NodeIdOf(nodes, 1), .incarnation = 99};
    nodes[1].Kill();
    maker.HostDied();
    PeerNet& net = nodes.network.Open(nodes[1].address(), self, nodes.loop());
    first = std::make_unique<FirstFrame>(
        FirstFrame::Given{.loop = nodes.loop(), .net = net, .run = run, .silence = std::chrono::seconds(60)});
    // To those who take it for a member like any other it says nothing.
    first->Others().Serve(run, [this](std::unique_ptr<PeerLink> link) { mute.push_back(std::move(link)); });
    relay = std::make_unique<Relay>(Relay::Given{.loop = nodes.loop(),
                                                 .net = first->With(peer::Frame::kAttach),
                                                 .self = self,
                                                 .settings = {},
                                                 .numbers = numbers});
    relay->Serve([this](std::unique_ptr<PeerLink> link) {
      links.push_back(std::move(link));
      const std::size_t number = links.size() - 1;
      links.back()->Start({.on_frame = [this, number](const peer::Frame& frame) { Hear(number, frame); },
                           .on_closed = [this, number](const absl::Status&) { closed |= number == home; }});
    });
  }
  void TearDown() override {
    client = nullptr;
    links.clear();
    mute.clear();
    relay = nullptr;
    first = nullptr;
  }

  // Lets the rank in, and begins what it begins; the rest is a test's.
  void Hear(std::size_t number, const peer::Frame& frame) {
    home = number;
    heard.push_back(frame.to_home());
    if (!frame.to_home().has_from_rank()) return;
    const local::Request& request = frame.to_home().from_rank().request();
    session = frame.to_home().from_rank().session();
    peer::FromHome answer;
    local::Reply& reply = *answer.mutable_to_rank()->mutable_reply();
    answer.mutable_to_rank()->set_session(session);
    reply.set_call(request.call());
    if (request.has_open()) {
      reply.mutable_open()->set_run(run.Hex());
      reply.mutable_open()->set_launch(launch);
      reply.mutable_open()->set_token("a token");
      Post(answer);
    } else if (request.has_begin() && answers_begins) {
      peer::FromHome begun;
      begun.mutable_begun()->set_dataset(kDataset);
      begun.mutable_begun()->set_step(request.begin().step());
      begun.mutable_begun()->set_attempt(1);
      Post(begun);
      reply.mutable_begin()->set_dataset(kDataset);
      Post(answer);
    }
  }
  void Post(const peer::FromHome& what) {
    peer::Frame frame;
    *frame.mutable_from_home() = what;
    links[home]->Send(std::move(frame));
  }
  // Before it is found that it is no member of the run otherwise.
  void Say(const peer::FromHome& what) {
    Post(what);
    nodes.Pass(std::chrono::milliseconds(15));
  }
  void OpenRank() {
    client = std::make_unique<FakeClient>(nodes[0]);
    const local::Reply opened = client->Open({.rank = 1, .nranks = 2, .key = "job.1"});
    ASSERT_EQ(CodeOfReply(opened), local::OK) << opened.status().message();
    closed = false;
  }
  bool Lives() {
    FakeClient other(nodes[0]);
    return CodeOfReply(other.Open({.observer = true})) == local::OK;
  }

  static constexpr DatasetId kDataset = 40;
  Memory own = {PlainOf(1, "bytes of rank 1")};
  SimulatedNodes nodes{13, 2};
  std::unique_ptr<FakeClient> client;
  RunId run;
  LaunchId launch = 1;
  std::unique_ptr<FirstFrame> first;
  RelayNumbers numbers;
  std::unique_ptr<Relay> relay;
  std::vector<std::unique_ptr<PeerLink>> links, mute;
  std::size_t home = SIZE_MAX;
  std::uint64_t session = 0;
  std::vector<peer::ToHome> heard;
  bool closed = false;
  bool answers_begins = true;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_HOSTILE_NODES_H_
