#include "tests/daemon/door/ingest_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>

#include "proto/frame.h"
#include "proto/ingest.grpc.pb.h"

namespace cairn::testing {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

class IngestClientImpl final : public IngestClient {
 public:
  explicit IngestClientImpl(const std::shared_ptr<grpc::Channel>& channel) : stub_(ingest::Ingest::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + kPatience);
    stream_ = stub_->Connect(&context_);
  }
  ~IngestClientImpl() override {
    context_.TryCancel();
    if (!finished_) IngestClientImpl::Finish(nullptr);
  }

  bool Send(const local::Request& request) override { return stream_->Write(request); }
  bool Hello(std::uint32_t protocol_min, std::uint32_t protocol_max) override {
    local::Request request;
    request.set_call(1);
    request.mutable_hello()->set_protocol_min(protocol_min);
    request.mutable_hello()->set_protocol_max(protocol_max);
    request.mutable_hello()->set_client("ingest client");
    request.mutable_hello()->set_host("far away");
    request.mutable_hello()->set_pid(4711);
    request.mutable_hello()->set_program("solver\x1b[31m");
    return Send(request);
  }
  std::optional<local::Reply> Receive() override {
    local::Reply reply;
    if (!stream_->Read(&reply)) return std::nullopt;
    return reply;
  }
  void Cancel() override { context_.TryCancel(); }
  Code Finish(std::string* message) override {
    finished_ = true;
    const grpc::Status status = stream_->Finish();
    if (message != nullptr) *message = status.error_message();
    switch (status.error_code()) {
      case grpc::StatusCode::OK:
        return Code::kOk;
      case grpc::StatusCode::UNAVAILABLE:
        return Code::kUnavailable;
      case grpc::StatusCode::RESOURCE_EXHAUSTED:
        return Code::kResourceExhausted;
      case grpc::StatusCode::DEADLINE_EXCEEDED:
        return Code::kDeadlineExceeded;
      case grpc::StatusCode::CANCELLED:
        return Code::kCancelled;
      default:
        return Code::kOther;
    }
  }

 private:
  const std::unique_ptr<ingest::Ingest::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<local::Request, local::Reply>> stream_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<IngestClient> IngestClient::Connect(const std::string& target, const Certificates* tls) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(CAIRN_FRAME_BYTES_MAX);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (tls != nullptr) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = tls->ca;
    options.pem_cert_chain = tls->cert;
    options.pem_private_key = tls->key;
    credentials = grpc::SslCredentials(options);
    if (!tls->name.empty()) arguments.SetSslTargetNameOverride(tls->name);
  }
  return std::make_unique<IngestClientImpl>(grpc::CreateCustomChannel(target, credentials, arguments));
}

}  // namespace cairn::testing
