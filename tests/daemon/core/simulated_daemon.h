// A core on one thread: loop, pools, clocks and random numbers are stepped, turned and drawn here, in an order that one
// seed gives. Its clients are fibers: what waits for an answer lets others run meanwhile. It can be stopped, killed and
// started again on the same disks.
#ifndef CAIRN_TESTS_DAEMON_CORE_SIMULATED_DAEMON_H_
#define CAIRN_TESTS_DAEMON_CORE_SIMULATED_DAEMON_H_

#include <absl/status/status.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "daemon/config/config.h"
#include "daemon/core/core.h"
#include "daemon/core/environment.h"
#include "daemon/data/deposits.h"
#include "storage/base/clock.h"
#include "storage/base/random.h"
#include "storage/io/disk.h"
#include "tests/daemon/core/client_host.h"
#include "tests/support/fiber.h"
#include "tests/support/stepped.h"

namespace cairn {

class SimulatedDaemon final : public ClientHost, private Stepper::Source {
 public:
  // What a fiber's wait throws when its connection broke: by Kill, or since `breaks` said so.
  struct Lost {};

  SimulatedDaemon(std::uint64_t seed, Disk& cache, Disk& prefix);
  ~SimulatedDaemon() override;

  Config config;
  std::string user = "tester";  // whose daemon it is
  std::shared_ptr<Deposits> deposits;
  std::function<bool()> breaks = [] { return false; };  // asked at each wait of a fiber

  absl::Status Start();
  // Quiesces and stops; every fiber that is still there is lost. False: something captured is not `local`.
  bool StopCleanly();
  void Kill();  // what is in the air is gone; every fiber that waits is lost

  // --- Running ---
  Stepper& stepper() { return stepper_; }
  // One job, or if there is none the clock goes on to the next timer. False: nothing will ever run any more.
  bool Advance();
  void Spawn(std::function<void()> script);
  bool idle() const { return fibers_.empty(); }  // no script is left
  // Waits of a fiber that came to nothing; each is an error.
  std::uint64_t waits_in_vain() const { return waits_in_vain_; }
  // Runs until it holds; from outside of fibers. False: it never will.
  bool AdvanceUntil(const std::function<bool()>& holds);
  // In a fiber: lets others run until it holds. False: in vain.
  bool WaitFor(std::function<bool()> holds);

  // ClientHost
  Core& core() override { return *core_; }
  bool running() const override { return core_ != nullptr && !stopping_; }
  std::string prefix() const override { return ""; }
  bool Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
            const std::function<bool()>& holds) override;

  // Asks with a callback and runs until it is answered.
  template <typename T, typename Ask>
  T Answered(Ask ask) {
    auto answer = std::make_shared<std::optional<T>>();
    ask([answer](T reply) { *answer = std::move(reply); });
    if (!AdvanceUntil([answer] { return answer->has_value(); })) {
      ++waits_in_vain_;
      return T();
    }
    return std::move(**answer);
  }

 private:
  struct Script;

  std::size_t runnable() const override;
  void RunOne(std::size_t which) override;

  std::mt19937_64 numbers_;
  Stepper stepper_;
  Disk& cache_;
  Disk& prefix_;
  const ScopedRandom random_;
  const ScopedClock clock_;

  std::list<std::unique_ptr<Script>> fibers_;
  Script* current_ = nullptr;
  std::uint64_t waits_in_vain_ = 0;
  bool stopping_ = false;
  std::unique_ptr<SteppedParts> parts_;  // of a life of the core
  std::unique_ptr<Core> core_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_SIMULATED_DAEMON_H_
