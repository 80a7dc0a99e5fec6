// What the supervisor knows of each user, and the rules that need no system call. One thread.
#ifndef CAIRN_DAEMON_SUPERVISOR_WORKER_TABLE_H_
#define CAIRN_DAEMON_SUPERVISOR_WORKER_TABLE_H_

#include <fmt/format.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/supervisor/deposits.h"
#include "daemon/supervisor/pace.h"
#include "daemon/supervisor/start.h"
#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// A connection that no worker has been handed yet.
struct Waiting {
  Door door = Door::kLocal;
  UniqueFd fd;
  SteadyTime since;
};

struct Worker {
  Worker(StartedWorker it, SteadyTime now) : process(std::move(it)), started(now) {}
  StartedWorker process;
  SteadyTime started;
  std::uint64_t handed = 0;               // connections
  std::optional<std::uint64_t> quiet_at;  // its beat when it first said that nothing is under way
  std::optional<SteadyTime> idle_since;   // it has said so since then, and has counted anew meanwhile
  SteadyTime heard = started;             // it is not ready, but says that it gets on
  std::uint64_t beats = 0;                // by which it says so
  std::optional<SteadyTime> kill_at;      // it was asked to end, or is ending: SIGKILL then
  bool retired = false;                   // it was asked to end
  bool executed = false;                  // it runs its own program
  std::string report;                     // why it does not (start.h)
  bool link_open = true;                  // it may be handed more
  bool link_full = false;                 // not now
  bool asks_later = false;                // it has asked for deposits too often: not listened to for a moment

  // Its counters now. What it counted before it took its last connection says nothing: two beats later it does.
  void Counted(const WorkerCounters& counters, SteadyTime now) {
    if (!Idle(counters, handed)) return NotIdle();
    if (!quiet_at) quiet_at = counters.beats;
    if (!idle_since && counters.beats - *quiet_at >= 2) idle_since = now;
  }
  void NotIdle() {
    quiet_at.reset();
    idle_since.reset();
  }
  // It serves, has taken all that it was handed, and says that it could end.
  static bool Idle(const WorkerCounters& counters, std::uint64_t handed) {
    return counters.ready != 0 && counters.busy == 0 && counters.taken == handed;
  }
};

struct User {
  explicit User(BackOff pace) : back_off(pace) {}
  std::optional<Worker> worker;
  std::deque<Waiting> waiting;
  BackOff back_off;
  HeldDeposits deposits;
  std::uint32_t lives_lost = 0;  // of workers one after the other that left deposits, or did not take what was left
  bool wanted = false;  // a worker is to be started though nobody waits for it
  std::uint64_t starts = 0, lost = 0, refused = 0;
  std::uint64_t refused_untold = 0;  // of these not in the log
  SteadyTime told{};                 // when that was last told

  // Nothing is lost with it but numbers.
  bool Forgettable(SteadyTime now) const {
    return !worker && waiting.empty() && !wanted && deposits.empty() && refused_untold == 0 && back_off.Forgotten(now);
  }
};

// What waitpid said of it, for the log.
inline std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return fmt::format("killed by signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

using Users = std::map<uid_t, User>;

// The user for whom most connections wait; end() if none do.
inline Users::iterator MostWaiting(Users& users) {
  auto most = users.end();
  for (auto user = users.begin(); user != users.end(); ++user) {
    if (user->second.waiting.empty()) continue;
    if (most == users.end() || user->second.waiting.size() > most->second.waiting.size()) most = user;
  }
  return most;
}

// The one whose worker has been idle for longest; end() if none is.
inline Users::iterator LongestIdle(Users& users) {
  auto longest = users.end();
  for (auto user = users.begin(); user != users.end(); ++user) {
    const auto& worker = user->second.worker;
    if (!worker || worker->kill_at || !worker->idle_since) continue;
    if (longest == users.end() || *worker->idle_since < *longest->second.worker->idle_since) longest = user;
  }
  return longest;
}

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_WORKER_TABLE_H_
