// Restores of the application's own files: it reads them itself, in the cache, so a restore sees to it that they are
// whole there. First every rank's files are verified where they are; if some are not whole in the cache, all come from
// the prefix. Files that the cache cannot hold, or in whose place it has a copy of SCR's own, are verified, and then
// read, on the prefix; so are those that ranks on several nodes want (FilesAreReadOnPrefix), once they are there.
// Strand only.
#ifndef CAIRN_DAEMON_CORE_RESTORE_FILES_H_
#define CAIRN_DAEMON_CORE_RESTORE_FILES_H_

#include <absl/status/status.h>

#include <functional>
#include <utility>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/restore_copies.h"
#include "daemon/core/restore_group.h"
#include "daemon/core/run_cache.h"
#include "daemon/core/waits.h"
#include "storage/base/ids.h"

namespace cairn {

class RestoreFiles {
 public:
  struct Given {  // all borrowed
    const Ledger& ledger;
    Waits& waits;
    const PrefixGate& gate;
    RunCache& cache;
    RestoreCopies& copies;
    std::function<void(DatasetId)> flush;  // it is wanted on the prefix, also if it was left out
  };
  // OK: all files are whole where they are to be read. kResourceExhausted: there is no room for them in the cache;
  // kUnavailable: they could not be read on the prefix just now, all ranks' may be checked again; kDataLoss: no copy of
  // some rank's files is whole. Once for a group, or a round of checks, unless the group has ended meanwhile.
  using OnEnd = std::function<void(const RestoreGroupPtr& group, const absl::Status& status)>;
  RestoreFiles(const Context& context, const Given& given, OnEnd on_end)
      : context_(context), given_(given), on_end_(std::move(on_end)) {}
  RestoreFiles(const RestoreFiles&) = delete;

  // One rank's files; the last rank's answer decides for all.
  void Check(const RestoreGroupPtr& group, const RestorePartPtr& part);

 private:
  void Checked(const RestoreGroupPtr& group, const RestorePartPtr& part, const absl::Status& status);
  // `from`: the prefix, or the folder that is redundant itself.
  void Fetch(const RestoreGroupPtr& group, Tier from);
  void Fetched(const RestoreGroupPtr& group, Tier from, const FetchResult& refetched);
  void ReadOnPrefix(const RestoreGroupPtr& group, Tier from);
  void AwaitPrefix(const RestoreGroupPtr& group);
  void VerifyOnPrefix(const RestoreGroupPtr& group);
  bool AreReadOnPrefix(const RestoreGroup& group) const;
  void FlushAnew(const RestoreGroupPtr& group);

  const Context& context_;
  const Given given_;
  const OnEnd on_end_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RESTORE_FILES_H_
