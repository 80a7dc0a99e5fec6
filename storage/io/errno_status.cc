#include "storage/io/errno_status.h"

#include <cerrno>
#include <system_error>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return absl::StatusCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EMLINK:
    case EFBIG:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
    case EISDIR:
    case EXDEV:
    case EOPNOTSUPP:
      return absl::StatusCode::kInvalidArgument;
    case EIO:
    case ESTALE:
    case EROFS:
    case ETIMEDOUT:
    case ENODEV:
    case ENXIO:
    case EREMOTEIO:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case EHOSTDOWN:
    case EHOSTUNREACH:
    case ENETDOWN:
    case ENETUNREACH:
    case ESHUTDOWN:
    case EBADFD:  // GlusterFS, of a file or folder that was opened before its bricks were gone
    case ENOLCK:
    case EBUSY:
    case EAGAIN:
    case EINTR:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view what) {
  CAIRN_CHECK(error > 0);
  return MakeError(CodeOf(error), "{}: {}", what, std::generic_category().message(error));
}

}  // namespace cairn
