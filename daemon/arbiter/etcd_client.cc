#include "daemon/arbiter/etcd_client.h"

#include <grpc/grpc.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <utility>

#include "daemon/config/tcp_trust.h"
#include "proto/etcd.grpc.pb.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/place/arbiter/arbiter.h"

namespace cairn {
namespace {

using etcdserverpb::KV;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kHttps = "https://", kHttp = "http://";
constexpr milliseconds kPauseMin{20}, kPauseMax{500};  // after all endpoints were tried
constexpr milliseconds kConnectPauseMax{1'000};        // between two tries to connect to one that is down
constexpr std::int64_t kPageKeys = 4096;
constexpr int kListingsMax = 5;  // that a compaction may spoil

// --- Settings ---

absl::Status CheckEndpoint(std::string_view endpoint, bool tls) {
  const std::string_view scheme = tls ? kHttps : kHttp;
  if (!endpoint.starts_with(scheme)) {
    return InvalidArgument("etcd endpoint {}: expected https://HOST:PORT (or http:// on a loopback address), all alike",
                           endpoint);
  }
  const std::string_view address = endpoint.substr(scheme.size());
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos || colon == 0 || colon + 1 == address.size() || address.find('/') != address.npos ||
      address.find_first_not_of("0123456789", colon + 1) != address.npos) {
    return InvalidArgument("etcd endpoint {}: expected {}HOST:PORT", endpoint, scheme);
  }
  if (!tls && !IsLoopback(address)) {
    return InvalidArgument(
        "etcd endpoint {}: needs TLS (https://, with ca, cert and key), as it is no loopback address", endpoint);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(const EtcdSettings& settings, bool tls) {
  const bool none = settings.ca.empty() && settings.cert.empty() && settings.key.empty();
  if (!tls) {
    if (!none) return InvalidArgument("etcd: ca, cert and key are for https:// endpoints, and there is none");
    return grpc::InsecureChannelCredentials();
  }
  if (settings.ca.empty() || settings.cert.empty() || settings.key.empty()) {
    return InvalidArgument("etcd: https:// endpoints need all of ca, cert and key: both sides show a certificate");
  }
  grpc::SslCredentialsOptions options;
  CAIRN_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("etcd ca", settings.ca));
  CAIRN_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem("etcd cert", settings.cert));
  CAIRN_ASSIGN_OR_RETURN(options.pem_private_key, ReadPem("etcd key", settings.key));
  return grpc::SslCredentials(options);
}

grpc::ChannelArguments ArgumentsOf(const EtcdSettings& settings) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(EtcdClient::kAnswerBytesMax);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // gRPC would wait for up to two minutes before it connects again.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kPauseMin.count());
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kConnectPauseMax.count());
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(settings.try_time.count()));
  return arguments;
}

// --- Answers ---

// Another endpoint, or the same one a little later, may do better.
bool PassesOver(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::UNKNOWN:   // a connection that broke, or a server that is no etcd
    case grpc::StatusCode::INTERNAL:  // the same
      return true;
    default:
      return false;
  }
}

// `answer` is none for a key that is not there.
absl::StatusOr<std::optional<EtcdClient::Value>> ValueOf(const std::string& key, etcdserverpb::RangeResponse* answer) {
  if (answer->kvs().empty()) return std::optional<EtcdClient::Value>();
  etcdserverpb::KeyValue& found = *answer->mutable_kvs(0);
  if (found.key() != key || found.mod_revision() <= 0) return Unavailable("etcd answered for another key than {}", key);
  return std::optional(EtcdClient::Value{.bytes = std::move(*found.mutable_value()), .revision = found.mod_revision()});
}

// Puts `bytes` if the revision of `key` is as `result` says.
etcdserverpb::TxnRequest PutIf(const std::string& key, const std::string& bytes,
                               etcdserverpb::Compare::CompareResult result, std::int64_t revision) {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare& compare = *request.add_compare();
  compare.set_key(key);
  compare.set_target(etcdserverpb::Compare::MOD);  // of a key that is not there: 0
  compare.set_result(result);
  compare.set_mod_revision(revision);
  etcdserverpb::PutRequest& put = *request.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(bytes);
  return request;
}

// The first key that does not begin with `prefix`.
std::string EndOf(std::string prefix) {
  ++reinterpret_cast<unsigned char&>(prefix.back());
  return prefix;
}

