#include "client/cli/file_argument.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/cli/context.h"
#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

absl::StatusCode StatusCodeOf(const std::error_code& error) {
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    return absl::StatusCode::kNotFound;
  }
  return error == std::errc::permission_denied ? absl::StatusCode::kPermissionDenied : absl::StatusCode::kInternal;
}

}  // namespace

absl::StatusOr<std::string> ResolveFile(const std::string& given) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error) return MakeError(StatusCodeOf(error), "{}: {}", given, error.message());
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (error) return MakeError(StatusCodeOf(error), "{}: {}", given, error.message());
  if (std::filesystem::is_directory(status)) return InvalidArgument("{} is a directory, not a file", given);
  if (!std::filesystem::is_regular_file(status)) {
    return InvalidArgument(
        "{} is not a regular file: a pipe or a device cannot be read at any offset, as this "
        "command needs",
        given);
  }
  return path.string();
}

ExitCode FileCodeOf(const absl::Status& status) {
  return absl::IsUnavailable(status) ? ExitCode::kFailed : CodeOf(status);
}

ExitCode ComplainOfFile(const absl::Status& status) {
  Complain(status);
  return FileCodeOf(status);
}

void Note(std::string_view text) {
  std::fprintf(stderr, "cairn: note: %s\n", Clean(text).c_str());
}

}  // namespace cairn::cli
