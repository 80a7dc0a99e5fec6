// The page of counters that a worker writes and the supervisor reads (proto/supervisor.h).
#ifndef CAIRN_DAEMON_SUPERVISOR_PAGE_H_
#define CAIRN_DAEMON_SUPERVISOR_PAGE_H_

#include <absl/status/statusor.h>

#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// The supervisor's side. The page cannot shrink, so reading it raises no signal, whatever the worker does. One thread.
class CountersPage {
 public:
  // kUnavailable: the kernel has none.
  static absl::StatusOr<CountersPage> Make();
  CountersPage(CountersPage&& other) noexcept;
  CountersPage& operator=(CountersPage&&) = delete;
  ~CountersPage();

  int fd() const { return fd_.get(); }
  // A copy of what stands there now; all 0 if it does not begin with kPageMagic. Any numbers: believe none.
  WorkerCounters Read() const;

 private:
  CountersPage(UniqueFd fd, const void* place) : fd_(std::move(fd)), place_(place) {}
  UniqueFd fd_;
  const void* place_;
};

// The worker's side. Thread-safe for different counters.
class CountersWriter {
 public:
  // kInvalidArgument: `fd` is no such page.
  static absl::StatusOr<CountersWriter> Map(UniqueFd fd);
  CountersWriter(CountersWriter&& other) noexcept;
  CountersWriter& operator=(CountersWriter&&) = delete;
  ~CountersWriter();

  void Set(std::uint64_t WorkerCounters::*counter, std::uint64_t value);
  void Add(std::uint64_t WorkerCounters::*counter, std::uint64_t value);

 private:
  explicit CountersWriter(WorkerCounters* place) : place_(place) {}
  WorkerCounters* place_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_SUPERVISOR_PAGE_H_
