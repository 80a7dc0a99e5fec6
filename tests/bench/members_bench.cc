// What it costs to be a member of a run (daemon/peers): 100, 300 and 1 000 real memberships on one thread, with a
// network in memory that takes 5 ms each way and a run's folder in memory as arbiter. Time is the simulation's, in
// round trips of 10 ms; nothing here depends on the speed of the machine.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/peers/membership.h"
#include "storage/base/check.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "tests/bench/arguments.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/fake_disk.h"

namespace cairn {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kOneWay(5);
constexpr milliseconds kRoundTrip = 2 * kOneWay;

// All loops of a simulation: what is next in time, then in order.
class Timeline {
 public:
  SteadyTime now() const { return now_; }
  std::uint64_t Add(SteadyTime at, std::function<void()> job) {
    times_[++last_] = at;
    jobs_.emplace(std::pair(at, last_), std::move(job));
    return last_;
  }
  void Cancel(std::uint64_t id) {
    const auto found = times_.find(id);
    if (found == times_.end()) return;
    jobs_.erase({found->second, id});
    times_.erase(found);
  }
  void RunUntil(SteadyTime until) {
    while (!jobs_.empty() && jobs_.begin()->first.first <= until) {
      auto next = jobs_.extract(jobs_.begin());
      times_.erase(next.key().second);
      now_ = std::max(now_, next.key().first);
      next.mapped()();
    }
    now_ = std::max(now_, until);
  }

 private:
  SteadyTime now_{std::chrono::hours(1)};
  std::uint64_t last_ = 0;
  std::map<std::pair<SteadyTime, std::uint64_t>, std::function<void()>> jobs_;
  std::map<std::uint64_t, SteadyTime> times_;
};

class TimelineLoop final : public Loop {
 public:
  explicit TimelineLoop(Timeline& timeline) : timeline_(timeline) {}
  void Post(std::function<void()> job) override { After(milliseconds(0), std::move(job)); }
  TimerId After(milliseconds delay, std::function<void()> job) override {
    return timeline_.Add(timeline_.now() + delay, [alive = alive_, job = std::move(job)] {
      if (*alive) job();
    });
  }
  void Cancel(TimerId id) override { timeline_.Cancel(id); }
  void Run(std::function<void()> job) override { job(); }
  bool InStrand() const override { return true; }
  void Stop() override { *alive_ = false; }

 private:
  Timeline& timeline_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

struct Cost {
  double frames = 0, bytes = 0;
};

class Cluster {
 public:
  Cluster() : network_([] { return kOneWay; }) {
    for (const char* folder : {"/p", "/p/.cairn"}) CAIRN_CHECK(disk_.MakeDirectory(folder, 0700).ok());
    arbiter_ = MakeFolderArbiter(disk_, "/p");
  }
  ~Cluster() {
    for (auto& node : nodes_) Kill(node);
  }

  void Start(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) StartOne();
  }
  std::size_t acting() const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].membership && nodes_[i].membership->coordinator().acting) return i;
    }
    return nodes_.size();
  }
  void KillCoordinator(bool silently) {
    Node& top = nodes_.at(acting());
    silently ? network_.Vanish(top.address) : network_.Die(top.address);
    Kill(top);
  }
  void Update() {
    Node& last = nodes_.back();
    last.membership->UpdateSelf({.datasets = ++updates_, .bytes = 1 << 30, .sessions = 8, .newest_dataset = updates_});
  }

  // Round trips until all have the same table of all members; and until one acts.
  double UntilSettled() {
    return Until([this] { return Settled(); });
  }
  double UntilActing() {
    return Until([this] { return acting() < nodes_.size(); });
  }
  void Pass(milliseconds time) { timeline_.RunUntil(timeline_.now() + time); }

  // Sent since the last call, by all together, and by the coordinator.
  std::pair<Cost, Cost> Sent() {
    std::pair<Cost, Cost> sent;
    const std::size_t top = acting();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      SimNetwork::Traffic& traffic = network_.traffic(nodes_[i].address);
      sent.first.frames += static_cast<double>(traffic.frames_out);
      sent.first.bytes += static_cast<double>(traffic.bytes_out);
      if (i == top) sent.second = {static_cast<double>(traffic.frames_out), static_cast<double>(traffic.bytes_out)};
      traffic = {};
    }
    return sent;
  }
  std::size_t DepthMax() {
    std::map<std::string, std::string> parents;
    for (const auto& [child, parent] : network_.links()) parents[child] = parent;
    std::size_t deepest = 0;
    for (const auto& [child, parent] : parents) {
      std::size_t depth = 1;
      for (auto at = parents.find(parent); at != parents.end(); at = parents.find(at->second)) ++depth;
      deepest = std::max(deepest, depth);
    }
    return deepest;
  }
  milliseconds term() const { return MembershipSettings().term; }

 private:
  struct Node {
    std::string id, address;
    std::unique_ptr<TimelineLoop> loop;
    std::unique_ptr<Membership> membership;
  };

  void StartOne() {
    const std::size_t number = nodes_.size() + 1;
    Node node;
    node.id = fmt::format("{:032x}", number);
    node.address = fmt::format("10.0.{}.{}:17001", number / 256, number % 256);
    node.loop = std::make_unique<TimelineLoop>(timeline_);
    PeerNet& net = network_.Open(node.address, {.run = run_, .node = node.id, .incarnation = 1}, *node.loop);
    node.membership = Membership::Make({.loop = *node.loop,
                                        .clocks = {.steady = [this] { return timeline_.now(); }, .wall = nullptr},
                                        .net = net,
                                        .on_arbiter =
                                            [this, loop = node.loop.get()](auto work, auto done) {
                                              loop->After(kRoundTrip, [this, work, done] { done(work(*arbiter_)); });
                                            },
                                        .self = {.run = run_,
                                                 .node = node.id,
                                                 .incarnation = 1,
                                                 .host = fmt::format("cn{:05}", number),
                                                 .since_us = 1'700'000'000'000'000},
                                        .settings = {}},
                                       {.on_table_change = [](const TableChange&) {},
                                        .on_coordinator_change = [](const Membership::Coordinator&) {},
                                        .warn = [](const std::string&) {}});
    nodes_.push_back(std::move(node));
    nodes_.back().membership->Start();
  }
  static void Kill(Node& node) {
    node.loop->Stop();
    node.membership.reset();
  }
  bool Settled() const {
    const std::size_t top = acting();
    if (top == nodes_.size()) return false;
    const MemberTable& table = nodes_[top].membership->table();
    std::size_t up = 0;
    for (const Node& node : nodes_) {
      if (!node.membership) continue;
      ++up;
      const MemberTable& its = node.membership->table();
      if (its.epoch != table.epoch || its.version != table.version || !node.membership->coordinator().attached) {
        return false;
      }
    }
    const auto is_here = [](const auto& entry) { return !entry.second.missing; };
    return static_cast<std::size_t>(std::ranges::count_if(table.entries, is_here)) >= up;
  }
  double Until(const std::function<bool()>& holds) {
    const SteadyTime begun = timeline_.now();
    while (!holds()) {
      timeline_.RunUntil(timeline_.now() + milliseconds(1));
      CAIRN_CHECK(timeline_.now() < begun + std::chrono::minutes(10));
    }
    return std::chrono::duration<double, std::milli>(timeline_.now() - begun) / kRoundTrip;
  }

  const RunId run_ = *RunId::Parse("00112233445566778899aabbccddeeff");
  Timeline timeline_;
  FakeDisk disk_;
  std::unique_ptr<Arbiter> arbiter_;
  SimNetwork network_;
  std::vector<Node> nodes_;
  std::uint32_t updates_ = 0;
};

