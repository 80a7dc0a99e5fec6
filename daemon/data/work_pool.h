// The bounded pool for hashing, copying and checking. Each client that copies into an image (a Hold is alive) has a
// core for itself: a job begins only while fewer jobs and clients are at work than there are cores. Nothing is bound to
// a core, and jobs that run go on. A second set of threads, made as it is needed, runs what waits for a disk, so that
// no such wait keeps a core from hashing.
//
// No thread has idle priority: while the application computes on all cores, the kernel may stop such a thread for half
// a second. If it holds a lock then, or is the next to get it, all threads that wait for this lock wait, too.
#ifndef CAIRN_DAEMON_DATA_WORK_POOL_H_
#define CAIRN_DAEMON_DATA_WORK_POOL_H_

#include <absl/functional/any_invocable.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace cairn {

// One that holds no more than a shared pointer takes no memory of its own.
using PoolJob = absl::AnyInvocable<void()>;

// Where jobs run that wait for a disk; any thread may ask.
using Waiting = std::function<void(PoolJob job)>;

class WorkPool {
 public:
  static constexpr std::size_t kWaitersMax = 16;
  // A Hold that is older keeps no job from beginning: its client may have stopped. Nor does a job wait for longer until
  // it may begin, however many clients follow each other.
  static constexpr std::chrono::milliseconds kHoldsBackFor{250};

  WorkPool() = default;
  virtual ~WorkPool() = default;
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Jobs are short (at most some ms of work), so that a client that begins to copy soon has its core. What throws is
  // logged; what it leaves undone is the job's concern (storage/base/caught.h). Any thread.
  virtual void Post(PoolJob job) = 0;
  // For jobs that wait for a disk: they begin at any time, at most kWaitersMax at once. Any thread.
  virtual void PostWaiting(PoolJob job) = 0;
  // Posted jobs that run at once.
  virtual std::size_t threads() const = 0;
  // For what is not urgent and takes the memory's bandwidth: waits while a client copies, but not for longer than
  // `patience`, which goes down by that, and not once `hurry` is set (looked at every 10 ms). Not on the pool's
  // threads.
  virtual void GiveWayToClients(const std::atomic<bool>& hurry, std::chrono::milliseconds& patience) = 0;

  class Hold {
   public:
    Hold(Hold&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), number_(other.number_) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (pool_ != nullptr) pool_->EndHold(number_);
    }

   private:
    friend class WorkPool;
    explicit Hold(WorkPool* pool) : pool_(pool), number_(pool->BeginHold()) {}
    WorkPool* pool_;
    std::uint64_t number_;
  };
  // A client is copying. The pool outlives the Hold. Any thread.
  Hold HoldForClient() { return Hold(this); }

 private:
  virtual std::uint64_t BeginHold() = 0;  // its number
  virtual void EndHold(std::uint64_t number) = 0;
};

inline Waiting OrPoolsOwn(Waiting waiting, WorkPool& pool) {
  if (waiting) return waiting;
  return [&pool](PoolJob job) { pool.PostWaiting(std::move(job)); };
}

// The real one: so many threads for jobs, at least 1; clients and jobs share so many cores (0: those on which this
// process may run). The destructor runs what was posted, then ends them.
std::unique_ptr<WorkPool> MakeWorkPool(std::size_t threads, std::size_t cores = 0);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_WORK_POOL_H_
