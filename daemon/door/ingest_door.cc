#include "daemon/door/ingest_door.h"

#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "daemon/config/ingest_address.h"
#include "daemon/config/tcp_trust.h"
#include "daemon/door/admin_service.h"
#include "daemon/door/grpc_life.h"
#include "daemon/door/ingest_stream.h"
#include "daemon/door/socket_path.h"
#include "daemon/door/tcp_acceptor.h"
#include "daemon/trust/ingest_keys.h"
#include "proto/announcement.h"
#include "proto/frame.h"
#include "proto/ingest.grpc.pb.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr auto kShutdownTime = std::chrono::seconds(2);
// A peer that answers no ping for so long is gone: its session then waits for a resume.
constexpr int kPingEveryMs = 30'000;
constexpr int kPingAnswerMs = 20'000;
// Clients ping, too; gRPC would take more than one in five minutes for an attack.
constexpr int kPingFromClientMsMin = 10'000;
// From the first byte until both certificates are known: strangers hold descriptors no longer.
constexpr int kHandshakeMsMax = 10'000;

// gRPC 1.51 cannot be told a minimum of TLS 1.3. It sets the cipher suites of TLS 1.2 from this variable, though, and
// leaves those of TLS 1.3 alone: with a suite that needs a pre-shared key, which nobody has, no handshake of TLS 1.2
// finds a suite. gRPC reads it once, at its first credentials; setting it is safe only while there are no threads:
// hence before main.
const bool tls13_only = [] { return setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", 1) == 0; }();

class IngestService final : public ingest::Ingest::CallbackService {
 public:
  IngestService(std::shared_ptr<IngestStreams> streams, Receiver& receiver)
      : streams_(std::move(streams)), receiver_(receiver) {}

  grpc::ServerBidiReactor<local::Request, local::Reply>* Connect(grpc::CallbackServerContext* context) override {
    if (!streams_->accepting) return new Refusal(grpc::StatusCode::UNAVAILABLE, "the daemon is going away");
    if (Count() >= streams_->options.connections_max) {
      return new Refusal(grpc::StatusCode::RESOURCE_EXHAUSTED,
                         fmt::format("{} clients are connected already", streams_->options.connections_max));
    }
    return IngestStream::Begin(streams_, receiver_, context).get();
  }

 private:
  // Owned by gRPC until OnDone.
  class Refusal final : public grpc::ServerBidiReactor<local::Request, local::Reply> {
   public:
    Refusal(grpc::StatusCode code, const std::string& why) { Finish(grpc::Status(code, why)); }
    void OnDone() override { delete this; }
  };

  std::size_t Count() {
    const absl::MutexLock lock(&streams_->mutex);
    return streams_->live.size();
  }

  const std::shared_ptr<IngestStreams> streams_;
  Receiver& receiver_;
};

// --- Addresses and certificates ---

bool HasTlsFiles(const Config::Ingest& tcp) {
  return !tcp.tls_ca.empty() || !tcp.tls_cert.empty() || !tcp.tls_key.empty();
}

// `keys`: of our own, where there are no files of TLS.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TcpCredentials(const Config::Ingest& tcp,
                                                                        const IngestKeys& keys) {
  if (tcp.insecure_loopback && !HasTlsFiles(tcp)) {
    if (IsLoopback(tcp.listen)) return grpc::InsecureServerCredentials();
    return InvalidArgument("ingest.listen {}: ingest.insecure_loopback is for loopback addresses only", tcp.listen);
  }
  if (!tls13_only) return Internal("GRPC_SSL_CIPHER_SUITES could not be set: TLS 1.3 cannot be made sure");
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  if (HasTlsFiles(tcp)) {
    CAIRN_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("ingest.tls_ca", tcp.tls_ca));
    CAIRN_ASSIGN_OR_RETURN(pair.cert_chain, ReadPem("ingest.tls_cert", tcp.tls_cert));
    CAIRN_ASSIGN_OR_RETURN(pair.private_key, ReadPem("ingest.tls_key", tcp.tls_key));
  } else {
    options.pem_root_certs = keys.authority;
    pair = {.private_key = keys.daemon_key, .cert_chain = keys.daemon_certificate};
  }
  options.pem_key_cert_pairs.push_back(std::move(pair));
  return grpc::SslServerCredentials(options);
}

void SetLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kRequestBytesMax);
  builder.SetMaxSendMessageSize(CAIRN_FRAME_BYTES_MAX);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMsMax);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingAnswerMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingFromClientMsMin);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second daemon must not share our port unnoticed
}

class IngestDoorImpl final : public IngestDoor {
 public:
  IngestDoorImpl(Options options, Receiver& receiver)
      : streams_(std::make_shared<IngestStreams>(std::move(options))), service_(streams_, receiver) {}

  absl::Status Start(AdminService* admin);
  void StopAccepting() override { streams_->accepting = false; }
  absl::Status Admit(UniqueFd connection) override;
  int tcp_port() const override { return tcp_port_; }
  const absl::Status& tcp_status() const override { return tcp_status_; }
  const std::string& announcement() const override { return announcement_; }
  ~IngestDoorImpl() override;

 private:
  absl::Status ServeNode(AdminService* admin);
  absl::Status ServeTcp();
  void ListenAt(const std::string& address, const std::shared_ptr<grpc::ServerCredentials>& credentials);
  absl::Status ListenForAnybody(UniqueFd listener, const std::shared_ptr<grpc::ServerCredentials>& credentials);

  const std::shared_ptr<IngestStreams> streams_;
  IngestService service_;
  std::unique_ptr<grpc::Server> node_;
  std::unique_ptr<grpc::Server> tcp_;
  std::unique_ptr<TcpAcceptor> acceptor_;
  int tcp_port_ = 0;
  absl::Status tcp_status_;
  std::string announcement_;
};

absl::Status IngestDoorImpl::Start(AdminService* admin) {
  if (!streams_->options.node_socket.empty()) CAIRN_RETURN_IF_ERROR(ServeNode(admin));
  if (streams_->options.tcp.listen.empty()) return absl::OkStatus();
  tcp_status_ = ServeTcp();
  return streams_->options.without_tcp ? absl::OkStatus() : tcp_status_;
}

absl::Status IngestDoorImpl::ServeNode(AdminService* admin) {
  const std::string& path = streams_->options.node_socket;
  CAIRN_RETURN_IF_ERROR(PrepareSocketPath(path));
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.AddListeningPort("unix:" + path, grpc::InsecureServerCredentials());
  builder.RegisterService(&service_);
  if (admin != nullptr) builder.RegisterService(&admin->service());
  node_ = builder.BuildAndStart();
  if (node_ == nullptr) return Unavailable("cannot listen on {}", path);
  // gRPC binds the socket itself. Until now only its directory, which is closed, has kept others out: a umask would be
  // that of the flushes, too, which are under way by now.
  if (chmod(path.c_str(), 0600) != 0) return Unavailable("{}: {}", path, std::strerror(errno));
  return absl::OkStatus();
}

absl::Status IngestDoorImpl::Admit(UniqueFd connection) {
  CAIRN_ASSIGN_OR_RETURN(const PeerCredentials who, CredentialsOf(connection.get()));
  if (who.uid != geteuid()) {
    return PermissionDenied("this daemon serves user {}, not user {}", geteuid(), who.uid);
  }
  if (node_ == nullptr || !streams_->accepting) return Unavailable("nothing is served there");
  if (fcntl(connection.get(), F_SETFL, O_NONBLOCK) != 0) return Unavailable("{}", std::strerror(errno));
  grpc::AddInsecureChannelFromFd(node_.get(), connection.Release());
  return absl::OkStatus();
}

