#include "daemon/core/loop.h"

#include <absl/cleanup/cleanup.h>
#include <spdlog/spdlog.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <future>
#include <thread>
#include <unordered_map>

#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;

class ThreadLoop : public Loop {
 public:
  ThreadLoop() : guard_(asio::make_work_guard(context_)), thread_([this] { RunJobs(); }) {}
  ~ThreadLoop() override { Stop(); }

  void Post(std::function<void()> job) override { asio::post(context_, std::move(job)); }

  TimerId After(std::chrono::milliseconds delay, std::function<void()> job) override {
    CAIRN_CHECK(InStrand());
    const TimerId id = ++last_timer_;
    auto timer = std::make_unique<asio::steady_timer>(context_, delay);
    timer->async_wait([this, id, job = std::move(job)](const boost::system::error_code& error) {
      if (error) return;                   // cancelled
      if (timers_.erase(id) == 0) return;  // cancelled after it had expired
      job();
    });
    timers_.emplace(id, std::move(timer));
    return id;
  }

  void Cancel(TimerId id) override {
    CAIRN_CHECK(InStrand());
    timers_.erase(id);
  }

  void Run(std::function<void()> job) override {
    CAIRN_CHECK(!InStrand());
    std::promise<void> ran;
    Post([&] {
      const auto tell = absl::MakeCleanup([&ran] { ran.set_value(); });
      job();
    });
    ran.get_future().wait();
  }
  bool InStrand() const override { return std::this_thread::get_id() == thread_.get_id(); }
  void Stop() override {
    CAIRN_CHECK(!InStrand());
    context_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  // Whatever throws fails its own step: what waits for it ends by its deadline, and the other runs go on.
  void RunJobs() {
    for (;;) {
      const absl::Status status = Caught([this] { context_.run(); });
      if (status.ok()) return;
      spdlog::error("a step of the core failed: {}", MessageOf(status));
    }
  }

  // The hint is not 1: then what the strand posts to itself would wait behind what others post after it.
  asio::io_context context_{2};
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  TimerId last_timer_ = 0;
  std::unordered_map<TimerId, std::unique_ptr<asio::steady_timer>> timers_;
  std::thread thread_;
};

class ThreadPool : public BlockingPool {
 public:
  explicit ThreadPool(std::size_t threads) : pool_(threads) {}
  ~ThreadPool() override { pool_.join(); }
  void Post(std::function<void()> job) override {
    asio::post(pool_, [job = std::move(job)] {
      const absl::Status status = Caught(job);
      if (!status.ok()) spdlog::error("a job of the core failed: {}", MessageOf(status));
    });
  }

 private:
  asio::thread_pool pool_;
};

}  // namespace

std::unique_ptr<Loop> MakeThreadLoop() {
  return std::make_unique<ThreadLoop>();
}
std::unique_ptr<BlockingPool> MakeBlockingPool(std::size_t threads) {
  return std::make_unique<ThreadPool>(threads);
}

}  // namespace cairn
