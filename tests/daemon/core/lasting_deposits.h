// What a supervisor holds for a daemon: memory that stays when the daemon has gone. A test can look into it at any
// time. If the daemon dies, all stays as it is at that instant, whatever the daemon's destructors still do to it.
// Thread-safe.
#ifndef CAIRN_TESTS_DAEMON_CORE_LASTING_DEPOSITS_H_
#define CAIRN_TESTS_DAEMON_CORE_LASTING_DEPOSITS_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/data/deposits.h"
#include "daemon/data/image_label.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/unique_fd.h"

namespace cairn {

class LastingDeposits final : public Deposits {
 public:
  std::function<void()> before_change = [] {};  // what is held; without locks

  absl::StatusOr<UniqueFd> Make(std::uint64_t bytes) override;
  void GiveUp(std::uint64_t inode) override;
  std::vector<UniqueFd> TakeLeft() override;
  void NeedsTime(std::uint64_t /*seconds*/) override { asked_for_time_ = true; }

  std::uint64_t Hold(UniqueFd fd);  // its inode
  bool asked_for_time() const { return asked_for_time_; }
  std::size_t size() const;

  // What a sealed label says, and the image that it names, with all of its bytes.
  struct Sealed {
    CapturedPart part;
    std::uint64_t inode = 0;
    std::string image;
  };
  // Each label that is sealed and would be believed.
  std::vector<Sealed> AllSealed() const;
  // Of each label that is held.
  void CountTries(std::uint64_t tries) const;
  // Nobody holds any image any more; the labels stay.
  void LoseImages();

  // The daemon dies now: from here on it changes nothing.
  void Die();
  // All is as it was then, for the next one.
  void Revive();
  // Gives all memory back, though something of a daemon that has died may have it mapped for ever.
  void Free();

 private:
  struct Memory {
    UniqueFd fd;
    SealedMemory what;
    std::string saved;  // its bytes when the daemon died
  };

  mutable absl::Mutex mutex_;
  std::map<std::uint64_t, Memory> held_ ABSL_GUARDED_BY(mutex_);  // by inode
  bool dead_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> asked_for_time_{false};
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_LASTING_DEPOSITS_H_
