#include "client/cli/admin_client.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include "proto/admin.grpc.pb.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"

namespace cairn::cli {
namespace {

constexpr auto kCallTime = std::chrono::seconds(30);
constexpr auto kRebuildTime = std::chrono::hours(24);
constexpr int kMessageBytesMax = 256 << 20;  // `ls` of many runs, `show` of many ranks
constexpr std::string_view kSocketName = "/cairnd-grpc.sock";

// Anybody can make a folder of that name in /tmp: only the user's own, closed to all others, is believed.
bool IsPrivateFolder(const std::string& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 07777) == 0700;
}

// As libcairn asks it (client/library/unix_transport.c): anybody may listen at a path that others look at.
absl::Status CheckServer(int fd) {
  ucred server{};
  socklen_t bytes = sizeof(server);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &bytes) != 0) {
    return Unavailable("SO_PEERCRED: {}", std::strerror(errno));
  }
  if (server.uid == 0 || server.uid == geteuid()) return absl::OkStatus();
  return PermissionDenied("user {} listens there, neither root nor this user, {}", server.uid, geteuid());
}

// OK: somebody listens there whom we believe.
absl::Status Probe(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return InvalidArgument("too long for a socket");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Unavailable("{}", std::strerror(errno));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return Unavailable("{}", std::strerror(errno));
  }
  return CheckServer(fd.get());
}

absl::Status FromGrpc(const grpc::Status& status) {
  // Nobody here cancels: it was the daemon, on its way out.
  if (status.error_code() == grpc::StatusCode::CANCELLED) return Unavailable("the daemon ended during the call");
  // The numbers are the same by definition (absl/status/status.h).
  return MakeError(static_cast<absl::StatusCode>(status.error_code()), "{}", status.error_message());
}

class AdminClientImpl final : public AdminClient {
 public:
  AdminClientImpl(std::string socket, const std::shared_ptr<grpc::Channel>& channel)
      : socket_(std::move(socket)), stub_(admin::Admin::NewStub(channel)) {}

  const std::string& socket() const override { return socket_; }

  absl::StatusOr<admin::StatusReply> Status(const admin::StatusRequest& request) override {
    return Ask<admin::StatusReply>(&admin::Admin::Stub::Status, request);
  }
  absl::StatusOr<admin::ListReply> List(const admin::ListRequest& request) override {
    return Ask<admin::ListReply>(&admin::Admin::Stub::List, request);
  }
  absl::StatusOr<admin::ShowReply> Show(const admin::DatasetRequest& request) override {
    return Ask<admin::ShowReply>(&admin::Admin::Stub::Show, request);
  }
  absl::StatusOr<admin::WaitReply> Wait(const admin::WaitRequest& request) override {
    return Ask<admin::WaitReply>(&admin::Admin::Stub::Wait, request, std::chrono::milliseconds(request.timeout_ms()));
  }
  absl::StatusOr<admin::FlushReply> Flush(const admin::FlushRequest& request) override {
    return Ask<admin::FlushReply>(&admin::Admin::Stub::Flush, request);
  }
  absl::StatusOr<admin::PinReply> Pin(const admin::PinRequest& request) override {
    return Ask<admin::PinReply>(&admin::Admin::Stub::Pin, request);
  }
  absl::StatusOr<admin::RemoveReply> Remove(const admin::RemoveRequest& request) override {
    return Ask<admin::RemoveReply>(&admin::Admin::Stub::Remove, request);
  }
  absl::StatusOr<admin::RebuildReply> Rebuild(const admin::RebuildRequest& request) override {
    return Ask<admin::RebuildReply>(&admin::Admin::Stub::Rebuild, request, kRebuildTime);
  }
  absl::StatusOr<admin::LeaveReply> Leave(const admin::LeaveRequest& request) override {
    return Ask<admin::LeaveReply>(&admin::Admin::Stub::Leave, request, std::chrono::milliseconds(request.timeout_ms()));
  }
  absl::StatusOr<admin::NodesReply> Nodes(const admin::NodesRequest& request) override {
    return Ask<admin::NodesReply>(&admin::Admin::Stub::Nodes, request);
  }

 private:
  template <typename Reply, typename Request>
  using Method = grpc::Status (admin::Admin::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  template <typename Reply, typename Request>
  absl::StatusOr<Reply> Ask(Method<Reply, Request> method, const Request& request,
                            std::chrono::milliseconds more = {}) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kCallTime + more);
    Reply reply;
    const grpc::Status status = (*stub_.*method)(&context, request, &reply);
    if (status.ok()) return reply;
    return Annotate(FromGrpc(status), "the daemon at " + socket_);
  }

  const std::string socket_;
  const std::unique_ptr<admin::Admin::Stub> stub_;
};

}  // namespace

absl::StatusOr<admin::StatusReply> AdminClient::StatusOfThisNode() {
  admin::StatusRequest request;
  request.set_this_node_only(true);
  return Status(request);
}

absl::StatusOr<std::vector<std::string>> AdminSockets(const std::string& address, const Variable& variable) {
  std::string given = address;
  if (const char* value = variable("CAIRN_ADMIN_ADDRESS"); given.empty() && value != nullptr) given = value;
  // A daemon's two sockets lie side by side: who told the application where it is has told the command, too.
  constexpr std::string_view kApplications = "unix:", kApplicationSocket = "/cairnd.sock";
  if (const char* value = variable("CAIRN_ADDRESS"); given.empty() && value != nullptr) {
    const std::string_view address = value;
    if (address.starts_with("grpc+unix:")) given = address;
    if (address.starts_with(kApplications) && address.ends_with(kApplicationSocket)) {
      given = address.substr(kApplications.size(), address.size() - kApplications.size() - kApplicationSocket.size());
      given += kSocketName;
    }
  }
  if (!given.empty()) {
    constexpr std::string_view kKind = "grpc+unix:";
    const std::string path = given.starts_with(kKind) ? given.substr(kKind.size()) : given;
    if (!path.starts_with('/')) {
      return InvalidArgument("'{}' is no address of a daemon: grpc+unix:PATH, or an absolute path", given);
    }
    return std::vector<std::string>{path};
  }
  std::vector<std::string> sockets;
  if (const char* runtime = variable("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0') {
    sockets.push_back(fmt::format("{}/cairn{}", runtime, kSocketName));
  }
  const std::string folder = fmt::format("/tmp/cairn-{}", geteuid());
  if (IsPrivateFolder(folder)) sockets.push_back(fmt::format("{}{}", folder, kSocketName));
  // The user's own daemon, wherever it is, comes before the one of all users.
  sockets.push_back(fmt::format("/run/cairn{}", kSocketName));
  return sockets;
}

absl::StatusOr<std::unique_ptr<AdminClient>> AdminClient::Connect(const std::vector<std::string>& sockets) {
  std::string tried;
  for (const std::string& path : sockets) {
    if (const absl::Status status = Probe(path); !status.ok()) {
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", path, MessageOf(status));
      continue;
    }
    // Errors come as statuses; and gRPC stays until the process ends: taking it down can take ten seconds.
    grpc_init();
    gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    return std::make_unique<AdminClientImpl>(
        path, grpc::CreateCustomChannel("unix:" + path, grpc::InsecureChannelCredentials(), arguments));
  }
  return Unavailable("no daemon answers: tried {}; start one with `cairnd --background`", tried);
}

}  // namespace cairn::cli
