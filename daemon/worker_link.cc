#include "daemon/worker_link.h"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>
#include <utility>

#include "daemon/supervisor/hand_over.h"
#include "daemon/supervisor/page.h"
#include "daemon/worker_deposits.h"
#include "storage/base/caught.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr int kCountEveryMs = 1000;

class WorkerLinkImpl final : public WorkerLink {
 public:
  WorkerLinkImpl(UniqueFd link, std::shared_ptr<CountersWriter> page, std::shared_ptr<Deposits> deposits,
                 std::shared_ptr<std::atomic<bool>> serves)
      : link_(std::move(link)),
        page_(std::move(page)),
        serves_(std::move(serves)),
        deposits_(std::move(deposits)),
        gone_(::eventfd(0, EFD_CLOEXEC)),
        ending_(::eventfd(0, EFD_CLOEXEC)) {
    CAIRN_CHECK(gone_.valid());
    CAIRN_CHECK(ending_.valid());
  }
  ~WorkerLinkImpl() override { End(); }

  void Serve(Server& server, bool linked) override {
    *serves_ = true;
    receiver_ = std::thread([this, &server] {
      const absl::Status status = Caught([&] { Receive(server); });
      if (!status.ok()) spdlog::error("connections from the supervisor: {}", MessageOf(status));
      ::eventfd_write(gone_.get(), 1);
    });
    counter_ = std::thread([this, &server, linked] {
      const absl::Status status = Caught([&] { Count(server, linked); });
      if (!status.ok()) spdlog::error("counters for the supervisor: {}", MessageOf(status));
    });
  }

  std::shared_ptr<Deposits> deposits() const override { return deposits_; }
  int gone() const override { return gone_.get(); }

  void End() override {
    if (!receiver_.joinable()) return;
    ::shutdown(link_.get(), SHUT_RDWR);  // wakes the receiver
    ::eventfd_write(ending_.get(), 1);
    receiver_.join();
    counter_.join();
    link_.Reset();
  }

 private:
  void Receive(Server& server) {
    for (;;) {
      absl::StatusOr<HandedOver> handed = ReceiveConnection(link_.get());
      if (!handed.ok()) return;
      page_->Add(&WorkerCounters::taken, 1);
      if (handed->connection.valid()) server.Admit(handed->door, std::move(handed->connection));
    }
  }

  void Count(Server& server, bool linked) {
    pollfd ending{.fd = ending_.get(), .events = POLLIN, .revents = 0};
    do {
      // The page outlives an answer that comes late, the server does not.
      server.Status([page = page_, connections = server.connections(), linked](const admin::StatusReply& status) {
        Publish(*page, CountersOf(status, connections, linked));
      });
    } while (::poll(&ending, 1, kCountEveryMs) <= 0);
  }

  static void Publish(CountersWriter& page, const WorkerCounters& counters) {
    for (const auto member :
         {&WorkerCounters::busy, &WorkerCounters::connections, &WorkerCounters::sessions, &WorkerCounters::runs,
          &WorkerCounters::flushes, &WorkerCounters::warnings, &WorkerCounters::cache_bytes_used,
          &WorkerCounters::cache_bytes_max, &WorkerCounters::image_bytes_used, &WorkerCounters::image_bytes_max,
          &WorkerCounters::drains, &WorkerCounters::drains_failing, &WorkerCounters::drain_bytes_left}) {
      page.Set(member, counters.*member);
    }
    page.Add(&WorkerCounters::beats, 1);
    page.Set(&WorkerCounters::ready, 1);
  }

  UniqueFd link_;
  const std::shared_ptr<CountersWriter> page_;
  const std::shared_ptr<std::atomic<bool>> serves_;
  const std::shared_ptr<Deposits> deposits_;
  const UniqueFd gone_, ending_;
  std::thread receiver_, counter_;
};

}  // namespace

WorkerCounters CountersOf(const admin::StatusReply& status, std::uint64_t connections, bool linked) {
  WorkerCounters counters{};
  counters.connections = connections;
  counters.warnings = static_cast<std::uint64_t>(status.warnings_size());
  counters.cache_bytes_used = status.cache_bytes_used();
  counters.cache_bytes_max = status.cache_bytes_max();
  counters.image_bytes_used = status.image_bytes_used();
  counters.image_bytes_max = status.image_bytes_max();
  bool at_work = false, wanted_elsewhere = false;
  for (const admin::RunStatus& run : status.runs()) {
    ++counters.runs;
    counters.sessions += run.sessions();
    counters.flushes += static_cast<std::uint64_t>(run.flushes_size());
    at_work = at_work || run.growing_size() > 0 || run.at_work() > 0;
    wanted_elsewhere = wanted_elsewhere || (linked && run.only_here() > 0);
  }
  for (const admin::DrainStatus& drain : status.drains()) {
    ++counters.drains;
    const bool stands = drain.state() == "failed" || drain.state() == "ended";
    counters.drains_failing += stands || drain.failed() > 0 ? 1 : 0;
    counters.drain_bytes_left += drain.bytes_left();
    // What waits for anything but time may wait for good. The first look at a large folder may take longer than an idle
    // worker is kept. A full target is tried every 30 s: that is work.
    const bool begins = drain.passed_us() == 0 && (drain.state() == "starting" || drain.state() == "looking");
    at_work = at_work || begins || drain.state() == "bringing" || drain.state() == "settling";
  }
  counters.busy = connections > 0 || counters.sessions > 0 || counters.flushes > 0 || at_work ||
                          status.hung_size() > 0 || status.quiescing() || wanted_elsewhere
                      ? 1
                      : 0;
  return counters;
}

absl::StatusOr<std::unique_ptr<WorkerLink>> WorkerLink::Take() {
  for (const int fd : {kLinkFd, kPageFd}) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return InvalidArgument("--worker: only a supervisor starts workers");
  }
  UniqueFd link(kLinkFd), page(kPageFd);
  CAIRN_ASSIGN_OR_RETURN(CountersWriter writer, CountersWriter::Map(std::move(page)));
  const auto counters = std::make_shared<CountersWriter>(std::move(writer));
  const auto serves = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<Deposits> deposits;
  int type = 0;
  socklen_t bytes = sizeof type;
  const bool socket = ::getsockopt(kDepositFd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_SEQPACKET;
  if (socket && ::fcntl(kDepositFd, F_SETFD, FD_CLOEXEC) == 0) {
    deposits = DepositsWithSupervisor(UniqueFd(kDepositFd), kFirstLeftFd, [counters, serves] {
      // Once it serves, a beat says that everything was counted anew: else it would look idle before it was.
      if (!*serves) counters->Add(&WorkerCounters::beats, 1);
    });
  }
  return std::make_unique<WorkerLinkImpl>(std::move(link), counters, std::move(deposits), serves);
}

}  // namespace cairn
