#include "daemon/trust/refusal.h"

#include "storage/base/status.h"

namespace cairn {
namespace {

static_assert(static_cast<std::size_t>(Flaw::kUnspecific) + 1 == kFlaws);

absl::StatusCode CodeOf(Flaw flaw) {
  switch (flaw) {
    case Flaw::kUnknownRun:
    case Flaw::kBroken:
    case Flaw::kCrowded:
      return absl::StatusCode::kUnavailable;
    case Flaw::kTooSlow:
      return absl::StatusCode::kDeadlineExceeded;
    default:
      return absl::StatusCode::kPermissionDenied;
  }
}

}  // namespace

absl::Status ToStatus(const Refusal& refusal) {
  return MakeError(CodeOf(refusal.flaw), "{}", refusal.text);
}

}  // namespace cairn
