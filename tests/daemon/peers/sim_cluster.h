// Members of one run on a loop each, all on one thread, with a network between them and a run's folder as arbiter. What
// runs next is drawn from a seed; the clock goes on when nobody has anything to do. A job at the arbiter can be left
// between any two of its calls.
#ifndef CAIRN_TESTS_DAEMON_PEERS_SIM_CLUSTER_H_
#define CAIRN_TESTS_DAEMON_PEERS_SIM_CLUSTER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/peers/membership.h"
#include "storage/base/clock.h"
#include "storage/base/random.h"
#include "storage/place/arbiter/arbiter.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/fake_disk.h"
#include "tests/support/stepped.h"

namespace cairn {

class SimCluster {
 public:
  using milliseconds = std::chrono::milliseconds;
  struct Node {
    std::uint32_t number = 0;
    NodeId id;
    std::string address;
    std::uint64_t incarnation = 0;
    std::unique_ptr<SteppedLoop> loop;
    std::unique_ptr<class SimArbiterPool> pool;
    std::unique_ptr<Membership> membership;  // null: down
    bool paused = false;
    bool stopping = false;  // in good order
    bool stopped = false;   // it has said so
    std::vector<std::string> warnings;
    std::vector<GoneMember> gone;                       // as reported
    std::vector<Membership::Coordinator> coordinators;  // as reported
    bool up() const { return membership != nullptr && !stopping; }
  };

  explicit SimCluster(std::uint64_t seed);
  ~SimCluster();
  SimCluster(const SimCluster&) = delete;

  MembershipSettings settings;
  // Asked before each call at the arbiter, and after it: OK, or what the call answers. After it, it has happened, and
  // nobody is told. Others may run between this question and the call.
  struct ArbiterCall {
    std::uint32_t node;
    std::string_view what;  // "CreateLease"
    bool after;
  };
  std::function<absl::Status(const ArbiterCall& call)> arbiter_fails = [](const ArbiterCall&) {
    return absl::OkStatus();
  };
  std::function<void()> after_step = [] {};
  std::vector<SteppedLoop*> others;  // loops of a test's own

  Node& Start(std::uint32_t number, const std::string& address = "");
  void Kill(std::uint32_t number, bool silently);
  void StopInOrder(std::uint32_t number);
  void Pause(std::uint32_t number, bool paused);
  // Jobs at the arbiter stay where they are.
  void Hang(std::uint32_t number, bool hangs);

  Node& node(std::uint32_t number) { return nodes_.at(number); }
  Membership& at(std::uint32_t number) { return *nodes_.at(number).membership; }
  std::map<std::uint32_t, Node>& nodes() { return nodes_; }
  SimNetwork& network() { return network_; }
  Stepper& stepper() { return stepper_; }
  FakeDisk& disk() { return disk_; }
  Arbiter& arbiter() { return *arbiter_; }
  void RemoveLeases();
  std::vector<std::string> Leases();

  // Runs what is due, and lets the time pass, for so long.
  void RunFor(milliseconds time);
  // False: not within that time.
  bool RunUntil(const std::function<bool()>& holds, milliseconds at_most);

  // Members that are up.
  std::vector<std::uint32_t> Up() const;
  std::vector<std::uint32_t> Acting() const;
  // All that is so once nothing has happened for long; "": it is, else what is not.
  std::string Settled();
  bool IsSettled() { return Settled().empty(); }

  static NodeId IdOf(std::uint32_t number);
  static const RunId& run();

 private:
  bool Advance(SteadyTime until);
  std::string WrongInTree(const std::string& top) const;

  Stepper stepper_;
  FakeDisk disk_;
  std::uint64_t numbers_;
  const ScopedClock clock_;
  const ScopedRandom random_;
  std::unique_ptr<Arbiter> arbiter_;
  SimNetwork network_;
  std::map<std::uint32_t, Node> nodes_;
  std::vector<std::unique_ptr<SteppedLoop>> old_loops_;
  std::uint64_t last_incarnation_ = 100;
};

// Blocking work of one node, one job at a time, in steps.
class SimArbiterPool final : public Stepper::Source {
 public:
  SimArbiterPool(SimCluster& cluster, std::uint32_t node, Loop& loop);
  ~SimArbiterPool() override;
  void Run(std::function<absl::Status(Arbiter&)> work, std::function<void(const absl::Status&)> done);
  void Hang(bool hangs) { hangs_ = hangs; }
  void Pause(bool paused) { paused_ = paused; }

 private:
  struct Job;
  std::size_t runnable() const override;
  void RunOne(std::size_t which) override;

  SimCluster& cluster_;
  const std::uint32_t node_;
  Loop& loop_;
  bool hangs_ = false, paused_ = false;
  std::unique_ptr<Job> job_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_PEERS_SIM_CLUSTER_H_
