// Tells a run when to stop: changes the conditions in its prefix's halt file, which SCR's programs read, too. Calls
// block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_JOB_HALT_HALT_H_
#define CAIRN_STORAGE_JOB_HALT_HALT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "storage/format/scr/halt.h"
#include "storage/io/disk.h"

namespace cairn {

struct HaltChange {
  // To be written; absent: stays as it is.
  std::optional<std::string> reason;
  std::optional<std::uint64_t> checkpoints, seconds;
  std::optional<std::int64_t> before_s, after_s;  // since the epoch
  bool unset_reason = false, unset_checkpoints = false, unset_seconds = false;
  bool unset_before = false, unset_after = false;
  bool remove = false;  // the whole file, whatever else is asked for

  bool changes() const {
    return reason || checkpoints || seconds || before_s || after_s || unset_reason || unset_checkpoints ||
           unset_seconds || unset_before || unset_after || remove;
  }
};

// kInvalidArgument: empty, longer than SCR reads, with control characters, or one that stops nothing.
absl::Status CheckHaltReason(const std::string& reason);

// Changes what is to be changed, and answers what holds then. Errors of halt_file.h: kNotFound no such prefix,
// kUnavailable the file stayed locked, kDataLoss it is damaged (a change writes it anew).
absl::StatusOr<scr::Halt> ApplyHaltChange(Disk& disk, const std::string& prefix, const HaltChange& change);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_HALT_HALT_H_
