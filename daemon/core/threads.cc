#include "daemon/core/threads.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "daemon/process/memory_limit.h"
#include "daemon/process/probe_cache.h"
#include "daemon/process/slurm.h"
#include "storage/base/clock.h"
#include "storage/base/host_name.h"
#include "storage/base/random.h"
#include "storage/base/status.h"
#include "storage/base/user_name.h"
#include "storage/io/io_priority.h"

namespace cairn {
namespace {

constexpr std::size_t kPerPrefix = 2, kLaneThreads = 64;
constexpr std::size_t kFarPerPrefix = 4;  // ranks come to their files all at once

std::uint64_t RandomNumber() {
  std::uint64_t number = 0;
  FillRandom(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

Clocks OrTheSystems(Clocks clocks) {
  if (!clocks.steady) clocks.steady = SteadyNow;
  if (!clocks.wall) clocks.wall = WallNow;
  return clocks;
}

// Null: nobody is asked.
std::function<bool(const std::string& job)> JobIsOver(const std::string& squeue) {
  if (squeue.empty()) return nullptr;
  return [slurm = Slurm(squeue)](const std::string& job) { return slurm.StateOf(job) == Slurm::Job::kOver; };
}

Config WithMachine(Config config) {
  if (config.threads == 0) {
    config.threads = static_cast<std::uint32_t>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  }
  if (config.image.bytes_max == 0) {
    config.image.bytes_max = MemoryOfThisProcess() / 4;
  }
  return config;
}

// For each thread of a pool for what nobody waits for. It is a word to the disk only: a thread that the kernel lets run
// last could hold up those that clients wait for (daemon/data/work_pool.h).
std::function<void()> UsesIoPriority(const Config::Background& background) {
  const absl::StatusOr<IoPriority> priority = IoPriority::Parse(background.io_priority);
  if (!priority.ok() || *priority == IoPriority()) return nullptr;  // the settings were checked
  return [priority = *priority, told = std::make_shared<std::atomic<bool>>(false)] {
    const absl::Status used = priority.Use();
    if (!used.ok() && !told->exchange(true)) spdlog::warn("background.io_priority has no effect: {}", MessageOf(used));
  };
}

// Those of one prefix may all hang: then the others have as many threads as in any pool.
std::size_t FlushesPerPrefix(const Config& config) {
  return 2 * std::size_t{std::max<std::uint32_t>(1, config.flush.parallel)};
}

class ThreadedCoreImpl final : public ThreadedCore {
 public:
  ThreadedCoreImpl(const Config& config, Clocks clocks, const Arbiters& arbiters, PeerAccess* peers)
      : clocks_(OrTheSystems(std::move(clocks))),
        arbiters_(arbiters),
        peers_(peers),
        loop_(MakeThreadLoop()),
        work_(MakeWorkPool(config.threads)),
        cache_(MakeBlockingPool(std::max<std::size_t>(4, config.threads))),
        images_(MakeBlockingPool(config.threads)),
        prefix_(MakeLanes(kPerPrefix, kLaneThreads, clocks_.steady)),
        // Those of a run that hang (Flusher::FreeSlots) leave the others their threads.
        flush_(MakeLanes(FlushesPerPrefix(config), kLaneThreads + FlushesPerPrefix(config), clocks_.steady,
                         UsesIoPriority(config.background))),
        growing_(MakeLanes(kPerPrefix, kLaneThreads, clocks_.steady, UsesIoPriority(config.background))),
        far_(MakeLanes(kFarPerPrefix, kLaneThreads, clocks_.steady)) {}

  ~ThreadedCoreImpl() override {
    if (core_ && !stopped_) EndTransfers().wait();
    loop_->Stop();  // before the pools: what comes back from them must not use one that is gone
    if (peers_ != nullptr) peers_->Close();
    far_.reset();
    growing_.reset();
    flush_.reset();
    prefix_.reset();
    images_.reset();
    cache_.reset();
    work_.reset();
    loop_.reset();  // before the core: what has not run may hold parts of it
    core_.reset();
  }

  absl::Status Open(const Config& config, Disk& cache_disk, Disk& prefix_disk, std::shared_ptr<Deposits> deposits,
                    std::shared_ptr<BackgroundBudget> background) {
    const Environment environment{
        .loop = *loop_,
        .pools = {.work = *work_,
                  .cache = *cache_,
                  .images = *images_,
                  .prefix = *prefix_,
                  .flush = *flush_,
                  .growing = *growing_,
                  .far = *far_},
        .cache_disk = cache_disk,
        .prefix_disk = prefix_disk,
        .clocks = clocks_,
        .random = RandomNumber,
        .process = {.user = UserName(), .host = HostName(), .pid = static_cast<std::uint32_t>(getpid())},
        .arbiters = arbiters_,
        .peers = peers_,
        .job_is_over = JobIsOver(config.slurm.squeue),
        .probe_cache_disk =
            [cache = config.cache.path](const std::string& path, ProbeTurn turn, const std::function<bool()>& stop) {
              return ProbeCacheDisk(FolderOfDevice(cache), path, turn, stop);
            },
        .deposits = std::move(deposits),
        .background = std::move(background),
    };
    CAIRN_ASSIGN_OR_RETURN(core_, Core::Start(config, environment));
    return absl::OkStatus();
  }

  Core& core() override { return *core_; }

  bool Quiesce() override {
    std::promise<bool> all_local;
    core_->Quiesce([&all_local](bool all) { all_local.set_value(all); });
    return all_local.get_future().get();
  }

  absl::Status Stop() override {
    stopped_ = EndTransfers().wait_for(kHangsAfter) == std::future_status::ready;
    std::set<std::string> hung;
    for (const auto* lanes : {&far_, &growing_, &flush_, &prefix_}) hung.merge((*lanes)->AwaitIdle(kHangsAfter));
    if (!hung.empty()) return Unavailable("no answer from {}", fmt::join(hung, ", "));
    if (!stopped_) return Unavailable("captures or restores do not end");
    return absl::OkStatus();
  }

 private:
  std::future<void> EndTransfers() {
    auto ended = std::make_shared<std::promise<void>>();
    core_->Stop([ended] { ended->set_value(); });
    return ended->get_future();
  }

  const Clocks clocks_;
  const Arbiters& arbiters_;
  PeerAccess* const peers_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<WorkPool> work_;
  std::unique_ptr<BlockingPool> cache_, images_;
  std::unique_ptr<Lanes> prefix_, flush_, growing_, far_;
  std::unique_ptr<Core> core_;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadedCore>> ThreadedCore::Start(Config config, Disk& cache_disk, Disk& prefix_disk,
                                                                  Clocks clocks, const Arbiters& arbiters,
                                                                  PeerAccess* peers, std::shared_ptr<Deposits> deposits,
                                                                  std::shared_ptr<BackgroundBudget> background) {
  config = WithMachine(std::move(config));
  auto threaded = std::make_unique<ThreadedCoreImpl>(config, std::move(clocks), arbiters, peers);
  CAIRN_RETURN_IF_ERROR(threaded->Open(config, cache_disk, prefix_disk, std::move(deposits), std::move(background)));
  return threaded;
}

}  // namespace cairn
