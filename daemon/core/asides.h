// What lies aside in one run's cache folder (storage/place/cache/aside.h): what was found damaged is kept for
// cache.keep_damaged, so that someone can look at it, or until its room is needed. What is whole, because its number is
// another dataset's now, is counted and stays. Strand only.
#ifndef CAIRN_DAEMON_CORE_ASIDES_H_
#define CAIRN_DAEMON_CORE_ASIDES_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/ledger.h"
#include "daemon/core/loop.h"
#include "storage/place/cache/aside.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class Asides {
 public:
  Asides(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache, const Ledger& ledger,
         DatasetFolders& folders);
  Asides(const Asides&) = delete;

  // What the start has found, or a look later.
  void Are(std::vector<Aside> asides);
  // Something was set aside, or may have gone: the folder is looked at in the background.
  void Look();

  const std::vector<Aside>& all() const { return all_; }  // oldest first
  // Of all of them, but for what the ledger still counts: a dataset that was found damaged while it is being restored.
  std::uint64_t bytes() const;
  // When the next one goes by its age, since the epoch; 0: none does.
  std::int64_t goes_us() const;

  // Damaged ones that may go now, oldest first.
  std::vector<Aside> Removable() const;
  // It is no longer counted; its bytes go in the background, then `then` hears how that went. One that could not be
  // removed is tried again, not at once.
  void Remove(const Aside& aside, const std::string& why, std::function<void(const absl::Status&)> then = {});
  // Because somebody has asked for it: what was set aside as damaged, or all, but for what is in use. `then`, which may
  // run within the call, hears how much is gone, or the first error.
  struct RemovedByHand {
    std::uint64_t count = 0, bytes = 0;
    std::uint64_t in_use = 0;
  };
  void RemoveByHand(bool whole_ones_too, std::function<void(const absl::StatusOr<RemovedByHand>&)> then);
  // Removes what has lain here for longer than cache.keep_damaged.
  void ApplyPolicy();
  void Stop();

 private:
  bool IsStillRead(const Aside& aside) const;
  bool MayGo(const Aside& aside) const;
  void Found(const absl::StatusOr<std::vector<Aside>>& found, std::uint64_t removals);
  void Removed(const Aside& aside, const absl::Status& status);

  const Context& context_;
  const std::string run_name_;
  const std::shared_ptr<CacheFolder> cache_;
  const Ledger& ledger_;
  DatasetFolders& folders_;
  std::vector<Aside> all_;
  std::vector<std::string> going_;  // names of those that are being removed
  std::uint64_t removals_ = 0;      // begun so far: a look that one comes into has seen it by half
  bool looking_ = false, stale_ = false, warned_ = false, warned_of_removal_ = false;
  bool in_vain_ = false;  // the last removal was: nothing is removed for a while
  SteadyTime tried_in_vain_{};
  Loop::TimerId timer_ = 0;  // 0: none
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_ASIDES_H_
