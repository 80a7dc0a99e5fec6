// A daemon in a folder of its own, that a bench starts, stops and looks at; and a rank's session with it. What goes
// wrong ends the program.
#ifndef CAIRN_TESTS_BENCH_BENCH_DAEMON_H_
#define CAIRN_TESTS_BENCH_BENCH_DAEMON_H_

#include <sys/types.h>

#include <string>

#include "client/cairn.h"

namespace cairn::bench {

[[noreturn]] void Die(const std::string& what);
void Check(int code, cairn_session* session, const char* what);
double Now();  // seconds

class Daemon {
 public:
  // Its cache, its prefix and its socket are in `folder`, which is made anew and removed at the end.
  Daemon(std::string folder, const std::string& config);
  ~Daemon();
  Daemon(const Daemon&) = delete;

  void Start();
  void Stop();  // SIGTERM, and its end

  const std::string& folder() const { return folder_; }
  std::string address() const { return "unix:" + folder_ + "/run/cairnd.sock"; }
  std::string prefix() const { return folder_ + "/prefix"; }
  double cpu_seconds() const { return cpu_seconds_; }  // of those that have ended
  double CpuSecondsSoFar() const;                      // of the one that runs
  double MibBeyondImages() const;                      // resident memory that is not shared memory

 private:
  std::string folder_;
  pid_t pid_ = -1;
  double cpu_seconds_ = 0;
};

// `prefix`: below the daemon's folder.
cairn_session* OpenRank(const Daemon& daemon, int rank, int nranks, const std::string& launch,
                        const std::string& prefix = "prefix");

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_BENCH_DAEMON_H_
