#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <thread>

#include "storage/base/check.h"
#include "storage/base/unique_fd.h"
#include "storage/io/errno_status.h"
#include "storage/io/io_queue.h"
#include "storage/io/pinned_memory.h"

namespace cairn {
namespace {

// Sets up a ring that can read and write; 0 or -errno. The operations are younger than io_uring itself.
int SetUpRing(unsigned entries, io_uring* ring) {
  if (const int result = io_uring_queue_init(entries, ring, 0); result < 0) return result;
  io_uring_probe* probe = io_uring_get_probe_ring(ring);
  const bool able = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) != 0 &&
                    io_uring_opcode_supported(probe, IORING_OP_WRITE) != 0;
  if (probe != nullptr) io_uring_free_probe(probe);
  if (!able) io_uring_queue_exit(ring);
  return able ? 0 : -EOPNOTSUPP;
}

// All of the ring belongs to its thread. Others put jobs into the queue and, if the thread may be asleep, write to an
// eventfd that the ring itself reads: so there is one place to wait at.
class IoRing final : public IoEngine {
 public:
  static std::unique_ptr<IoRing> Create(const IoEngineOptions& options) {
    std::unique_ptr<IoRing> ring(new IoRing(options));
    if (!ring->wake_fd_.valid()) return nullptr;
    // One entry more, for the eventfd.
    if (SetUpRing(ring->in_flight_max_ + 1, &ring->ring_) < 0) return nullptr;
    if (options.pin) ring->pinned_ = std::make_shared<PinnedMemory>(ring->ring_);
    ring->thread_ = std::thread([r = ring.get(), options] {
      UsePriorityOf(options);
      r->Run();
    });
    return ring;
  }

  ~IoRing() override {
    if (!thread_.joinable()) return;  // it was never set up
    queue_.Close();
    Wake();
    thread_.join();
    if (pinned_ != nullptr) pinned_->Close();
    io_uring_queue_exit(&ring_);
  }

  std::shared_ptr<void> Pin(std::span<std::byte> memory) override {
    int error = 0;
    return pinned_ != nullptr ? pinned_->Pin(memory, &error) : nullptr;
  }

  void Submit(IoTransfer transfer) override {
    const bool own_thread = std::this_thread::get_id() == thread_.get_id();
    queue_.Push(std::make_unique<IoJob>(IoJob{std::move(transfer)}), own_thread);
    if (!own_thread) Wake();
  }

  std::string_view name() const override { return "io_uring"; }

 private:
  explicit IoRing(const IoEngineOptions& options)
      : in_flight_max_(std::clamp(options.in_flight_max, 1u, 4096u)),
        entry_flags_(options.may_hang ? IOSQE_ASYNC : 0),
        queue_(std::max<std::size_t>(options.queued_max, 1)),
        wake_fd_(::eventfd(0, EFD_CLOEXEC)) {}

  void Wake() {
    if (awake_.exchange(true)) return;
    const std::uint64_t one = 1;
    while (::write(wake_fd_.get(), &one, sizeof(one)) < 0) CAIRN_CHECK(errno == EINTR);
  }

  void Run() {
    for (;;) {
      if (!wake_armed_) ArmWake();
      // First awake_, then the queue: a job that comes after the look at the queue finds awake_ false and wakes us.
      awake_.store(false);
      TakeFromQueue();
      if (in_flight_ == 0 && queue_.closed_and_empty()) return;
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      // Out of memory for the moment (EAGAIN), completions to be reaped first (EBUSY): the entries stay in the ring.
      CAIRN_CHECK(submitted >= 0 || submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY);
      awake_.store(true);
      Reap();
    }
  }

  void ArmWake() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    CAIRN_CHECK(entry != nullptr);
    io_uring_prep_read(entry, wake_fd_.get(), &wake_count_, sizeof(wake_count_), 0);
    io_uring_sqe_set_data(entry, nullptr);
    wake_armed_ = true;
  }

