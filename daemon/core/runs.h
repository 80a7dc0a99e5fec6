// The runs that this daemon knows: from the cache's folders at its start, from a prefix when it is first opened. A run
// that is known stays so until the core ends. Strand only, but for LoadCached.
#ifndef CAIRN_DAEMON_CORE_RUNS_H_
#define CAIRN_DAEMON_CORE_RUNS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/cache_room.h"
#include "daemon/core/context.h"
#include "daemon/core/inventory.h"
#include "daemon/core/preparation.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class Run;
class Salvage;

// What the cache holds of all runs.
struct CachedRuns {
  struct One {
    RunIdentity run;
    std::string prefix;  // as last opened on this node
    std::shared_ptr<CacheFolder> folder;
    CacheContents contents;
  };
  std::vector<One> runs;
  std::shared_ptr<Salvage> salvage;   // what is left of runs whose folders could not be looked at
  std::vector<std::string> warnings;  // one run's folder that cannot be read is no reason to leave the others alone
  std::uint64_t free_bytes = 0;       // of the cache's file system
};

class Runs {
 public:
  using Make = std::function<std::unique_ptr<Run>(const RunId& run, const std::string& prefix_path,
                                                  std::shared_ptr<CacheFolder> folder)>;
  // `make`: the run's cache belongs to `room`.
  Runs(const Context& context, CacheRoom& room, Make make);
  ~Runs();
  Runs(const Runs&) = delete;

  // --- At the start, before anything else ---
  // Blocks; any thread. Errors are the disk's, for the cache as a whole.
  absl::StatusOr<CachedRuns> LoadCached() const;
  // Sets the room's limit, and applies each run's policy. Once.
  void Enter(CachedRuns cached);

  // --- Which are there ---
  const std::map<RunId, std::unique_ptr<Run>>& all() const { return runs_; }
  Run* Find(const RunId& run) const;  // null: it is not known
  bool AnyAt(const std::string& prefix_path) const;
  // By a path of a prefix, an identity or a beginning of it (at least 4 digits), or the run's name. kNotFound;
  // kInvalidArgument: several are meant.
  absl::StatusOr<Run*> FindNamed(const std::string& name) const;
  // What an opening need not find out anew.
  Preparation::Known Known() const;
  // What the folder of a run that is not known yet holds, for Add, with what the last daemon had only captured of it: a
  // start that could not look at the folder has left that. Errors as Salvage::Into and CacheFolder::Load: nothing is
  // lost. To be called where it may wait for the disk; a run's folder by one at a time.
  struct Loaded {
    absl::Status status;
    CacheContents contents;
    std::vector<std::string> warnings;  // also with an error
  };
  std::function<Loaded()> Loading(std::shared_ptr<CacheFolder> folder) const;
  // Is anything left that the last daemon had only captured?
  bool AnyLeft() const;
  // REQUIRES: it is not known yet. What its folder holds is the ledger's then.
  Run& Add(const RunId& run, const std::string& prefix_path, std::shared_ptr<CacheFolder> folder,
           CacheContents contents);
  // This run lives at the prefix now: others that did are history.
  void LivesAt(const std::string& prefix_path, const RunId& now);

 private:
  void TellApart(const std::string& prefix_path);
  void DropOldLater();

  const Context& context_;
  CacheRoom& room_;
  const Make make_;
  std::map<RunId, std::unique_ptr<Run>> runs_;
  std::shared_ptr<Salvage> salvage_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RUNS_H_
