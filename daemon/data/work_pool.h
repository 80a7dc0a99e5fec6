// The bounded pool for hashing, copying and checking. While a client copies into an image (a Hold is alive), only
// threads of idle priority take jobs, so that the client has the cores; otherwise ordinary ones do.
// (An ordinary user's thread can enter SCHED_IDLE but never leave it: hence two sets of threads.)
#ifndef CAIRN_DAEMON_DATA_WORK_POOL_H_
#define CAIRN_DAEMON_DATA_WORK_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace cairn {

class WorkPool {
 public:
  explicit WorkPool(std::size_t threads);  // of each kind
  ~WorkPool();                             // runs what was posted, then ends
  // Jobs are short (at most some ms of work), so that a switch of priority is felt soon. Any thread.
  void Post(std::function<void()> job);

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
  // A client is copying.
  Hold HoldForClient();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DATA_WORK_POOL_H_
