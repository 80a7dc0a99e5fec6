#include "daemon/core/waits.h"

#include <iterator>
#include <utility>

namespace cairn {

void Waits::Wait(Watcher watcher) {
  if (watcher()) return;
  // Sweep watchers of expired calls, so that repeated requests cannot grow the list.
  if (watchers_.size() >= sweep_at_) {
    Ask();
    sweep_at_ = 2 * watchers_.size() + 64;
  }
  watchers_.push_back(std::move(watcher));
}

void Waits::Ask() {
  // A watcher may cause a further change; what it adds meanwhile is asked by that change's own round.
  std::list<Watcher> watchers;
  watchers.swap(watchers_);
  for (auto at = watchers.begin(); at != watchers.end();) at = (*at)() ? watchers.erase(at) : std::next(at);
  watchers_.splice(watchers_.begin(), watchers);
}

void Waits::Changed() {
  before_();
  Ask();
  after_();
}

}  // namespace cairn
