// One random history of a daemon with two runs, from one seed: jobs one after the other or over each other, faults
// of disks, damage, kills, power failures, clean restarts, commands; then all faults end, and what was promised is
// asked for.
#ifndef CAIRN_TESTS_DAEMON_CORE_HISTORY_H_
#define CAIRN_TESTS_DAEMON_CORE_HISTORY_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/daemon/core/job.h"
#include "tests/daemon/core/run_model.h"
#include "tests/daemon/core/simulated_daemon.h"
#include "tests/support/fake_disk.h"

namespace cairn {

class History {
 public:
  // `root`: a real folder with run0 and run1 in it, which stay empty: only links are resolved there.
  History(std::uint64_t seed, const std::string& root);
  void Run();

  const std::vector<std::string>& violations() const { return violations_; }
  // Tells apart histories that went differently: all operations on disks, in their order, and all steps.
  std::uint64_t trace() const { return trace_; }
  struct Counts {
    std::uint64_t checkpoints = 0, at_prefix = 0, kills = 0, faults = 0, hurt = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Kinds {  // of trouble in this history
    bool faults = false, reads_fail = false, hurt = false, kills = false, breaks = false, takeovers = false;
    bool commands = false, files = false;
    bool calm = false;  // none at all
  };
  struct Site {  // of a run
    std::string prefix;
    std::unique_ptr<RunModel> model;
    std::vector<std::shared_ptr<Job>> jobs;
    std::uint32_t begun = 0;
    std::uint64_t step = 0;
  };

  bool Chance(std::uint64_t one_in) { return daemon_.stepper().Draw(one_in) == 0; }
  std::uint64_t Draw(std::uint64_t below) { return daemon_.stepper().Draw(below); }
  void Configure();
  bool Start();
  JobPlan MakePlan(Site& site, std::uint32_t run);
  void StartJobs();
  bool Done() const;  // all jobs are over
  void Event();
  void Fault();
  void ClearFaults();
  // One of those that were begun, or null.
  const RunModel::Dataset* AnyDataset(const Site& site, DatasetId* id);
  void Hurt();
  void Command();
  void Restart();
  void RestartDisks();
  void Kill(bool power_fails);
  void EndTrouble();
  void LoseCache();
  // Lets scripts come to their end.
  void Settle();
  void Verify();
  void VerifyRun(Site& site, std::uint32_t run);
  void VerifyDatasets(Site& site, const std::set<DatasetId>& retried);
  void CheckWarned(const Job& launch);
  void CheckCache();
  void Violated(const std::string& what) { violations_.push_back(what); }

  FakeDisk cache_, prefix_;
  SimulatedDaemon daemon_;
  Kinds kinds_;
  std::vector<Site> sites_;
  std::uint32_t jobs_max_ = 1;  // of a run
  bool trouble_over_ = false;
  std::vector<std::string> violations_;
  std::uint64_t trace_ = 0;
  Counts counts_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_HISTORY_H_
