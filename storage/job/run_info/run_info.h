// What a prefix says of its run: identity, newest launch, who works there, ids. Only looks. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_RUN_INFO_RUN_INFO_H_
#define CAIRN_STORAGE_JOB_RUN_INFO_RUN_INFO_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter_record.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct RunInfo {
  RunIdentity identity;
  std::int64_t since_us = 0;  // it has been this run; 0: not known (a copy that nobody has opened, or release 0.1.0)
  std::optional<ArbiterRecord> arbiter;  // none: nobody has made a record, so it is the prefix
  std::optional<LaunchRecord> newest;
  std::optional<LeaseSeen> lease;       // of that launch; none, too, if the arbiter keeps it elsewhere
  std::optional<DatasetId> id_highest;  // of those reserved
  std::vector<std::string> damaged;     // what could not be read, and why
};

//   kNotFound  no run of Cairn's there
absl::StatusOr<RunInfo> ReadRunInfo(Disk& disk, const std::string& prefix);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_RUN_INFO_RUN_INFO_H_