  void TakeFromQueue() {
    while (in_flight_ < in_flight_max_) {
      std::unique_ptr<IoJob> job = queue_.Pop(/*wait=*/false);
      if (job == nullptr) return;
      ++in_flight_;
      Prepare(job.release());
    }
  }

  // The ring owns the job from here until Reap.
  void Prepare(IoJob* job) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) {  // entries of an earlier round that the kernel did not take yet
      io_uring_submit(&ring_);
      entry = io_uring_get_sqe(&ring_);
    }
    CAIRN_CHECK(entry != nullptr);
    PrepareTransfer(*job, entry);
    entry->ioprio = job->transfer.priority.number();  // 0: that of this thread
    io_uring_sqe_set_flags(entry, entry_flags_);
    io_uring_sqe_set_data(entry, job);
  }

  void PrepareTransfer(const IoJob& job, io_uring_sqe* entry) const {
    const auto bytes = static_cast<unsigned>(job.part_bytes());
    const int fd = job.transfer.fd;
    const auto pinned = pinned_ != nullptr ? pinned_->NumberOf(job.data(), bytes) : std::nullopt;
    if (pinned.has_value()) {
      job.transfer.write ? io_uring_prep_write_fixed(entry, fd, job.data(), bytes, job.offset(), *pinned)
                         : io_uring_prep_read_fixed(entry, fd, job.data(), bytes, job.offset(), *pinned);
    } else {
      job.transfer.write ? io_uring_prep_write(entry, fd, job.data(), bytes, job.offset())
                         : io_uring_prep_read(entry, fd, job.data(), bytes, job.offset());
    }
  }

  void Reap() {
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      auto* job = static_cast<IoJob*>(io_uring_cqe_get_data(completion));
      const int result = completion->res;
      io_uring_cqe_seen(&ring_, completion);
      if (job == nullptr) {
        wake_armed_ = false;
      } else {
        TakeResult(std::unique_ptr<IoJob>(job), result);
      }
    }
  }

  void TakeResult(std::unique_ptr<IoJob> job, int result) {
    int error = 0;
    if (!job->TakeResult(result, &error)) return Prepare(job.release());
    --in_flight_;
    job->Finish(error);
  }

  const unsigned in_flight_max_;
  const unsigned entry_flags_;
  IoQueue queue_;
  UniqueFd wake_fd_;
  std::atomic<bool> awake_{true};
  std::thread thread_;

  std::shared_ptr<PinnedMemory> pinned_;  // null: not asked for
  // But for what is pinned, of the thread only:
  io_uring ring_{};
  unsigned in_flight_ = 0;
  bool wake_armed_ = false;
  std::uint64_t wake_count_ = 0;
};

}  // namespace

absl::Status ProbeIoUring() {
  io_uring ring{};
  if (const int result = SetUpRing(1, &ring); result < 0) return ErrnoStatus(-result, "io_uring_setup");
  io_uring_queue_exit(&ring);
  return absl::OkStatus();
}

absl::Status ProbePinning(std::size_t bytes) {
  io_uring ring{};
  if (const int result = SetUpRing(1, &ring); result < 0) return ErrnoStatus(-result, "io_uring_setup");
  std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kDirectAlignment, bytes)), &std::free);
  int error = memory == nullptr ? ENOMEM : 0;
  if (memory != nullptr) std::make_shared<PinnedMemory>(ring)->Pin({memory.get(), bytes}, &error);
  io_uring_queue_exit(&ring);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, fmt::format("io_uring_register of {} bytes", bytes));
}

std::unique_ptr<IoEngine> MakeIoEngine(const IoEngineOptions& options) {
  std::unique_ptr<IoEngine> engine;
  if (options.io_uring) engine = IoRing::Create(options);
  return engine != nullptr ? std::move(engine) : MakeIoThreads(options);
}

}  // namespace cairn
