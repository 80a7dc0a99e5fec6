// A machine of a test's own: systemd as its first process, in namespaces (systemd-nspawn), with this machine's /usr and
// Cairn installed as deploy/README.md says. It has the users alice (2001), bob (2002) and mallory (2003). All of it is
// in memory and gone with this; if the test is killed, the kernel ends it.
#ifndef CAIRN_TESTS_SYSTEMD_MACHINE_H_
#define CAIRN_TESTS_SYSTEMD_MACHINE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/process.h"

namespace cairn::testing {

class Machine {
 public:
  // Booted, with all that it starts by itself.
  //   kFailedPrecondition  this machine cannot: no root, no systemd-nspawn, no overlays
  //   kUnavailable         it does not start; with what it printed
  static absl::StatusOr<std::unique_ptr<Machine>> Start();
  ~Machine();
  Machine(const Machine&) = delete;

  // A program in the machine, as this user of it; its end is also the end of what this process has started there.
  Process::Options Command(const std::string& user, std::vector<std::string> arguments,
                           const std::map<std::string, std::string>& environment = {}) const;
  // Runs a line of shell there.
  Ending Run(const std::string& line, const std::string& user = "root") const;
  // Its file, seen from here.
  std::string PathOf(const std::string& path) const { return "/proc/" + std::to_string(leader_) + "/root" + path; }
  // Its first process, seen from here.
  pid_t leader() const { return leader_; }

 private:
  explicit Machine(std::string folder) : folder_(std::move(folder)) {}
  absl::Status Boot();

  const std::string folder_;
  std::unique_ptr<Process> process_;
  pid_t leader_ = 0;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SYSTEMD_MACHINE_H_
