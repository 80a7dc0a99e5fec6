// Status helpers: macros, and makers of errors that format with fmt (absl's own reject std::string_view).
#ifndef CAIRN_STORAGE_BASE_STATUS_H_
#define CAIRN_STORAGE_BASE_STATUS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace cairn {

#define CAIRN_STATUS_CONCAT_INNER_(a, b) a##b
#define CAIRN_STATUS_CONCAT_(a, b) CAIRN_STATUS_CONCAT_INNER_(a, b)

// Returns from the function if `expr`, a Status, is an error.
#define CAIRN_RETURN_IF_ERROR(expr)                              \
  do {                                                           \
    if (::absl::Status cairn_status_ = (expr); !cairn_status_.ok()) return cairn_status_; \
  } while (false)

// `CAIRN_ASSIGN_OR_RETURN(auto file, disk.Open(path))`: the value, or return the error.
#define CAIRN_ASSIGN_OR_RETURN(lhs, expr) CAIRN_ASSIGN_OR_RETURN_(CAIRN_STATUS_CONCAT_(cairn_or_, __LINE__), lhs, expr)
#define CAIRN_ASSIGN_OR_RETURN_(tmp, lhs, expr)   \
  auto tmp = (expr);                              \
  if (!tmp.ok()) return std::move(tmp).status();  \
  lhs = *std::move(tmp)

template <typename... Args>
absl::Status MakeError(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  return absl::Status(code, text);
}

#define CAIRN_ERROR_MAKER_(Name, Code)                                                   \
  template <typename... Args>                                                            \
  absl::Status Name(fmt::format_string<Args...> format, Args&&... args) {                \
    return MakeError(absl::StatusCode::Code, format, std::forward<Args>(args)...);       \
  }

CAIRN_ERROR_MAKER_(NotFound, kNotFound)                      // try the next tier
CAIRN_ERROR_MAKER_(DataLoss, kDataLoss)                      // damaged: rebuild
CAIRN_ERROR_MAKER_(Unavailable, kUnavailable)                // retry later
CAIRN_ERROR_MAKER_(ResourceExhausted, kResourceExhausted)    // full
CAIRN_ERROR_MAKER_(FailedPrecondition, kFailedPrecondition)  // wrong order or version
CAIRN_ERROR_MAKER_(InvalidArgument, kInvalidArgument)        // fix the request
CAIRN_ERROR_MAKER_(AlreadyExists, kAlreadyExists)
CAIRN_ERROR_MAKER_(PermissionDenied, kPermissionDenied)
CAIRN_ERROR_MAKER_(DeadlineExceeded, kDeadlineExceeded)
CAIRN_ERROR_MAKER_(Aborted, kAborted)
CAIRN_ERROR_MAKER_(Cancelled, kCancelled)
CAIRN_ERROR_MAKER_(Unimplemented, kUnimplemented)
CAIRN_ERROR_MAKER_(Internal, kInternal)                      // our bug

// The message as a std::string_view (absl has a type of its own).
inline std::string_view MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

// The same code with "<context>: " in front of the message; OK stays OK.
inline absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  return MakeError(status.code(), "{}: {}", context, MessageOf(status));
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_STATUS_H_
