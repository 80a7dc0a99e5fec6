#include "client/cli/context.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "client/cli/text.h"
#include "storage/base/status.h"

namespace cairn::cli {

absl::StatusOr<std::unique_ptr<AdminClient>> Context::Daemon() const {
  CAIRN_ASSIGN_OR_RETURN(const auto sockets, AdminSockets(address, [](const char* name) { return std::getenv(name); }));
  return AdminClient::Connect(sockets);
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

ExitCode Complain(const absl::Status& status) {
  std::fprintf(stderr, "cairn: %s\n", Clean(MessageOf(status)).c_str());
  return CodeOf(status);
}

RunArgument ParseRun(const std::string& given) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(given, error);
  if (error || !std::filesystem::is_directory(path, error)) return {.text = given};
  return {.text = path.string(), .is_directory = true};
}

}  // namespace cairn::cli