absl::Status IngestDoorImpl::ServeTcp() {
  const Config::Ingest& tcp = streams_->options.tcp;
  auto address = ParseIngestAddress(tcp.listen);
  if (!address.ok()) return InvalidArgument("ingest.listen: {}", MessageOf(address.status()));
  IngestKeys keys;
  const bool own_keys = !HasTlsFiles(tcp) && !tcp.insecure_loopback;
  if (own_keys) {
    CAIRN_ASSIGN_OR_RETURN(keys, MakeIngestKeys());
  }
  CAIRN_ASSIGN_OR_RETURN(const auto credentials, TcpCredentials(tcp, keys));
  for (std::uint32_t port = address->first; port <= address->last && tcp_ == nullptr; ++port) {
    const auto one = static_cast<std::uint16_t>(port);
    // gRPC, asked for a port that is taken, says so on standard error.
    absl::StatusOr<UniqueFd> listener = UniqueFd();
    if (own_keys || address->is_range()) listener = ListenAtPort(address->host, one);
    if (absl::IsInvalidArgument(listener.status())) return listener.status();
    if (!listener.ok()) continue;
    if (own_keys) {
      CAIRN_RETURN_IF_ERROR(ListenForAnybody(*std::move(listener), credentials));
    } else {
      listener = UniqueFd();
      ListenAt(address->At(one), credentials);  // somebody else may have been faster: then the next
    }
  }
  if (tcp_ == nullptr && address->is_range()) {
    return Unavailable("no port of ingest.listen {} is free: clients on other hosts cannot come in", tcp.listen);
  }
  if (tcp_ == nullptr) {
    return Unavailable("cannot listen on {}: the address is taken or not this machine's, or its TLS files do not match",
                       tcp.listen);
  }
  spdlog::info("ingest on {} (port {}), {}", tcp.listen, tcp_port_,
               own_keys             ? "mutual TLS 1.3 with keys of its own"
               : tcp.tls_ca.empty() ? "without TLS, loopback only"
                                    : "mutual TLS 1.3");
  if (!own_keys) return absl::OkStatus();
  const std::string& host = !tcp.name.empty()             ? tcp.name
                            : StandsForAny(address->host) ? streams_->options.host
                                                          : address->host;
  announcement_ = EncodeAnnouncement({.address = fmt::format("{}:{}", host, tcp_port_),
                                      .name = keys.name,
                                      .authority = keys.authority,
                                      .certificate = keys.client_certificate,
                                      .key = keys.client_key});
  return absl::OkStatus();
}

void IngestDoorImpl::ListenAt(const std::string& address, const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::ServerBuilder builder;
  SetLimits(builder);
  builder.AddListeningPort(address, credentials, &tcp_port_);
  builder.RegisterService(&service_);
  tcp_ = builder.BuildAndStart();
  if (tcp_port_ == 0) tcp_ = nullptr;
}

absl::Status IngestDoorImpl::ListenForAnybody(UniqueFd listener,
                                              const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  CAIRN_ASSIGN_OR_RETURN(const int port, PortOf(listener));
  grpc::ServerBuilder builder;
  SetLimits(builder);
  auto server = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  builder.RegisterService(&service_);
  tcp_ = builder.BuildAndStart();
  if (tcp_ == nullptr) return Internal("gRPC does not take connections at ingest.listen");
  CAIRN_ASSIGN_OR_RETURN(acceptor_, TcpAcceptor::Start(std::move(listener), std::move(server)));
  tcp_port_ = port;
  return absl::OkStatus();
}

IngestDoorImpl::~IngestDoorImpl() {
  StopAccepting();
  acceptor_.reset();
  std::vector<std::shared_ptr<IngestStream>> live;
  {
    const absl::MutexLock lock(&streams_->mutex);
    for (const auto& [key, stream] : streams_->live) live.push_back(stream.lock());
  }
  for (const auto& stream : live) {
    if (stream != nullptr) stream->Close();
  }
  live.clear();
  const auto deadline = std::chrono::system_clock::now() + kShutdownTime;  // calls that are left are cancelled then
  if (tcp_ != nullptr) tcp_->Shutdown(deadline);
  if (node_ != nullptr) node_->Shutdown(deadline);
}

}  // namespace

absl::StatusOr<std::unique_ptr<IngestDoor>> IngestDoor::Listen(Options options, Receiver& receiver,
                                                               AdminService* admin) {
  KeepGrpc();
  auto door = std::make_unique<IngestDoorImpl>(std::move(options), receiver);
  CAIRN_RETURN_IF_ERROR(door->Start(admin));
  return door;
}

}  // namespace cairn