void Print(std::size_t members, const char* what, double round_trips, const std::pair<Cost, Cost>& sent) {
  const double all = static_cast<double>(members);
  fmt::print("| {:>5} | {:<44} | {:>9.0f} | {:>8.1f} | {:>9.1f} | {:>8.0f} | {:>9.1f} |\n", members, what, round_trips,
             sent.first.frames / all, sent.first.bytes / all / 1024, sent.second.frames, sent.second.bytes / 1024);
  std::fflush(stdout);
}

void Measure(std::size_t members) {
  Cluster cluster;
  cluster.Start(1);
  cluster.UntilSettled();
  cluster.Sent();
  cluster.Start(members - 1);
  double took = cluster.UntilSettled();
  Print(members, "all register at once", took, cluster.Sent());
  fmt::print("|       | depth {:<38} |           |          |           |          |           |\n",
             cluster.DepthMax());
  cluster.Pass(cluster.term());
  cluster.Sent();
  cluster.Pass(cluster.term());
  Print(members, "a term in which nothing happens", cluster.term() / kRoundTrip, cluster.Sent());
  cluster.Update();
  took = 0;
  cluster.Pass(milliseconds(1));
  took = cluster.UntilSettled();
  Print(members, "one member says something new", took, cluster.Sent());
  cluster.Start(1);
  took = cluster.UntilSettled();
  Print(members, "one more registers", took, cluster.Sent());
  for (const bool silently : {false, true}) {
    cluster.Pass(cluster.term());
    cluster.Sent();
    cluster.KillCoordinator(silently);
    took = cluster.UntilActing();
    Print(members, silently ? "its node is pulled: another acts" : "the coordinator dies: another acts", took,
          cluster.Sent());
    took = cluster.UntilSettled();
    Print(members, "  then: all are registered again", took, cluster.Sent());
    fmt::print("|       | depth {:<38} |           |          |           |          |           |\n",
               cluster.DepthMax());
  }
}

}  // namespace
}  // namespace cairn

int main(int argc, char** argv) {
  std::vector<std::size_t> sizes = {100, 300, 1000};
  cairn::bench::ReadArguments(argc, argv, "What it costs to be a member of a run.",
                              {{"MEMBERS...", "so many; a simulation for each number", cairn::bench::Numbers(sizes)}});
  spdlog::set_level(spdlog::level::off);
  fmt::print("| {:>5} | {:<44} | {:>9} | {:>8} | {:>9} | {:>8} | {:>9} |\n", "nodes", "what", "round", "frames", "KiB",
             "of the", "");
  fmt::print("| {:>5} | {:<44} | {:>9} | {:>8} | {:>9} | {:>8} | {:>9} |\n", "", "", "trips", "a node", "a node",
             "coord.", "KiB");
  fmt::print("| ---: | --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (const std::size_t members : sizes) cairn::Measure(members);
  return 0;
}
