#include "storage/job/halt/halt.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "storage/base/status.h"
#include "storage/format/scr/records.h"
#include "storage/place/prefix/halt_file.h"

namespace cairn {
namespace {

// A run holds the lock for as long as it takes to write a small file.
constexpr std::chrono::seconds kLockPatience{5};
constexpr std::size_t kReasonBytesMax = 1023;  // SCR specification, section 1.4

void Change(const HaltChange& change, scr::Halt& halt) {
  if (change.unset_reason) halt.reason.clear();
  if (change.unset_checkpoints) halt.checkpoints_left.reset();
  if (change.unset_seconds) halt.halt_seconds.reset();
  if (change.unset_before) halt.exit_before_s.reset();
  if (change.unset_after) halt.exit_after_s.reset();
  if (change.reason) halt.reason = *change.reason;
  if (change.checkpoints) halt.checkpoints_left = change.checkpoints;
  if (change.seconds) halt.halt_seconds = change.seconds;
  if (change.before_s) halt.exit_before_s = change.before_s;
  if (change.after_s) halt.exit_after_s = change.after_s;
}

bool IsControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

}  // namespace

absl::Status CheckHaltReason(const std::string& reason) {
  if (reason.empty()) return InvalidArgument("an empty reason stops nothing: see --unset-reason");
  if (reason == scr::kFinalizeCalled) {
    return InvalidArgument("{} is what every clean end writes: it stops nothing", reason);
  }
  if (reason.size() > kReasonBytesMax) {
    return InvalidArgument("{} bytes are too many: SCR reads {}", reason.size(), kReasonBytesMax);
  }
  if (std::ranges::any_of(reason, IsControl)) return InvalidArgument("control characters in the reason");
  return absl::OkStatus();
}

absl::StatusOr<scr::Halt> ApplyHaltChange(Disk& disk, const std::string& prefix, const HaltChange& change) {
  if (change.remove) {
    CAIRN_RETURN_IF_ERROR(RemoveHalt(disk, prefix, kLockPatience));
  } else if (change.changes()) {
    CAIRN_RETURN_IF_ERROR(ChangeHalt(
        disk, prefix, [&change](scr::Halt& halt) { Change(change, halt); }, kLockPatience));
  }
  return ReadHalt(disk, prefix);
}

}  // namespace cairn
