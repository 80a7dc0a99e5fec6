#include "daemon/worker_deposits.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "daemon/supervisor/hand_over.h"
#include "proto/supervisor.h"
#include "storage/base/clock.h"
#include "storage/base/sealed_memory.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr timeval kAnswerWait{.tv_sec = 5, .tv_usec = 0};
constexpr int kTellEveryMs = 1000;

class WithSupervisor final : public Deposits {
 public:
  WithSupervisor(UniqueFd socket, std::vector<UniqueFd> left, std::function<void()> gets_on)
      : socket_(std::move(socket)), left_(std::move(left)), gets_on_(std::move(gets_on)) {
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      ::setsockopt(socket_.get(), SOL_SOCKET, option, &kAnswerWait, sizeof kAnswerWait);
    }
  }
  ~WithSupervisor() override {
    ::eventfd_write(ending_.get(), 1);
    if (teller_.joinable()) teller_.join();
  }

  // One at a time, so that each gets its own answer. After one that did not come no answer can be told from another.
  absl::StatusOr<UniqueFd> Make(std::uint64_t bytes) override {
    const absl::MutexLock lock(&asking_);
    if (broken_) return Unavailable("deposits: the supervisor does not answer");
    GiveUpPending();
    const DepositRequest request{.bytes = bytes, .inode = 0};
    absl::StatusOr<HandedOver> answer = Unavailable("deposits: {}", std::strerror(errno));
    if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL) == sizeof request) {
      answer = ReceiveConnection(socket_.get());
    }
    if (!answer.ok()) {
      broken_ = true;
      spdlog::warn("what is only captured is lost if this worker crashes: {}", MessageOf(answer.status()));
      return Unavailable("deposits: {}", MessageOf(answer.status()));
    }
    if (answer->connection.valid()) return std::move(answer->connection);
    if (!std::exchange(told_full_, true)) {
      spdlog::warn("some of what is only captured is lost if this worker crashes: the supervisor holds no more");
    }
    return ResourceExhausted("deposits: the supervisor holds no more");
  }

  // What cannot be told now is told before the next is asked for: only memory is held in vain meanwhile.
  void GiveUp(std::uint64_t inode) override {
    const DepositRequest request{.bytes = 0, .inode = inode};
    if (::send(socket_.get(), &request, sizeof request, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof request) return;
    const absl::MutexLock lock(&pending_mutex_);
    pending_.push_back(inode);
  }

  std::vector<UniqueFd> TakeLeft() override { return std::move(left_); }

  void NeedsTime(std::uint64_t seconds) override {
    until_ = SteadyNow() + std::chrono::seconds(seconds);
    const absl::MutexLock lock(&starting_);
    if (teller_.joinable()) return;
    teller_ = std::thread([this] {
      pollfd ending{.fd = ending_.get(), .events = POLLIN, .revents = 0};
      do {
        if (SteadyNow() < until_.load()) gets_on_();
        GiveUpPending();  // of what was taken up at the start: perhaps nothing more is asked for
      } while (::poll(&ending, 1, kTellEveryMs) <= 0);
    });
  }

 private:
  void GiveUpPending() {
    std::vector<std::uint64_t> pending;
    {
      const absl::MutexLock lock(&pending_mutex_);
      pending.swap(pending_);
    }
    for (const std::uint64_t inode : pending) GiveUp(inode);
  }

  const UniqueFd socket_;
  std::vector<UniqueFd> left_;
  const std::function<void()> gets_on_;
  absl::Mutex asking_;
  bool broken_ ABSL_GUARDED_BY(asking_) = false;
  bool told_full_ ABSL_GUARDED_BY(asking_) = false;
  absl::Mutex pending_mutex_;
  std::vector<std::uint64_t> pending_ ABSL_GUARDED_BY(pending_mutex_);
  std::atomic<std::chrono::steady_clock::time_point> until_{std::chrono::steady_clock::time_point()};
  const UniqueFd ending_{::eventfd(0, EFD_CLOEXEC)};
  absl::Mutex starting_;
  std::thread teller_;
};

}  // namespace

std::shared_ptr<Deposits> DepositsWithSupervisor(UniqueFd socket, int first_left, std::function<void()> gets_on) {
  std::vector<UniqueFd> left;
  for (int fd = first_left; LookAtMemory(fd).ok() && ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0; ++fd) left.emplace_back(fd);
  return std::make_shared<WithSupervisor>(std::move(socket), std::move(left), std::move(gets_on));
}

}  // namespace cairn
