#include "client/cli/exit_code.h"

#include "proto/local.pb.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

absl::StatusCode NearestCode(local::Code code) {
  switch (code) {
    case local::OK:
      return absl::StatusCode::kOk;
    case local::NOT_FOUND:
      return absl::StatusCode::kNotFound;
    case local::INVALID_ARGUMENT:
      return absl::StatusCode::kInvalidArgument;
    case local::FAILED_PRECONDITION:
    case local::BUSY:
    case local::DIRTY:
      return absl::StatusCode::kFailedPrecondition;
    case local::FAILED:
    case local::SUPERSEDED:
    case local::RETRY:
    case local::FENCED:
      return absl::StatusCode::kAborted;
    case local::RESOURCE_EXHAUSTED:
      return absl::StatusCode::kResourceExhausted;
    case local::DEADLINE_EXCEEDED:
      return absl::StatusCode::kDeadlineExceeded;
    case local::UNAVAILABLE:
      return absl::StatusCode::kUnavailable;
    case local::DATA_LOSS:
      return absl::StatusCode::kDataLoss;
    case local::PERMISSION_DENIED:
      return absl::StatusCode::kPermissionDenied;
    case local::UNSUPPORTED:
      return absl::StatusCode::kUnimplemented;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

ExitCode CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kUnavailable:
      return ExitCode::kNoDaemon;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNotFound;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kDamaged;
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kTimeout;
    default:
      return ExitCode::kFailed;
  }
}

absl::Status ToStatus(const local::Status& status) {
  return MakeError(NearestCode(status.code()), "{}", status.message());
}

ExitCode CodeOf(const local::Status& status) {
  return CodeOf(ToStatus(status));
}

ExitCode Worse(ExitCode a, ExitCode b) {
  if (a == ExitCode::kDamaged || b == ExitCode::kDamaged) return ExitCode::kDamaged;
  return a == ExitCode::kOk ? b : a;
}

}  // namespace cairn::cli