// --- The client ---

class EtcdClientImpl final : public EtcdClient {
 public:
  EtcdClientImpl(const EtcdSettings& settings, const std::shared_ptr<grpc::ChannelCredentials>& credentials)
      : settings_(settings),
        read_time_(settings.read_time.count() != 0 ? settings.read_time : settings.call_time),
        where_(fmt::format("{}", fmt::join(settings.endpoints, ","))) {
    const grpc::ChannelArguments arguments = ArgumentsOf(settings);
    for (const std::string& endpoint : settings.endpoints) {
      const std::string address = endpoint.substr(endpoint.find("//") + 2);
      stubs_.push_back(KV::NewStub(grpc::CreateCustomChannel(address, credentials, arguments)));
    }
  }

  const std::string& where() const override { return where_; }

  absl::StatusOr<std::optional<Value>> Get(const std::string& key) override {
    etcdserverpb::RangeRequest request;
    request.set_key(key);
    etcdserverpb::RangeResponse answer;
    CAIRN_RETURN_IF_ERROR(Call(&KV::Stub::Range, request, &answer, read_time_));
    return ValueOf(key, &answer);
  }

  absl::StatusOr<std::vector<std::string>> Keys(const std::string& prefix, std::size_t key_bytes_max) override {
    for (int i = 0; i < kListingsMax; ++i) {
      auto keys = KeysAtOnce(prefix, key_bytes_max);
      // etcd has forgotten the revision that the first page is of.
      if (keys.status().code() != absl::StatusCode::kOutOfRange) return keys;
    }
    return Unavailable("etcd {}: compacted again and again while the keys {}* were listed", where_, prefix);
  }

  absl::StatusOr<std::optional<Value>> PutIfUnchanged(const std::string& key, const std::string& bytes,
                                                      std::int64_t revision) override {
    etcdserverpb::TxnRequest request = PutIf(key, bytes, etcdserverpb::Compare::EQUAL, revision);
    request.add_failure()->mutable_request_range()->set_key(key);
    etcdserverpb::TxnResponse answer;
    CAIRN_RETURN_IF_ERROR(Call(&KV::Stub::Txn, request, &answer, settings_.call_time));
    if (answer.succeeded()) return std::optional<Value>();
    if (answer.responses().empty()) return Unavailable("etcd {}: a transaction on {} has no answer", where_, key);
    CAIRN_ASSIGN_OR_RETURN(auto there, ValueOf(key, answer.mutable_responses(0)->mutable_response_range()));
    return there ? std::move(there) : std::optional(Value());
  }

  absl::Status PutIfThere(const std::string& key, const std::string& bytes) override {
    const etcdserverpb::TxnRequest request = PutIf(key, bytes, etcdserverpb::Compare::GREATER, 0);
    etcdserverpb::TxnResponse answer;
    CAIRN_RETURN_IF_ERROR(Call(&KV::Stub::Txn, request, &answer, settings_.call_time));
    return answer.succeeded() ? absl::OkStatus() : NotFound("etcd {}: {} is not there", where_, key);
  }

  absl::Status Remove(const std::string& key) override {
    etcdserverpb::DeleteRangeRequest request;
    request.set_key(key);
    etcdserverpb::DeleteRangeResponse answer;
    return Call(&KV::Stub::DeleteRange, request, &answer, settings_.call_time);
  }

 private:
  template <typename Request, typename Answer>
  using Method = grpc::Status (KV::Stub::*)(grpc::ClientContext*, const Request&, Answer*);

  template <typename Request, typename Answer>
  absl::Status Call(Method<Request, Answer> method, const Request& request, Answer* answer, milliseconds time) {
    const Clock::time_point end = SteadyNow() + time;
    std::string said;
    for (milliseconds pause = kPauseMin;; pause = std::min(2 * pause, kPauseMax)) {
      const std::size_t first = answered_last_;
      for (std::size_t i = 0; i < stubs_.size(); ++i) {
        const std::size_t at = (first + i) % stubs_.size();
        const auto left = std::chrono::ceil<milliseconds>(end - SteadyNow());
        if (left.count() <= 0) return NoAnswer(time, said);
        const grpc::Status status = Try(method, request, answer, at, std::min(left, settings_.try_time));
        if (!PassesOver(status.error_code())) {
          answered_last_ = at;
          return Judged(status, at);
        }
        said = fmt::format("{}: {}", settings_.endpoints[at], status.error_message());
      }
      if (SteadyNow() + pause >= end) return NoAnswer(time, said);
      SleepFor(pause);
    }
  }

