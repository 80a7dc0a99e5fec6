#include "daemon/door/grpc_life.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace cairn {
namespace {

// What gRPC itself has to say, for example of handshakes that failed, belongs into the daemon's log.
void LogForGrpc(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  spdlog::log(error ? spdlog::level::warn : spdlog::level::debug, "gRPC: {}", args->message);
}

// A channel that leads nowhere: a call on it fails at once.
struct Nowhere {
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel("", std::shared_ptr<grpc::ChannelCredentials>(), grpc::ChannelArguments());
  grpc::GenericStub stub{channel};
  grpc::ClientContext context;
  const grpc::Slice nothing;
  const grpc::ByteBuffer request{&nothing, 1};
  grpc::ByteBuffer response;
};

bool Keep() {
  gpr_set_log_function(LogForGrpc);
  // Held for good: when its last user goes, gRPC waits for a poller that may sleep for ten seconds.
  grpc_init();
  // The threads that run gRPC's callbacks live as long as some server or channel uses them, and the end of the last one
  // joins them. If that comes on one of them, with the channel of a link that ends, it joins itself and then goes on
  // with what it has freed. So one user stays for good.
  static auto* const nowhere = new Nowhere;
  nowhere->stub.UnaryCall(&nowhere->context, "/nowhere", {}, &nowhere->request, &nowhere->response,
                          [](const grpc::Status&) {});
  return true;
}

}  // namespace

void KeepGrpc() {
  [[maybe_unused]] static const bool kept = Keep();
}

}  // namespace cairn
