// What all components of the core share: what the core was given, the settings as they are now, whether it is going
// away, and where warnings go. Strand only. The core owns it; everybody else reads.
#ifndef CAIRN_DAEMON_CORE_CONTEXT_H_
#define CAIRN_DAEMON_CORE_CONTEXT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/config/config.h"
#include "daemon/core/environment.h"
#include "daemon/core/loop.h"
#include "daemon/data/shared_blocks.h"
#include "storage/file/transfer/throttle.h"

namespace cairn {

// In this order; there is no way back.
enum class Phase : std::uint8_t {
  kServing,
  kQuiescing,  // takes nothing new, finishes what was begun
  kQuiesced,   // promises nothing any more
  kStopping,   // ends transfers; nothing more is started
};

// The last ones, for `cairn status`. Each goes to the log, too.
class Warnings {
 public:
  static constexpr std::size_t kMax = 100;
  void Add(std::string text);
  const std::deque<std::string>& all() const { return all_; }

 private:
  std::deque<std::string> all_;
};

// Captures and restores under way: they use pools, disks and images until they say that they have ended. Clients wait
// for them, so copies that nobody waits for have no more than the background's budget meanwhile.
class Transfers {
 public:
  explicit Transfers(std::shared_ptr<BackgroundBudget> background) : background_(std::move(background)) {}
  void Begun();
  void Ended();
  // Runs `done` once none is under way: now, or when the last one ends.
  void WhenNone(std::function<void()> done);
  // Runs within each Begun: whatever uses the same disk stops. Once.
  void OnBegun(std::function<void()> give_way) { give_way_ = std::move(give_way); }
  std::uint32_t under_way() const { return under_way_; }
  std::uint64_t begun() const { return begun_; }  // since the start
  // What the restores among them read together.
  SharedBlocks& blocks() { return blocks_; }
  const std::shared_ptr<BackgroundBudget>& background() const { return background_; }

 private:
  SharedBlocks blocks_;
  const std::shared_ptr<BackgroundBudget> background_;
  std::uint32_t under_way_ = 0;
  std::uint64_t begun_ = 0;
  std::function<void()> when_none_, give_way_;
};

struct Context {
  const Environment env;  // what is in it is borrowed
  Config config;
  std::string cache_id = {};      // identity of this daemon's cache (storage/place/cache/node_identity.h)
  std::uint64_t incarnation = 0;  // with links to other nodes: this life (storage/place/cache/node_life.h)
  // What clients on other hosts are told (proto/announcement.h); empty: nothing; none: that is not known yet.
  std::optional<std::string> announcement = {};
  Phase phase = Phase::kServing;
  Warnings* warnings;
  Transfers* transfers;

  bool quiescing() const { return phase >= Phase::kQuiescing; }
  void Warn(std::string text) const { warnings->Add(std::move(text)); }
  Loop& loop() const { return env.loop; }
  SteadyTime now() const { return env.clocks.steady(); }
  std::int64_t now_us() const;  // since the epoch

  // Runs `work` where it may wait for a disk, then `then` with its result on the strand.
  template <typename Work, typename Then>
  void OnCache(Work work, Then then) const {
    RunBlocking(env.pools.cache, env.loop, std::move(work), std::move(then));
  }
  // It may hang for hours; nothing that needs only the cache, or another prefix, waits for it. `path`: which prefix.
  template <typename Work, typename Then>
  void OnPrefix(const std::string& path, Work work, Then then) const {
    RunBlocking(env.pools.prefix, path, env.loop, std::move(work), std::move(then));
  }
  // For captures and restores on a prefix.
  Waiting FarAt(const std::string& path) const {
    return [&far = env.pools.far, path](PoolJob job) {
      // A lane takes what can be copied.
      far.Post(path, [shared = std::make_shared<PoolJob>(std::move(job))] { (*shared)(); });
    };
  }
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CONTEXT_H_