  template <typename Request, typename Answer>
  grpc::Status Try(Method<Request, Answer> method, const Request& request, Answer* answer, std::size_t at,
                   milliseconds time) {
    grpc::ClientContext context;
    const gpr_timespec span = gpr_time_from_millis(time.count(), GPR_TIMESPAN);
    context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), span));
    answer->Clear();
    return (*stubs_[at].*method)(&context, request, answer);
  }

  absl::Status Judged(const grpc::Status& status, std::size_t at) const {
    if (status.ok()) return absl::OkStatus();
    // The numbers are the same by definition (absl/status/status.h).
    return MakeError(static_cast<absl::StatusCode>(status.error_code()), "etcd {}: {}", settings_.endpoints[at],
                     status.error_message());
  }

  // With TLS 1.3 a client learns that its certificate was refused only by a connection that breaks.
  absl::Status NoAnswer(milliseconds time, const std::string& said) const {
    const std::string_view hint =
        settings_.cert.empty() ? "" : " (if it breaks at once: does etcd trust the authority of this client's cert?)";
    return ArbiterIsSilent(fmt::format("etcd: no answer within {} ms; the last try, {}{}", time.count(), said, hint));
  }

  absl::StatusOr<std::vector<std::string>> KeysAtOnce(const std::string& prefix, std::size_t key_bytes_max);

  const EtcdSettings settings_;
  const milliseconds read_time_;
  const std::string where_;
  std::vector<std::unique_ptr<KV::Stub>> stubs_;  // one for each endpoint
  std::atomic<std::size_t> answered_last_ = 0;
};

// Pages of one revision. Somebody may have put keys there so long that a page of them is more than is accepted: fewer
// at a time then.
absl::StatusOr<std::vector<std::string>> EtcdClientImpl::KeysAtOnce(const std::string& prefix,
                                                                    std::size_t key_bytes_max) {
  std::vector<std::string> keys;
  std::size_t seen = 0;
  etcdserverpb::RangeRequest request;
  request.set_key(prefix);
  request.set_range_end(EndOf(prefix));
  request.set_limit(kPageKeys);
  request.set_keys_only(true);
  for (;;) {
    etcdserverpb::RangeResponse answer;
    const absl::Status status = Call(&KV::Stub::Range, request, &answer, read_time_);
    if (absl::IsResourceExhausted(status) && request.limit() > 1) {
      request.set_limit(request.limit() / 8);
      continue;
    }
    CAIRN_RETURN_IF_ERROR(status);
    for (etcdserverpb::KeyValue& found : *answer.mutable_kvs()) {
      if (!found.key().starts_with(prefix) || found.key() < request.key()) {
        return Unavailable("etcd {}: listed the keys {}* out of order", where_, prefix);
      }
      request.set_key(found.key() + '\0');  // the next that there could be
      if (found.key().size() <= key_bytes_max) keys.push_back(std::move(*found.mutable_key()));
    }
    seen += answer.kvs().size();
    if (seen > kKeysMax) {
      return ResourceExhausted("etcd {}: more than {} keys {}*; does anybody else write there?", where_, kKeysMax,
                               prefix);
    }
    if (!answer.more() || answer.kvs().empty()) return keys;
    request.set_revision(answer.header().revision());
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<EtcdClient>> EtcdClient::Make(const EtcdSettings& settings) {
  if (settings.endpoints.empty()) return InvalidArgument("etcd: no endpoints are set");
  const bool tls = settings.endpoints.front().starts_with(kHttps);
  for (const std::string& endpoint : settings.endpoints) CAIRN_RETURN_IF_ERROR(CheckEndpoint(endpoint, tls));
  // Held for good: when its last user goes, gRPC waits for a poller that may sleep for ten seconds.
  [[maybe_unused]] static const bool kept = (grpc_init(), true);
  CAIRN_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(settings, tls));
  return std::make_shared<EtcdClientImpl>(settings, credentials);
}

}  // namespace cairn
