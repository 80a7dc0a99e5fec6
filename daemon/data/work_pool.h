// The bounded pool for hashing, copying and checking. While a client copies into an image (a Hold is alive), only
// threads of idle priority take jobs, so that the client has the cores; otherwise ordinary ones do.
// (An ordinary user's thread can enter SCHED_IDLE but never leave it: hence two sets of threads.)
// A third set, made as it is needed, runs what waits for a disk, so that no such wait keeps a core from hashing.
#ifndef CAIRN_DAEMON_DATA_WORK_POOL_H_
#define CAIRN_DAEMON_DATA_WORK_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace cairn {

class WorkPool {
 public:
  static constexpr std::size_t kWaitersMax = 16;

  explicit WorkPool(std::size_t threads);  // of each kind; at least 1
  ~WorkPool();                             // runs what was posted, then ends
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Jobs are short (at most some ms of work), so that a switch of priority is felt soon, and let no exception out.
  // Any thread.
  //
  // A job that is on a thread of idle priority when the last client has copied may starve there, behind the
  // application, for seconds. If it has a `rescue`, that is then posted as a job of its own: it takes the work back and
  // has it done by others; the job, whenever it comes to its end, must find that out.
  void Post(std::function<void()> job, std::function<void()> rescue = nullptr);
  // For jobs that wait for a disk: ordinary priority at all times, at most kWaitersMax at once. Any thread.
  void PostWaiting(std::function<void()> job);
  // Threads that run posted jobs at once.
  std::size_t threads() const;

  class Hold {
   public:
    Hold(Hold&& other) noexcept;
    Hold& operator=(Hold&&) = delete;
    ~Hold();

   private:
    friend class WorkPool;
    explicit Hold(WorkPool* pool);
    WorkPool* pool_;
  };
  // A client is copying. The pool outlives the Hold.
  Hold HoldForClient();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_WORK_POOL_H_
