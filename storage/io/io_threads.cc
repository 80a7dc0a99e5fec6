#include <linux/ioprio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "storage/io/io_queue.h"

namespace cairn {
namespace {

thread_local const IoEngine* engine_of_this_thread = nullptr;

class IoThreads final : public IoEngine {
 public:
  explicit IoThreads(const IoEngineOptions& options) : queue_(std::max<std::size_t>(options.queued_max, 1)) {
    const auto run = [this, idle = options.idle] {
      if (idle) EnterIdleClass();
      Run();
    };
    for (unsigned i = 0; i < std::max(options.threads, 1u); ++i) threads_.emplace_back(run);
  }

  ~IoThreads() override {
    queue_.Close();
    for (std::thread& thread : threads_) thread.join();
  }

  void Submit(IoTransfer transfer) override {
    queue_.Push(std::make_unique<IoJob>(IoJob{std::move(transfer)}), engine_of_this_thread == this);
  }

  std::string_view name() const override { return "threads"; }

 private:
  void Run() {
    engine_of_this_thread = this;
    while (const std::unique_ptr<IoJob> job = queue_.Pop(/*wait=*/true)) {
      job->Finish(job->RunHere());
    }
  }

  IoQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace

void EnterIdleClass() {
  // glibc has no function for it.
  ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

std::unique_ptr<IoEngine> MakeIoThreads(const IoEngineOptions& options) {
  return std::make_unique<IoThreads>(options);
}

}  // namespace cairn
