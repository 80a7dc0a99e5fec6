#include "tests/daemon/core/simulated_daemon.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// No call may last longer, whatever its deadline is.
constexpr std::chrono::minutes kPatience(30);
constexpr std::chrono::system_clock::time_point kEpoch{std::chrono::seconds(1'700'000'000)};

}  // namespace

struct SimulatedDaemon::Script {
  explicit Script(std::function<void()> script) : fiber(std::move(script)) {}

  Fiber fiber;
  std::function<bool()> holds;  // what it waits for; null: nothing
  Stepper::Time until{};
  bool lost = false;
  bool in_vain = false;
};

SimulatedDaemon::SimulatedDaemon(std::uint64_t seed, Disk& cache, Disk& prefix)
    : numbers_(~seed),
      stepper_(seed),
      cache_(cache),
      prefix_(prefix),
      random_([this] { return numbers_(); }),
      clock_({.wall = [this] { return kEpoch + stepper_.now().time_since_epoch(); },
              .steady = [this] { return stepper_.now(); },
              .sleep = [this](std::chrono::nanoseconds time) { stepper_.Turn(time); }}) {
  stepper_.Add(this);
}

SimulatedDaemon::~SimulatedDaemon() {
  fibers_.clear();
  if (core_) Kill();
  stepper_.Remove(this);
}

absl::Status SimulatedDaemon::Start() {
  CAIRN_CHECK(!core_);
  parts_ = std::make_unique<SteppedParts>(stepper_, std::max<std::uint32_t>(1, config.flush.parallel));
  auto core = Core::Start(config, {.loop = parts_->loop,
                                   .pools = {.work = parts_->work,
                                             .cache = parts_->cache,
                                             .images = parts_->images,
                                             .prefix = parts_->prefix,
                                             .flush = parts_->flush,
                                             .growing = parts_->growing,
                                             .far = parts_->far},
                                   .cache_disk = cache_,
                                   .prefix_disk = prefix_,
                                   .clocks = {.steady = clock_.source().steady, .wall = clock_.source().wall},
                                   .random = [this] { return numbers_(); },
                                   .process = {.user = user, .host = "node7", .pid = 42},
                                   .deposits = deposits});
  if (!core.ok()) {
    parts_->Drop();
    return core.status();
  }
  core_ = *std::move(core);
  return absl::OkStatus();
}

bool SimulatedDaemon::StopCleanly() {
  const bool all_local = Answered<bool>([this](auto done) { core_->Quiesce(done); });
  stopping_ = true;
  for (const auto& script : fibers_) script->lost = true;
  Answered<bool>([this](auto done) { core_->Stop([done] { done(true); }); });
  parts_->loop.Stop();
  stepper_.Run();  // what is in the pools comes to its end
  parts_->Drop();
  core_.reset();
  CAIRN_CHECK(parts_->work.holds() == 0);
  parts_.reset();
  stopping_ = false;
  return all_local;
}

void SimulatedDaemon::Kill() {
  for (const auto& script : fibers_) script->lost = true;
  parts_->Drop();
  core_.reset();
  parts_.reset();
}

// --- Running ---

bool SimulatedDaemon::Advance() {
  if (stepper_.Step()) return true;
  const bool timer = parts_ && parts_->loop.has_timer();
  if (!timer && !running()) return false;
  // Who waits too long, or for what will never come.
  Stepper::Time next = Stepper::Time::max();
  for (const auto& script : fibers_) next = std::min(next, script->until);
  if (timer) next = std::min(next, parts_->loop.next_timer());
  if (next == Stepper::Time::max()) return false;
  if (next > stepper_.now()) stepper_.Turn(next - stepper_.now());
  for (const auto& script : fibers_) {
    if (!running() || (script->until > stepper_.now() && timer)) continue;
    script->in_vain = true;
    ++waits_in_vain_;
  }
  return true;
}

bool SimulatedDaemon::AdvanceUntil(const std::function<bool()>& holds) {
  const Stepper::Time until = stepper_.now() + kPatience;
  while (!holds()) {
    if (!Advance() || stepper_.now() > until) return holds();
  }
  return true;
}

void SimulatedDaemon::Spawn(std::function<void()> script) {
  fibers_.push_back(std::make_unique<Script>(std::move(script)));
  fibers_.back()->until = stepper_.now() + kPatience;
}

std::size_t SimulatedDaemon::runnable() const {
  std::size_t ready = 0;
  for (const auto& script : fibers_) ready += !script->holds || script->lost || script->in_vain || script->holds();
  return ready;
}

void SimulatedDaemon::RunOne(std::size_t which) {
  const auto ready = [](const Script& script) {
    return !script.holds || script.lost || script.in_vain || script.holds();
  };
  auto at = fibers_.begin();
  while (!ready(**at) || which-- > 0) ++at;
  current_ = at->get();
  current_->fiber.Resume();
  current_ = nullptr;
  if ((*at)->fiber.at_end()) fibers_.erase(at);
}

bool SimulatedDaemon::WaitFor(std::function<bool()> holds) {
  Script* self = current_;
  CAIRN_CHECK(self != nullptr);
  self->until = stepper_.now() + kPatience;
  self->holds = std::move(holds);
  Fiber::Pause();
  const bool come = self->holds();
  self->holds = nullptr;
  if (std::exchange(self->lost, false) || breaks()) throw Lost();
  return come || !std::exchange(self->in_vain, false);
}

bool SimulatedDaemon::Wait(std::unique_lock<std::mutex>& lock, std::condition_variable&,
                           const std::function<bool()>& holds) {
  lock.unlock();
  const bool come = current_ != nullptr ? WaitFor(holds) : AdvanceUntil(holds);
  lock.lock();
  return come;
}

}  // namespace cairn
