// A context whose strand and pools stand still: a test runs their jobs one by one, in an order of its own. Disks are in
// memory, the clocks are turned by hand, warnings are kept.
#ifndef CAIRN_TESTS_DAEMON_CORE_BY_HAND_H_
#define CAIRN_TESTS_DAEMON_CORE_BY_HAND_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/context.h"
#include "daemon/data/deposits.h"
#include "storage/io/disk_probe.h"
#include "tests/support/fake_disk.h"
#include "tests/support/stepped.h"

namespace cairn {

class ByHand {
 public:
  using Probe = std::function<absl::StatusOr<DiskSpeeds>(const std::string&, ProbeTurn, const std::function<bool()>&)>;
  explicit ByHand(PeerAccess* peers = nullptr, Probe probe = nullptr, std::shared_ptr<Deposits> deposits = nullptr)
      : peers_(peers), probe_(std::move(probe)), deposits_(std::move(deposits)) {}
  ByHand(const ByHand&) = delete;

  // Each has a stepper of its own: `cache.Step()` runs the next job of the cache's pool and nothing else.
  Stepper strand{1}, cache{1}, prefix{1}, others{1};
  SteppedLoop loop{strand};
  FakeDisk cache_disk, prefix_disk;

  // Runs until nobody has a job.
  void RunAll() {
    while (strand.Step() || cache.Step() || prefix.Step() || others.Step()) {
    }
  }
  // The steady and the wall clock; timers that are due by then run with the next step.
  void Turn(std::chrono::milliseconds by) { strand.Turn(by); }

  std::function<bool(const std::string& job)> job_is_over;  // null: nothing is known of any

 private:
  SteppedBlockingPool cache_pool_{cache, 1}, image_pool_{others, 1};
  SteppedLanes prefix_pool_{prefix, 1}, flush_{others, 1}, growing_{others, 1}, far_{others, 1};
  SteppedWorkPool work_{others, 1};
  PeerAccess* const peers_;
  const Probe probe_;
  const std::shared_ptr<Deposits> deposits_;
  std::uint64_t last_random_ = 0;
  Warnings warnings_;
  Transfers transfers_{std::make_shared<BackgroundBudget>(0)};

 public:
  Context context{
      .env = {
          .loop = loop,
          .pools = {.work = work_,
                    .cache = cache_pool_,
                    .images = image_pool_,
                    .prefix = prefix_pool_,
                    .flush = flush_,
                    .growing = growing_,
                    .far = far_},
          .cache_disk = cache_disk,
          .prefix_disk = prefix_disk,
          .clocks = {.steady = [this] { return strand.now(); },
                     .wall = [this] { return std::chrono::system_clock::time_point(strand.now().time_since_epoch()); }},
          .random = [this] { return ++last_random_; },
          .process = {.user = "me", .host = "node", .pid = 1},
          .arbiters = PrefixArbiters(),
          .peers = peers_,
          .job_is_over = [this](const std::string& job) { return job_is_over != nullptr && job_is_over(job); },
          .probe_cache_disk = probe_,
          .deposits = deposits_},
      .config = {},
      .phase = Phase::kServing,
      .warnings = &warnings_,
      .transfers = &transfers_};
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_BY_HAND_H_
