// What an opening finds out before anything is decided: which run its prefix is, its newest launch and who works under
// that, and, of a run that this daemon does not know yet, what prefix and cache hold. For a pool: blocks. Changes
// nothing but that it makes the run, or the branch that a copied directory becomes, and the run's folder in the cache.
#ifndef CAIRN_DAEMON_CORE_PREPARATION_H_
#define CAIRN_DAEMON_CORE_PREPARATION_H_

#include <absl/status/status.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/inventory.h"
#include "daemon/core/launch_keeper.h"
#include "daemon/core/provisional.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct Prepared {
  absl::Status status;
  std::string path;  // resolved
  std::shared_ptr<Prefix> prefix;
  bool read_only = false;
  std::optional<LaunchRecord> newest;
  bool newest_damaged = false;             // there is one, of which nothing can be read
  std::vector<ConfirmedLaunch> confirmed;  // that had begun without the prefix
  std::optional<LeaseSeen> lease;          // of the newest, if it is another cache's
  std::vector<std::string> warnings;
  std::shared_ptr<PrefixLook> look;     // if what the prefix holds was not known yet
  std::shared_ptr<CacheFolder> folder;  // if the run was not known yet

  // The launch that a new one comes after; none: it goes past whatever there is.
  std::optional<LaunchId> after() const {
    if (newest_damaged) return std::nullopt;
    return newest ? newest->id : 0;
  }
};
using PreparedPtr = std::shared_ptr<Prepared>;

class Preparation {
 public:
  // What the daemon knows already, taken on the strand.
  struct Known {
    std::map<RunId, std::string> paths;  // of all runs: where they were last seen
    std::set<RunId> looked_at;           // of which it is known what the prefix holds
    std::map<RunId, LaunchKeeper::Confirm> confirm;
    std::map<RunId, std::vector<CachedOrigin>> cached;  // whose datasets are in the cache
    std::map<RunId, std::shared_ptr<CacheFolder>> folders;
  };
  Preparation(const Context& context, std::string path, bool observer, Known known);
  PreparedPtr operator()() const;

 private:
  absl::Status Reach(Prepared& prepared) const;
  absl::Status ReachToRead(Prepared& prepared) const;
  absl::Status FindLaunch(Prepared& prepared) const;
  absl::Status CheckNotElsewhere(const Prepared& prepared) const;
  absl::Status Look(Prepared& prepared) const;
  std::optional<std::string> PathOf(const RunId& run) const;
  PrefixOptions OptionsOfPrefix() const;

  const Context& context_;  // of it only what never changes
  const std::string cache_, path_;
  const bool observer_;
  const Known known_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_PREPARATION_H_
