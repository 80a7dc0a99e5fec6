// The bounded pool for hashing, copying and checking. While a client copies into an image (a Hold is alive), only
// threads of idle priority take jobs, so that the client has the cores; otherwise ordinary ones do.
// (An ordinary user's thread can enter SCHED_IDLE but never leave it: hence two sets of threads.)
// A third set, made as it is needed, runs what waits for a disk, so that no such wait keeps a core from hashing.
#ifndef CAIRN_DAEMON_DATA_WORK_POOL_H_
#define CAIRN_DAEMON_DATA_WORK_POOL_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace cairn {

// Where jobs run that wait for a disk; any thread may ask.
using Waiting = std::function<void(std::function<void()> job)>;

class WorkPool {
 public:
  static constexpr std::size_t kWaitersMax = 16;

  WorkPool() = default;
  virtual ~WorkPool() = default;
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Jobs are short (at most some ms of work), so that a switch of priority is felt soon. What throws is logged; what it
  // leaves undone is the job's concern (storage/base/caught.h). Any thread.
  //
  // A job that is on a thread of idle priority when the last client has copied may starve there, behind the
  // application, for seconds. If it has a `rescue`, that is then posted as a job of its own: it takes the work back and
  // has it done by others; the job, whenever it comes to its end, must find that out.
  virtual void Post(std::function<void()> job, std::function<void()> rescue) = 0;
  void Post(std::function<void()> job) { Post(std::move(job), nullptr); }
  // For jobs that wait for a disk: ordinary priority at all times, at most kWaitersMax at once. Any thread.
  virtual void PostWaiting(std::function<void()> job) = 0;
  // Posted jobs that run at once.
  virtual std::size_t threads() const = 0;
  // For what is not urgent and takes the memory's bandwidth: waits while a client copies, but not for longer than
  // `patience`, which goes down by that, and not once `hurry` is set (looked at every 10 ms). Not on the pool's
  // threads.
  virtual void GiveWayToClients(const std::atomic<bool>& hurry, std::chrono::milliseconds& patience) = 0;

  class Hold {
   public:
    Hold(Hold&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (pool_ != nullptr) pool_->EndHold();
    }

   private:
    friend class WorkPool;
    explicit Hold(WorkPool* pool) : pool_(pool) { pool_->BeginHold(); }
    WorkPool* pool_;
  };
  // A client is copying. The pool outlives the Hold. Any thread.
  Hold HoldForClient() { return Hold(this); }

 private:
  virtual void BeginHold() = 0;
  virtual void EndHold() = 0;
};

inline Waiting OrPoolsOwn(Waiting waiting, WorkPool& pool) {
  if (waiting) return waiting;
  return [&pool](std::function<void()> job) { pool.PostWaiting(std::move(job)); };
}

// The real one: so many threads of each kind, at least 1. The destructor runs what was posted, then ends them.
std::unique_ptr<WorkPool> MakeWorkPool(std::size_t threads);

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_WORK_POOL_H_
