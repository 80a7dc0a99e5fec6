#include "client/grpc/stream.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "client/cairn.h"
#include "client/grpc/node_socket.h"
#include "proto/frame.h"

namespace cairn::transport {
namespace {

constexpr const char* kMethod = "/cairn.ingest.Ingest/Connect";
constexpr std::size_t kUnsentBytesMax = 32 << 20;
constexpr std::size_t kUnreadBytesMax = 64 << 20;
// What looks like a refusal is one only if it comes again.
constexpr int kRefusalsMax = 3;
constexpr auto kRefusedPause = std::chrono::milliseconds(50);
// A daemon that answers no ping for so long is gone: the session connects anew.
constexpr int kPingEveryMs = 30'000;
constexpr int kPingAnswerMs = 20'000;
constexpr auto kCancelTime = std::chrono::milliseconds(500);

// The call itself. gRPC keeps it until OnDone; a hold keeps OnDone away while reads may still be started.
class Call final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Call(std::shared_ptr<grpc::Channel> channel, bool tls) : stub_(std::move(channel)), tls_(tls) {}

  void Begin(std::shared_ptr<Call> self) {
    self_ = std::move(self);
    stub_.PrepareBidiStreamingCall(&context_, kMethod, grpc::StubOptions(), this);
    AddHold();
    {
      const absl::MutexLock lock(&mutex_);
      held_ = true;
      reading_ = true;
    }
    StartRead(&incoming_);
    StartCall();
  }

  Outcome WaitConnected(Stream::Deadline deadline) {
    const absl::MutexLock lock(&mutex_);
    while (!connected_ && !done_) {
      if (!WaitForChange(deadline)) return {CAIRN_DEADLINE_EXCEEDED, "not connected in time"};
    }
    return connected_ ? Outcome{} : Broken();
  }

  Outcome Send(const void* bytes, std::size_t count, Stream::Deadline deadline) {
    const grpc::Slice slice(bytes, count);
    const absl::MutexLock lock(&mutex_);
    while (!over_ && unsent_bytes_ != 0 && unsent_bytes_ + count > kUnsentBytesMax) {
      if (!WaitForChange(deadline)) {
        return {CAIRN_DEADLINE_EXCEEDED, "the daemon did not take the message in time"};
      }
    }
    if (over_) return WaitBroken(deadline);
    unsent_bytes_ += count;
    unsent_.emplace_back(&slice, 1);
    WriteNext();
    return {};
  }

  Outcome Receive(Stream::Deadline deadline, void** reply, std::size_t* count) {
    grpc::ByteBuffer buffer;
    {
      const absl::MutexLock lock(&mutex_);
      while (unread_.empty() && !done_) {
        if (!WaitForChange(deadline)) return {CAIRN_DEADLINE_EXCEEDED, "no answer in time"};
      }
      if (unread_.empty()) return Broken();
      buffer = std::move(unread_.front());
      unread_.pop_front();
      unread_bytes_ -= buffer.Length();
      ReadNext();
    }
    return Copy(buffer, reply, count);
  }

  // A daemon's refusal of our certificate comes after our side's handshake is over (TLS 1.3), as a connection that is
  // closed at once. So does the end of a daemon that is just being stopped.
  bool MayBeRefused() const {
    const absl::MutexLock lock(&mutex_);
    return ClosedUnderTls();
  }

  void End() {
    context_.TryCancel();
    const absl::MutexLock lock(&mutex_);
    over_ = true;
    LetGo();
    const Stream::Deadline deadline = std::chrono::steady_clock::now() + kCancelTime;
    while (!done_ && WaitForChange(deadline)) {
    }
  }

  void OnReadInitialMetadataDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    connected_ = ok;
    changed_.SignalAll();
  }

