// Memory that outlives this process: somebody else (the supervisor, the service manager) has a descriptor of it, too,
// and hands it to the next daemon of this user. Thread-safe.
#ifndef CAIRN_DAEMON_DATA_DEPOSITS_H_
#define CAIRN_DAEMON_DATA_DEPOSITS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "storage/base/unique_fd.h"

namespace cairn {

class Deposits {
 public:
  virtual ~Deposits() = default;

  // A memory file of so many bytes, all zero, sealed against any other size. Waits for a few seconds at most.
  //   kResourceExhausted  there are too many, or they would be too large together
  //   kUnavailable        nobody holds it
  virtual absl::StatusOr<UniqueFd> Make(std::uint64_t bytes) = 0;
  // Nobody needs to hold it any more; by its inode. Does not wait.
  virtual void GiveUp(std::uint64_t inode) = 0;

  // What the daemon before this one has left; once. They are held until GiveUp.
  virtual std::vector<UniqueFd> TakeLeft() = 0;
  // So long this daemon may need to take up what is left, before it serves: whoever waits for it is told.
  virtual void NeedsTime(std::uint64_t seconds) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_DEPOSITS_H_
