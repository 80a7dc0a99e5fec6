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
    const auto run = [this, options] {
      UsePriorityOf(options);
      Run(IoPriority::OfThisThread());
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
  void Run(const IoPriority own) {
    engine_of_this_thread = this;
    while (const std::unique_ptr<IoJob> job = queue_.Pop(/*wait=*/true)) {
      const IoPriority asked = job->transfer.priority;
      (asked == IoPriority() ? own : asked).Use().IgnoreError();  // then it is as urgent as the one before
      job->Finish(job->RunHere());
    }
  }

  IoQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoEngine> MakeIoThreads(const IoEngineOptions& options) {
  return std::make_unique<IoThreads>(options);
}

}  // namespace cairn
