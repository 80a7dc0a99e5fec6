// A real daemon in folders of its own, for one test: started, stopped, killed, started again; and clients of it.
#ifndef CAIRN_TESTS_INTEGRATION_HARNESS_H_
#define CAIRN_TESTS_INTEGRATION_HARNESS_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/integration/process.h"

namespace cairn::testing {

class Harness {
 public:
  // How a daemon is started: as Process::Start does it, or elsewhere.
  using Starter = std::function<std::unique_ptr<Process>(const Process::Options&)>;
  // A folder that somebody else removes, and a prefix that others use, too.
  struct Place {
    std::string folder, prefix;
  };

  // Makes <temporary>/{run,cache,prefix}; removed at the end.
  Harness();
  // Makes what is missing of <folder>/{run,cache} and the prefix.
  Harness(Place place, Starter starter);
  ~Harness();

  const std::string& folder() const { return folder_; }
  std::string runtime_dir() const { return folder_ + "/run"; }
  std::string cache() const { return folder_ + "/cache"; }
  const std::string& prefix() const { return prefix_; }
  std::string address() const { return "unix:" + runtime_dir() + "/cairnd.sock"; }

  // Every cairnd from now on is started so.
  void StartDaemonsBy(Starter starter) { starter_ = std::move(starter); }
  // Starts cairnd and waits until it says that it is ready. False, with a failure of the test, if it is not.
  bool StartDaemon(const std::vector<std::string>& flags = {},
                   const std::map<std::string, std::string>& environment = {});
  // SIGTERM, and how it ended.
  Ending StopDaemon();
  // SIGKILL; its sockets and shared memory stay behind as they are.
  void KillDaemon();
  Process* daemon() { return daemon_.get(); }
  // What it has logged so far, of all its lives.
  std::string DaemonLog() const;
  // Waits until it has logged `text`; false at the deadline.
  bool WaitForLog(std::string_view text, std::chrono::seconds deadline = std::chrono::seconds(60)) const;
  // The settings file that every cairnd here reads: at its start, and at SIGHUP.
  void WriteSettings(const std::string& text) const;

  // A second cairnd, or one that is not expected to start: runs to its end.
  Ending RunDaemon(const std::vector<std::string>& flags);

  // Flips a bit 300 KiB before the end of each checkpoint file in cache and prefix whose name ends so. How many there
  // were; the test fails if one has less than 8 MiB before that. REQUIRES: no daemon runs.
  int DamageCheckpoints(std::string_view name_end = ".fti");
  // What comes before such damage is delivered before it is found: as settings (WriteSettings).
  static constexpr char kSmallImages[] = "[image]\nbytes_max = \"4 MiB\"\n";

  // Removes all that the cache holds. REQUIRES: no daemon runs.
  void DeleteCache();

  // A client with CAIRN_ADDRESS and CAIRN_PREFIX set; `program` as in the rule's data.
  Process::Options Client(const std::string& program, std::vector<std::string> arguments) const;
  // The same under mpirun.
  Process::Options MpiClient(int ranks, const std::string& program, std::vector<std::string> arguments) const;

 private:
  void MakeFolders() const;
  Process::Options DaemonOptions(const std::vector<std::string>& flags) const;

  std::string folder_, prefix_;
  Starter starter_ = Process::Start;
  std::unique_ptr<Process> daemon_;
};

// The whole file; empty, with a failure of the test, if it cannot be read.
std::string ReadFile(const std::string& path);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_HARNESS_H_
