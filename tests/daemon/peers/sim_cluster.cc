#include "tests/daemon/peers/sim_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/place/arbiter/folder_arbiter.h"
#include "tests/support/fiber.h"

namespace cairn {
namespace {

constexpr std::chrono::system_clock::time_point kEpoch{std::chrono::seconds(1'700'000'000)};
constexpr char kPrefix[] = "/p";

// Others may run before each call, and between what it does and what is told of it.
class StepwiseArbiter final : public Arbiter {
 public:
  StepwiseArbiter(SimCluster& cluster, std::uint32_t node) : cluster_(cluster), node_(node) {}

  absl::Status Create(const std::string& name, std::string_view bytes) override {
    return Call("Create", [&] { return cluster_.arbiter().Create(name, bytes); });
  }
  absl::StatusOr<std::vector<std::string>> Names() override {
    return Call("Names", [&] { return cluster_.arbiter().Names(); });
  }
  absl::Status CreateLease(const std::string& name, std::string_view bytes) override {
    return Call("CreateLease", [&] { return cluster_.arbiter().CreateLease(name, bytes); });
  }
  absl::Status WriteLease(const std::string& name, std::string_view bytes) override {
    return Call("WriteLease", [&] { return cluster_.arbiter().WriteLease(name, bytes); });
  }
  absl::StatusOr<std::string> ReadLease(const std::string& name, std::size_t bytes_max) override {
    return Call("ReadLease", [&] { return cluster_.arbiter().ReadLease(name, bytes_max); });
  }

 private:
  template <typename Do>
  auto Call(std::string_view what, Do call) -> decltype(call()) {
    const absl::Status before = cluster_.arbiter_fails({.node = node_, .what = what, .after = false});
    Fiber::Pause();
    CAIRN_RETURN_IF_ERROR(before);
    auto answer = call();
    const absl::Status after = cluster_.arbiter_fails({.node = node_, .what = what, .after = true});
    Fiber::Pause();
    CAIRN_RETURN_IF_ERROR(after);
    return answer;
  }

  SimCluster& cluster_;
  const std::uint32_t node_;
};

}  // namespace

// --- The arbiter's pool ---

struct SimArbiterPool::Job {
  Job(SimCluster& cluster, std::uint32_t node, std::function<absl::Status(Arbiter&)> work_to_do)
      : arbiter(cluster, node), work(std::move(work_to_do)), fiber([this] { answer = work(arbiter); }) {}
  StepwiseArbiter arbiter;
  std::function<absl::Status(Arbiter&)> work;
  std::function<void(const absl::Status&)> done;
  absl::Status answer;
  Fiber fiber;
};

SimArbiterPool::SimArbiterPool(SimCluster& cluster, std::uint32_t node, Loop& loop)
    : cluster_(cluster), node_(node), loop_(loop) {
  cluster_.stepper().Add(this);
}

SimArbiterPool::~SimArbiterPool() {
  cluster_.stepper().Remove(this);
}

void SimArbiterPool::Run(std::function<absl::Status(Arbiter&)> work, std::function<void(const absl::Status&)> done) {
  CAIRN_CHECK(job_ == nullptr);  // as on_arbiter.h promises
  job_ = std::make_unique<Job>(cluster_, node_, std::move(work));
  job_->done = std::move(done);
}

std::size_t SimArbiterPool::runnable() const {
  return job_ != nullptr && !hangs_ && !paused_ ? 1 : 0;
}

void SimArbiterPool::RunOne(std::size_t) {
  job_->fiber.Resume();
  if (!job_->fiber.at_end()) return;
  const std::unique_ptr<Job> job = std::move(job_);
  loop_.Post([done = std::move(job->done), answer = job->answer] { done(answer); });
}

// --- The cluster ---

NodeId SimCluster::IdOf(std::uint32_t number) {
  return fmt::format("{:032x}", 0xa000 + number);
}

const RunId& SimCluster::run() {
  static const RunId run = *RunId::Parse("00112233445566778899aabbccddeeff");
  return run;
}

SimCluster::SimCluster(std::uint64_t seed)
    : stepper_(seed),
      numbers_(seed),
      clock_({.wall = [this] { return kEpoch + stepper_.now().time_since_epoch(); },
              .steady = [this] { return stepper_.now(); },
              .sleep = [](std::chrono::nanoseconds) {}}),
      random_([this] { return numbers_ = numbers_ * 6364136223846793005U + 1442695040888963407U; }),
      network_([this] { return milliseconds(1 + stepper_.Draw(stepper_.Draw(20) == 0 ? 500 : 10)); }) {
  for (const char* folder : {"/p", "/p/.cairn"}) CAIRN_CHECK(disk_.MakeDirectory(folder, 0700).ok());
  CAIRN_CHECK(disk_.SyncDirectory("/p").ok());
  arbiter_ = MakeFolderArbiter(disk_, kPrefix);
}

SimCluster::~SimCluster() {
  while (!nodes_.empty()) {
    Kill(nodes_.begin()->first, /*silently=*/true);
    nodes_.erase(nodes_.begin());
  }
}

SimCluster::Node& SimCluster::Start(std::uint32_t number, const std::string& address) {
  Node& node = nodes_[number];
  CAIRN_CHECK(node.membership == nullptr);
  node.number = number;
  node.id = IdOf(number);
  node.address = address.empty() ? fmt::format("10.0.0.{}:17001", number) : address;
  node.incarnation = ++last_incarnation_;
  node.paused = node.stopping = node.stopped = false;
  node.loop = std::make_unique<SteppedLoop>(stepper_);
  node.pool = std::make_unique<SimArbiterPool>(*this, number, *node.loop);
  PeerNet& net =
      network_.Open(node.address, {.run = run(), .node = node.id, .incarnation = node.incarnation}, *node.loop);
  // No two nodes' clocks agree.
  const milliseconds ahead(number * 1'234'567);
  node.membership = Membership::Make(
      {.loop = *node.loop,
       .clocks = {.steady = [this, ahead] { return stepper_.now() + ahead; },
                  .wall = [this, ahead] { return clock_.source().wall() + ahead; }},
       .net = net,
       .on_arbiter = [pool = node.pool.get()](auto work, auto done) { pool->Run(std::move(work), std::move(done)); },
       .self = {.run = run(),
                .node = node.id,
                .incarnation = node.incarnation,
                .host = fmt::format("node{}", number),
                .since_us = 1},
       .settings = settings},
      {.on_table_change =
           [&node](const TableChange& change) { std::ranges::copy(change.gone, std::back_inserter(node.gone)); },
       .on_coordinator_change =
           [&node](const Membership::Coordinator& coordinator) { node.coordinators.push_back(coordinator); },
       .warn = [&node](std::string text) { node.warnings.push_back(std::move(text)); }});
  node.loop->Run([&node] { node.membership->Start(); });
  return node;
}

void SimCluster::Kill(std::uint32_t number, bool silently) {
  Node& node = nodes_.at(number);
  if (node.membership == nullptr) return;
  // The network goes first: nothing that ends says a word.
  silently ? network_.Vanish(node.address) : network_.Die(node.address);
  node.loop->Stop();
  node.membership.reset();
  node.pool.reset();
  old_loops_.push_back(std::move(node.loop));
}

void SimCluster::StopInOrder(std::uint32_t number) {
  Node& node = nodes_.at(number);
  node.stopping = true;
  node.loop->Run([&node] { node.membership->Stop(/*orderly=*/true, [&node] { node.stopped = true; }); });
}

void SimCluster::Pause(std::uint32_t number, bool paused) {
  Node& node = nodes_.at(number);
  if (node.membership == nullptr) return;
  node.paused = paused;
  node.loop->Pause(paused);
  node.pool->Pause(paused);
}

void SimCluster::Hang(std::uint32_t number, bool hangs) {
  Node& node = nodes_.at(number);
  if (node.pool != nullptr) node.pool->Hang(hangs);
}

std::vector<std::string> SimCluster::Leases() {
  std::vector<std::string> leases;
  const auto names = arbiter_->Names();
  for (const std::string& name : *names) {
    if (name.ends_with(".lease")) leases.push_back(name);
  }
  return leases;
}

void SimCluster::RemoveLeases() {
  for (const std::string& name : Leases()) CAIRN_CHECK(disk_.Remove("/p/.cairn/" + name).ok());
}

// One step. False: it is later than `until`.
bool SimCluster::Advance(SteadyTime until) {
  if (stepper_.Step()) return true;
  SteadyTime next = until;
  for (const auto& [number, node] : nodes_) {
    if (node.membership && !node.paused && node.loop->has_timer()) next = std::min(next, node.loop->next_timer());
  }
  for (const SteppedLoop* loop : others) {
    if (loop->has_timer()) next = std::min(next, loop->next_timer());
  }
  if (next > stepper_.now()) stepper_.Turn(next - stepper_.now());
  return next < until;
}

bool SimCluster::RunUntil(const std::function<bool()>& holds, milliseconds at_most) {
  const SteadyTime until = stepper_.now() + at_most;
  while (!holds()) {
    if (!Advance(until)) return holds();
    after_step();
  }
  return true;
}

void SimCluster::RunFor(milliseconds time) {
  RunUntil([] { return false; }, time);
}

std::vector<std::uint32_t> SimCluster::Up() const {
  std::vector<std::uint32_t> up;
  for (const auto& [number, node] : nodes_) {
    if (node.up()) up.push_back(number);
  }
  return up;
}

std::vector<std::uint32_t> SimCluster::Acting() const {
  std::vector<std::uint32_t> acting;
  for (const auto& [number, node] : nodes_) {
    if (node.membership && node.membership->coordinator().acting) acting.push_back(number);
  }
  return acting;
}

std::string SimCluster::Settled() {
  const std::vector<std::uint32_t> up = Up();
  if (up.empty()) return "";
  if (Acting().size() != 1) return fmt::format("{} act as coordinator", Acting().size());
  const Node& top = node(Acting().front());
  if (!top.up()) return "a daemon that stops coordinates";
  const MemberTable& table = top.membership->table();
  for (const std::uint32_t number : up) {
    const Node& one = node(number);
    const auto coordinator = one.membership->coordinator();
    if (!coordinator.attached) return fmt::format("{} is attached to nobody", number);
    if (coordinator.name.node != top.id)
      return fmt::format("{} takes {} for coordinator", number, coordinator.name.node);
    if (one.membership->table() != table) {
      return fmt::format("the table of {} has {} members at {}.{}, the coordinator's {} at {}.{}", number,
                         one.membership->table().entries.size(), one.membership->table().epoch,
                         one.membership->table().version, table.entries.size(), table.epoch, table.version);
    }
    const auto entry = table.entries.find(one.id);
    if (entry == table.entries.end()) return fmt::format("{} is not in the table", number);
    if (entry->second.missing) return fmt::format("{} is missing in the table", number);
    if (entry->second.member.incarnation != one.incarnation) return fmt::format("{} is an earlier life", number);
    if (entry->second.member.address != one.address) return fmt::format("{} has an old address", number);
  }
  if (table.entries.size() != up.size()) {
    return fmt::format("the table has {} members, {} are up", table.entries.size(), up.size());
  }
  return WrongInTree(top.address);
}

// The links are a tree below the coordinator.
std::string SimCluster::WrongInTree(const std::string& top) const {
  std::map<std::string, std::string> parents;
  std::map<std::string, std::size_t> children;
  for (const auto& [child, parent] : network_.links()) {
    if (!parents.emplace(child, parent).second) return fmt::format("{} has two parents", child);
    if (++children[parent] > settings.fan_in)
      return fmt::format("{} has more than {} children", parent, settings.fan_in);
  }
  for (const std::uint32_t number : Up()) {
    std::string at = nodes_.at(number).address;
    for (std::size_t depth = 0; at != top; ++depth) {
      if (!parents.contains(at)) return fmt::format("{} has no parent", at);
      if (depth == settings.depth_max) return fmt::format("{} is too deep", nodes_.at(number).address);
      at = parents[at];
    }
  }
  return "";
}

}  // namespace cairn
