// Who waits for something of a run to become so, and the order in which a change of the run is told. Strand only.
#ifndef CAIRN_DAEMON_CORE_WAITS_H_
#define CAIRN_DAEMON_CORE_WAITS_H_

#include <cstddef>
#include <functional>
#include <list>

namespace cairn {

class Waits {
 public:
  // True: answered, or nobody waits for the answer any more.
  using Watcher = std::function<bool()>;

  // `before` and `after` run with every change, before and after the watchers are asked.
  Waits(std::function<void()> before, std::function<void()> after)
      : before_(std::move(before)), after_(std::move(after)) {}

  // Asks at once, and after every change until it is true.
  void Wait(Watcher watcher);
  // Something of the run has changed.
  void Changed();
  // Only asks the watchers: what has changed does not concern the policy.
  void Ask();
  // Nobody is answered any more.
  void Clear() { watchers_.clear(); }

 private:
  std::function<void()> before_, after_;
  std::list<Watcher> watchers_;
  std::size_t sweep_at_ = 64;  // so many are looked through before one more is taken
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_WAITS_H_
