// Names another arbiter for a run (storage/place/arbiter), when nobody works under it. Calls block, and sleep
// (storage/base/clock.h).
#ifndef CAIRN_STORAGE_JOB_RUN_ARBITER_RUN_ARBITER_H_
#define CAIRN_STORAGE_JOB_RUN_ARBITER_RUN_ARBITER_H_

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "storage/io/disk.h"
#include "storage/job/launch/launch_wait.h"
#include "storage/place/arbiter/arbiter_record.h"

namespace cairn {

struct ArbiterChange {
  const Arbiters* from = nullptr;  // of the kind that decides now, to ask it who works there; null: it is gone for good
  const Arbiters& to;
  LaunchWait wait = {};
  std::function<void(const std::string&)> note;  // as WaitUntilOver's; required
};

// The arbiter of the run at `prefix` is `to` from now on. A daemon that has the run open goes on by the old one until
// it opens it again; what it makes then is fenced by the next launch (launches.h), whichever arbiter decides on that.
// Asking nobody (`from` null) rests on that alone: who works there now is fenced, and is not warned.
//   kNotFound            no run of Cairn's there
//   kFailedPrecondition  BUSY: as WaitUntilOver; or it is not of `from`'s kind
//   kAborted             another has changed it meanwhile
absl::StatusOr<ArbiterRecord> ChangeArbiter(Disk& disk, const std::string& prefix, const ArbiterChange& change);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_RUN_ARBITER_RUN_ARBITER_H_
