// Cores of several nodes on one thread, with one prefix and a simulated network between them (sim_network.h). Each has
// a cache of its own; any of them can be killed and started again. Who runs next is drawn from a seed. Clients wait by
// letting everybody run.
#ifndef CAIRN_TESTS_DAEMON_CORE_SIMULATED_NODES_H_
#define CAIRN_TESTS_DAEMON_CORE_SIMULATED_NODES_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/config/config.h"
#include "daemon/core/core.h"
#include "storage/base/clock.h"
#include "storage/base/ids.h"
#include "storage/base/random.h"
#include "tests/daemon/core/client_host.h"
#include "tests/daemon/core/fake_access.h"
#include "tests/daemon/peers/sim_network.h"
#include "tests/support/fake_disk.h"
#include "tests/support/stepped.h"

namespace cairn {

class SimulatedNodes {
 public:
  static constexpr char kPrefix[] = "/pfs/run";

  class Node final : public ClientHost {
   public:
    Node(SimulatedNodes& all, int number);
    ~Node() override;
    void Start();                                    // EXPECTs that it starts
    std::shared_ptr<std::optional<bool>> Quiesce();  // whether all is local, once it has ended
    // For this node, until it says otherwise or is killed. A lane's name; empty: none hangs.
    void Hang(const std::string& lane);
    void HangToo(const std::string& lane);  // besides what hangs
    void PrefixHangs(bool hangs) { Hang(hangs ? kPrefix : ""); }
    void Kill();                                     // what is in the air is gone; the disk stays
    std::string host() const { return "n" + std::to_string(number_); }
    std::string address() const {
      return "10.0." + std::to_string(number_ / 256) + "." + std::to_string(number_ % 256) + ":17600";
    }
    // The cache's record of a dataset: the ranks whose parts it says are here; empty: none.
    std::vector<Rank> RanksInCache(DatasetId id);
    admin::StatusReply Status();
    // As the command asks.
    local::Status Pin(DatasetId id, bool pinned = true);
    bool IsPinned(DatasetId id);  // as this node has it
    bool Lists(DatasetId id);     // the same
    local::Status Flush(DatasetId id);
    local::Status Remove(DatasetId id);
    admin::LeaveReply Leave(std::chrono::milliseconds patience = std::chrono::seconds(30), bool to_prefix = false);
    std::shared_ptr<std::optional<admin::LeaveReply>> AskToLeave(std::chrono::milliseconds patience,
                                                                 bool to_prefix = false);
    std::string FolderOf(DatasetId id);    // of the dataset in its cache, whether it is there or not; "": no run is
    absl::Status LoseParts(DatasetId id);  // while it does not run
    std::string Warnings();

    Core& core() override { return *core_; }
    bool running() const override { return core_ != nullptr; }
    std::string prefix() const override { return kPrefix; }
    bool Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
              const std::function<bool()>& holds) override;

    Config config;
    FakeDisk cache;

   private:
    friend class SimulatedNodes;
    admin::DatasetRow RowOf(DatasetId id);  // empty: it is not listed
    template <typename Reply, typename Request>
    local::Status Asked(Request request, DatasetId id, void (Core::*ask)(const Request&, std::function<void(Reply)>));
    struct Parts;  // of a life
    SimulatedNodes& all_;
    const int number_;
    std::unique_ptr<Parts> parts_;
    std::unique_ptr<Core> core_;
  };

  SimulatedNodes(std::uint64_t seed, int nodes);
  ~SimulatedNodes();

  int count() const { return static_cast<int>(nodes_.size()); }
  Node& operator[](int i) { return *nodes_[static_cast<std::size_t>(i)]; }
  void StartAll();
  // One job, or if there is none the clock goes on to the next timer. False: nothing will ever run any more.
  bool Advance();
  // False: it does not hold within ten minutes of their time.
  bool AdvanceUntil(const std::function<bool()>& holds);
  void Pass(std::chrono::milliseconds time);
  // In a script: after so many jobs of everybody's.
  void PassInScript(int jobs);
  // At the same time: when one waits, others go on.
  void Together(std::vector<std::function<void()>> scripts);

  Stepper::Time now() const { return stepper_.now(); }
  Loop& loop() { return loop_; }  // of the test's own members of the network

  std::function<bool(const std::string& job)> job_is_over;  // of Environment, for what starts from now on

  FakeDisk prefix;
  SimNetwork network;
  FakeBulk::Shared files;

 private:
  struct Script;
  std::mt19937_64 numbers_;
  Stepper stepper_;
  SteppedLoop loop_{stepper_};
  const ScopedRandom random_;
  const ScopedClock clock_;
  RunId run_;
  std::vector<std::unique_ptr<Node>> nodes_;
  Script* script_ = nullptr;  // that runs
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_SIMULATED_NODES_H_