  void OnReadDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (ok) {
      unread_bytes_ += incoming_.Length();
      unread_.push_back(std::exchange(incoming_, grpc::ByteBuffer()));
      ReadNext();
    } else {
      over_ = true;
      LetGo();
    }
    changed_.SignalAll();
  }

  void OnWriteDone(bool ok) override {
    const absl::MutexLock lock(&mutex_);
    writing_ = false;
    unsent_bytes_ -= unsent_.front().Length();
    unsent_.pop_front();
    if (!ok) over_ = true;  // reading goes on to its own end: what came before is still good
    WriteNext();
    changed_.SignalAll();
  }

  void OnDone(const grpc::Status& status) override {
    const std::shared_ptr<Call> self = std::move(self_);  // until the lock is gone
    const absl::MutexLock lock(&mutex_);
    status_ = status;
    over_ = true;
    done_ = true;
    changed_.SignalAll();
  }

 private:
  // Waits for a change, and may return without one. False, without a wait: the deadline has passed. absl waits by the
  // system's clock: if that is set back meanwhile, the wait lasts longer, but ends when gRPC's pings get no answer.
  bool WaitForChange(Stream::Deadline deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto now = std::chrono::steady_clock::now();
    if (deadline <= now) return false;
    changed_.WaitWithTimeout(&mutex_, absl::FromChrono(deadline - now));
    return true;
  }
  void ReadNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reading_ || !held_ || unread_bytes_ > kUnreadBytesMax) return;
    reading_ = true;
    StartRead(&incoming_);
  }
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || over_ || unsent_.empty()) return;
    writing_ = true;
    StartWrite(&unsent_.front());
  }
  void LetGo() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(held_, false)) RemoveHold();
  }
  Outcome WaitBroken(Stream::Deadline deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!reading_) LetGo();  // too much is unread, and nobody will read it
    while (!done_ && WaitForChange(deadline)) {
    }
    return Broken();
  }
  Outcome Broken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool ClosedUnderTls() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static Outcome Copy(grpc::ByteBuffer& buffer, void** reply, std::size_t* count) {
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) return {CAIRN_INTERNAL, "gRPC cannot unpack a message"};
    const std::size_t bytes = buffer.Length();
    char* const copy = static_cast<char*>(std::malloc(bytes + 1));  // malloc(0) may be null
    if (copy == nullptr) return {CAIRN_RESOURCE_EXHAUSTED, "no memory for a reply"};
    std::size_t at = 0;
    for (const grpc::Slice& slice : slices) {
      std::memcpy(copy + at, slice.begin(), slice.size());
      at += slice.size();
    }
    *reply = copy;
    *count = bytes;
    return {};
  }

  grpc::GenericStub stub_;
  const bool tls_;
  grpc::ClientContext context_;
  std::shared_ptr<Call> self_;
  grpc::ByteBuffer incoming_;  // of the read that is going on

  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  std::deque<grpc::ByteBuffer> unread_ ABSL_GUARDED_BY(mutex_);
  std::size_t unread_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<grpc::ByteBuffer> unsent_ ABSL_GUARDED_BY(mutex_);  // the front is with gRPC while writing_
  std::size_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;  // until nothing more will come, or nobody wants it
  bool over_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more can be sent
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // and status_ says why
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

