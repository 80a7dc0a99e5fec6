#include "daemon/door/grpc_life.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

namespace cairn {
namespace {

// What gRPC itself has to say, for example of handshakes that failed, belongs into the daemon's log.
void LogForGrpc(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  spdlog::log(error ? spdlog::level::warn : spdlog::level::debug, "gRPC: {}", args->message);
}

bool Keep() {
  gpr_set_log_function(LogForGrpc);
  // Held for good: when its last user goes, gRPC waits for a poller that may sleep for ten seconds.
  grpc_init();
  return true;
}

}  // namespace

void KeepGrpc() {
  [[maybe_unused]] static const bool kept = Keep();
}

}  // namespace cairn
