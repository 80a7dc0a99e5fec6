// Memory that the supervisor has made for workers, and holds so that it outlives them (daemon/data/deposits.h). Nothing
// of what is in it is ever looked at. One thread.
#ifndef CAIRN_DAEMON_SUPERVISOR_DEPOSITS_H_
#define CAIRN_DAEMON_SUPERVISOR_DEPOSITS_H_

#include <absl/status/statusor.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/supervisor/pace.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// What is held for one user.
class HeldDeposits {
 public:
  struct Max {
    std::size_t count = 512;
    std::uint64_t bytes = 0;
  };

  // A new one, by its inode. kResourceExhausted: it would be one too many, or too large, or there is no memory.
  absl::StatusOr<std::uint64_t> Make(std::uint64_t bytes, const Max& max);
  // One that was held before, by its inode, whatever the maximum is now: something may be in it that its user was
  // promised. Until there is less, Make refuses. kInvalidArgument: it is no such memory; kAlreadyExists: it is held.
  absl::StatusOr<std::uint64_t> Add(UniqueFd fd);
  bool LetGo(std::uint64_t inode);    // false: it is not held
  int Of(std::uint64_t inode) const;  // its descriptor, borrowed. REQUIRES: it is held
  std::vector<std::uint64_t> inodes() const;
  std::vector<int> fds() const;
  bool empty() const { return held_.empty(); }

  // One of its worker's requests has been answered. False: no more for now; a worker's usual asking does not get there.
  bool MayAskMore(SteadyTime now) { return asks_.Take(now); }

 private:
  struct Held {
    UniqueFd fd;
    std::uint64_t bytes = 0;
  };
  std::map<std::uint64_t, Held> held_;
  std::uint64_t bytes_ = 0;
  StartRate asks_{1024, std::chrono::milliseconds(10)};  // 512 deposits, made and let go of, at once
};

// Its name with the service manager: cairn-<uid>-<inode>.
std::string DepositName(uid_t user, std::uint64_t inode);

// Those that the service manager gives to this process (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, as sd_listen_fds(3)),
// whose names say whose they are. All else is left as it is; call it before TakeGivenListeners.
struct GivenDeposit {
  uid_t user = 0;
  UniqueFd fd;
};
std::vector<GivenDeposit> TakeGivenDeposits();
// Is what has this name in LISTEN_FDNAMES one of these?
bool IsDepositName(std::string_view name);

// Answers what workers ask for, and tells the service manager, which holds the same.
class DepositDesk {
 public:
  // Sends a state, with a descriptor or without (-1); false: it was not taken. Null: nobody else holds anything.
  using Notify = std::function<bool(std::string_view state, int fd)>;
  DepositDesk(HeldDeposits::Max max, Notify notify) : max_(max), notify_(std::move(notify)) {}

  // Some of the requests that wait on a worker's socket: two numbers each, and nothing else of a worker's. Does not
  // wait. kEnded: no more will come; kLater: there were too many, to be asked about again in a while.
  enum class Asked : std::uint8_t { kSome, kLater, kEnded };
  Asked Answer(uid_t user, HeldDeposits& held, int socket);
  // What the service manager has held. Errors as HeldDeposits::Add.
  absl::StatusOr<std::uint64_t> TakeBack(HeldDeposits& held, GivenDeposit given);
  void LetGoOfAll(uid_t user, HeldDeposits& held);
  // Tells the service manager what it did not take before. Now and then, at the latest before it is told more.
  void TellPending();

 private:
  void Make(uid_t user, HeldDeposits& held, int socket, std::uint64_t bytes);
  void LetGo(uid_t user, HeldDeposits& held, std::uint64_t inode);
  bool Tell(std::string_view what, uid_t user, std::uint64_t inode, int fd) const;

  const HeldDeposits::Max max_;
  const Notify notify_;
  // That it holds; of these, that it is to let go of.
  std::set<std::pair<uid_t, std::uint64_t>> told_, pending_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_DEPOSITS_H_
