#include "daemon/door/peer_stream.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "daemon/door/grpc_life.h"
#include "proto/peer.grpc.pb.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Says which of the connections a stream is on. gRPC itself only knows the number of a descriptor, which another
// connection may have next.
constexpr char kTokenKey[] = "cairn-connection";

// Both ways: `set` is of a server's builder or of a channel's arguments.
template <typename Set>
void SetLimits(const PeerDoor::Options& options, const Set& set) {
  set(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(options.ping_every.count()));
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(options.ping_answer.count()));
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The peer pings as often as we do; gRPC would take more than one in five minutes for an attack.
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, static_cast<int>(options.ping_every.count() / 2));
  set(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(options.frame_bytes_max));
  set(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(options.frame_bytes_max));
  set(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1);  // one connection, one link
}

absl::Status WhyEnded(bool in_order, const grpc::Status& status) {
  if (in_order) return Cancelled("the peer has closed the link");
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    return ResourceExhausted("{}", status.error_message());
  }
  return Unavailable("the link broke{}{}", status.error_message().empty() ? "" : ": ", status.error_message());
}

// --- Our own stream ---

// Lives until OnDone. The hold keeps OnDone away while the strand may still ask for reads and writes.
class DiallingStream final : public grpc::ClientBidiReactor<peer::Frame, peer::Frame>, public LinkEnd::Stream {
 public:
  DiallingStream(std::shared_ptr<grpc::Channel> channel, const std::string& token, std::shared_ptr<LinkEnd> end)
      : channel_(std::move(channel)), stub_(peer::Peer::NewStub(channel_)), end_(std::move(end)) {
    context_.AddMetadata(kTokenKey, token);
    stub_->async()->Link(&context_, this);
  }
  void Go() {
    AddHold();
    end_->Begin(this);
    StartCall();
  }

  void Read(peer::Frame* frame) override { StartRead(frame); }
  void Write(const peer::Frame* frame) override { StartWrite(frame); }
  bool EndWriting() override {
    StartWritesDone();
    return true;
  }
  void Cancel() override { context_.TryCancel(); }
  void EndReading() override { RemoveHold(); }

  void OnReadDone(bool ok) override { end_->ReadDone(ok); }
  void OnWriteDone(bool ok) override { end_->WriteDone(ok); }
  void OnDone(const grpc::Status& status) override {
    end_->Done(WhyEnded(status.ok(), status));
    delete this;
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<peer::Peer::Stub> stub_;
  const std::shared_ptr<LinkEnd> end_;
  grpc::ClientContext context_;
};

// --- A stream from outside ---

// Lives until OnDone, which comes after Finish.
class AnsweringStream final : public grpc::ServerBidiReactor<peer::Frame, peer::Frame>, public LinkEnd::Stream {
 public:
  AnsweringStream(grpc::CallbackServerContext* context, std::shared_ptr<LinkEnd> end)
      : context_(context), end_(std::move(end)) {
    StartSendInitialMetadata();
    end_->Begin(this);
  }

  void Read(peer::Frame* frame) override { StartRead(frame); }
  void Write(const peer::Frame* frame) override { StartWrite(frame); }
  bool EndWriting() override {
    Finish(grpc::Status::OK);
    return false;  // OnDone may come at any time from now on
  }
  void Cancel() override { context_->TryCancel(); }
  void EndReading() override {}

  void OnReadDone(bool ok) override { end_->ReadDone(ok); }
  void OnWriteDone(bool ok) override { end_->WriteDone(ok); }
  void OnCancel() override { end_->Broken(); }
  void OnDone() override {
    end_->Done(WhyEnded(!context_->IsCancelled(), grpc::Status::OK));
    delete this;
  }

 private:
  grpc::CallbackServerContext* const context_;
  const std::shared_ptr<LinkEnd> end_;
};

class Refused final : public grpc::ServerBidiReactor<peer::Frame, peer::Frame> {
 public:
  Refused() { Finish(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "this stream is not of a proven connection")); }
  void OnDone() override { delete this; }
};

class PeerServerImpl final : public PeerServer, private peer::Peer::CallbackService {
 public:
  explicit PeerServerImpl(Claim claim) : claim_(std::move(claim)) {}
  ~PeerServerImpl() override {
    if (server_ != nullptr) server_->Shutdown(WallNow());  // cancels what is left, and waits for that alone
  }

  absl::Status Open(const PeerDoor::Options& options) {
    KeepGrpc();
    grpc::ServerBuilder builder;
    SetLimits(options, [&](const char* name, int value) { builder.AddChannelArgument(name, value); });
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    return server_ == nullptr ? Internal("gRPC starts no server for peers") : absl::OkStatus();
  }
  void Take(UniqueFd fd) override { grpc::AddInsecureChannelFromFd(server_.get(), fd.Release()); }

 private:
  grpc::ServerBidiReactor<peer::Frame, peer::Frame>* Link(grpc::CallbackServerContext* context) override {
    const auto& metadata = context->client_metadata();
    const auto token = metadata.find(kTokenKey);
    auto end = token == metadata.end() ? nullptr : claim_({token->second.data(), token->second.size()});
    if (end == nullptr) {
      spdlog::warn("a peer's stream names no connection that waits for one: refused");
      return new Refused();
    }
    return new AnsweringStream(context, std::move(end));
  }

  const Claim claim_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

void BeginLink(PeerPipe pipe, const PeerDoor::Options& options, std::shared_ptr<LinkEnd> end) {
  KeepGrpc();
  grpc::ChannelArguments arguments;
  SetLimits(options, [&](const char* name, int value) { arguments.SetInt(name, value); });
  // The target is a name for the log alone: the descriptor is where it goes. A subchannel of another link is not
  // shared.
  auto channel = grpc::CreateCustomInsecureChannelFromFd("peer", pipe.fd.Release(), arguments);
  (new DiallingStream(std::move(channel), pipe.token, std::move(end)))->Go();
}

absl::StatusOr<std::unique_ptr<PeerServer>> PeerServer::Start(const PeerDoor::Options& options, Claim claim) {
  auto server = std::make_unique<PeerServerImpl>(std::move(claim));
  CAIRN_RETURN_IF_ERROR(server->Open(options));
  return server;
}

}  // namespace cairn
