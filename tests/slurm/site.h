// A real Slurm of a test's own: munged, slurmctld and slurmds, on a cluster's nodes (tests/support/cluster), with Cairn
// installed by deploy/install.sh and its scripts, plug-in and burst_buffer.lua in place. n1 is the controller, all
// others compute; each has a /run, an /etc, a cache and a daemon for all users of its own. Users are alice (2001) and
// bob (2002). All of it is gone with this.
#ifndef CAIRN_TESTS_SLURM_SITE_H_
#define CAIRN_TESTS_SLURM_SITE_H_

#include <absl/status/statusor.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/process.h"
#include "tests/support/cluster/cluster.h"
#include "tests/support/fuse/fuse_folder.h"
#include "tests/support/munged.h"

namespace cairn::testing {

bool Within(const std::function<bool()>& holds, std::chrono::seconds deadline);

// A job as `scontrol show job` tells: "JobState", "Restarts", "Reason", "NodeList", …
using JobFacts = std::map<std::string, std::string>;

class SlurmSite {
 public:
  static constexpr int kController = 1, kFirst = 2, kLast = 5;  // nodes

  // `more`: lines of slurm.conf.
  //   kFailedPrecondition  this machine cannot: no root, no Slurm, no overlays; the message says what
  //   kUnavailable         it does not start; with what was said
  static absl::StatusOr<std::unique_ptr<SlurmSite>> Start(const std::string& more);
  ~SlurmSite();
  SlurmSite(const SlurmSite&) = delete;

  // A line of shell on a node, as root, or as a user with cairn in PATH and no variable of a job.
  Ending AsRoot(int node, const std::string& line);
  Ending As(const std::string& user, const std::string& line, int node = kController);
  // Everything that the user has: scripts, logs, the runs' prefixes.
  std::string HomeOf(const std::string& user) const { return folder() + "/home/" + user; }
  const std::string& folder() const { return folder_; }
  std::string scripts() const { return folder() + "/cairn/lib/cairn/slurm"; }

  // The number of the job; 0, with a failure of the test, if Slurm refuses it. `what`: options and script.
  int Submit(const std::string& user, const std::string& what);
  JobFacts Job(int job);
  std::string StateOf(int job) { return Job(job)["JobState"]; }
  // Its state becomes one of these; "" and a failure of the test if it does not.
  std::string AwaitState(int job, const std::vector<std::string>& states,
                         std::chrono::seconds deadline = std::chrono::seconds(60));
  std::string OutputOf(const std::string& user, int job) const;
  // "idle", "alloc", "drain", "down", … and why.
  std::string NodeState(int node);
  std::string NodeReason(int node);
  bool AwaitIdle(int node, std::chrono::seconds deadline = std::chrono::seconds(60));

  // Settings of prolog and epilog, on all nodes, besides what makes them work here.
  void Configure(const std::string& slurm_conf_of_cairn);
  bool StartDaemon(int node);
  void KillDaemon(int node);  // the supervisor and all workers, at once
  bool StartSlurmd(int node);
  void KillSlurmd(int node);  // jobs' processes stay
  void PowerOff(int node);
  // What was taken from nodes is given back: power, slurmd, a daemon, work.
  void Mend();
  FuseFolder& slow() { return *slow_; }     // a file system that hangs on request, seen by all nodes
  std::string LogOf(int node) const;        // of prolog and epilog there
  std::string DaemonLogOf(int node) const;  // of the supervisor, and of alice's worker
  // Milliseconds that prologs, or epilogs, have taken so far.
  std::vector<int> TimesOf(const std::string& script) const;
  void ShowTimes() const;
  void ForgetTimes() const;

 private:
  SlurmSite(std::string folder, std::string more) : folder_(std::move(folder)), more_(std::move(more)) {}
  absl::Status Prepare();
  absl::Status Install();
  void WriteFiles();
  absl::Status Furnish(int node);
  std::string NodeName(int node) const { return Cluster::host(node); }

  const std::string folder_, more_;
  std::unique_ptr<FuseFolder> slow_;
  std::unique_ptr<Munged> munged_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<Process> controller_;
  std::map<int, std::unique_ptr<Process>> slurmds_;
  std::set<int> off_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SLURM_SITE_H_