bool Says(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

bool SaysClosed(const std::string& text) {
  return Says(text, "Socket closed") || Says(text, "onnection reset") || Says(text, "roken pipe");
}

// gRPC's words without its wrapping: "failed to connect to all addresses; last error: UNKNOWN: ...".
std::string Essence(const std::string& text) {
  constexpr std::string_view kLast = "last error: ";
  const std::size_t last = text.rfind(kLast);
  if (last == std::string::npos) return text;
  const std::size_t code = last + kLast.size(), words = text.find(": ", code);
  const bool is_code =
      words != std::string::npos && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", code) == words;
  return text.substr(is_code ? words + 2 : code);
}

Outcome Call::Broken() const {
  if (!done_ || connected_) {
    return {CAIRN_UNAVAILABLE, status_.error_message().empty() ? "the stream ended" : status_.error_message()};
  }
  // gRPC has one code for all that keeps it from connecting; only its words tell what it was.
  std::string text = Essence(status_.error_message());
  if (Says(text, "wrong version number")) {
    return {CAIRN_PERMISSION_DENIED, text + " (CAIRN_TLS_CA is set, but the process that listens there speaks no TLS)"};
  }
  if (tls_ && (Says(text, "andshake") || Says(text, "peer certificate"))) {
    return {CAIRN_PERMISSION_DENIED, text + " (is the daemon's certificate for this name and from CAIRN_TLS_CA?)"};
  }
  if (ClosedUnderTls())
    return {CAIRN_PERMISSION_DENIED, text + " (does the daemon accept CAIRN_TLS_CERT, and listen with TLS?)"};
  if (SaysClosed(text)) text += " (is that a cairnd? If it listens with TLS: set CAIRN_TLS_CA)";
  if (Says(text, "onnection refused") || Says(text, "No such file")) text += " (is cairnd running there?)";
  return {CAIRN_UNAVAILABLE, std::move(text)};
}

bool Call::ClosedUnderTls() const {
  return tls_ && done_ && !connected_ && SaysClosed(status_.error_message());
}

class StreamImpl final : public Stream {
 public:
  explicit StreamImpl(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~StreamImpl() override { call_->End(); }
  Outcome Send(const void* bytes, std::size_t count, Deadline deadline) override {
    return call_->Send(bytes, count, deadline);
  }
  Outcome Receive(Deadline deadline, void** reply, std::size_t* count) override {
    return call_->Receive(deadline, reply, count);
  }

 private:
  const std::shared_ptr<Call> call_;
};

bool KeepGrpc() {
  // The library prints nothing into its application unless it is asked to; what gRPC has to say comes as an outcome.
  const bool quiet =
      std::getenv("CAIRN_LOG") == nullptr && std::getenv("GRPC_VERBOSITY") == nullptr && grpc_is_initialized() == 0;
  // Held for good: when its last user goes, gRPC waits for a poller that may sleep for ten seconds.
  grpc_init();
  if (quiet) gpr_set_log_verbosity(static_cast<gpr_log_severity>(GPR_LOG_SEVERITY_ERROR + 1));
  return true;
}

// The threads that run gRPC's callbacks live as long as some channel is in use, and the end of the last channel joins
// them. If that comes on one of them, because the last reference to a call goes there, it joins itself and then goes on
// with what it has freed. So one channel stays in use for good: it leads nowhere, a call on it fails at once.
bool KeepCallbackThreads() {
  static auto* const nowhere = new std::shared_ptr<grpc::Channel>(
      grpc::CreateCustomChannel("", std::shared_ptr<grpc::ChannelCredentials>(), grpc::ChannelArguments()));
  const auto call = std::make_shared<Call>(*nowhere, /*tls=*/false);
  call->Begin(call);
  return true;
}

Outcome MakeChannel(const Address& address, std::shared_ptr<grpc::Channel>* channel) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(CAIRN_FRAME_BYTES_MAX);
  arguments.SetMaxSendMessageSize(CAIRN_FRAME_BYTES_MAX);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kPingEveryMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kPingAnswerMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);  // also while the application computes for long
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  // A session that connects again must not inherit the back-off of an earlier try.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (!address.node_socket.empty()) {
    int fd = -1;
    if (Outcome connected = ConnectToNode(address.node_socket, &fd); !connected.ok()) return connected;
    *channel = grpc::CreateCustomInsecureChannelFromFd("localhost", fd, arguments);
  } else if (!address.tls) {
    *channel = grpc::CreateCustomChannel(address.target, grpc::InsecureChannelCredentials(), arguments);
  } else {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = address.ca;
    options.pem_cert_chain = address.cert;
    options.pem_private_key = address.key;
    if (!address.name.empty()) arguments.SetSslTargetNameOverride(address.name);
    *channel = grpc::CreateCustomChannel(address.target, grpc::SslCredentials(options), arguments);
  }
  return {};
}

}  // namespace

Outcome Stream::Connect(const Address& address, Deadline deadline, std::unique_ptr<Stream>* stream) {
  [[maybe_unused]] static const bool kept = KeepGrpc() && KeepCallbackThreads();
  for (int tries = 1;; ++tries) {
    std::shared_ptr<grpc::Channel> channel;
    if (Outcome made = MakeChannel(address, &channel); !made.ok()) return made;
    const auto call = std::make_shared<Call>(std::move(channel), address.tls);
    auto result = std::make_unique<StreamImpl>(call);
    call->Begin(call);
    Outcome outcome = call->WaitConnected(deadline);
    if (outcome.ok()) *stream = std::move(result);
    if (outcome.ok() || tries == kRefusalsMax || !call->MayBeRefused()) return outcome;
    std::this_thread::sleep_until(std::min(deadline, std::chrono::steady_clock::now() + kRefusedPause));
  }
}

}  // namespace cairn::transport
