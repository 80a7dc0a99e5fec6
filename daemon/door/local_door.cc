#include "daemon/door/local_door.h"

#include <google/protobuf/stubs/logging.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/door/local_connection.h"
#include "storage/base/host_name.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;
using Protocol = asio::local::stream_protocol;

constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when the process is out of descriptors

// What protobuf says of messages that it cannot parse: they are answered anyway.
void LogForProtobuf(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  spdlog::debug("protobuf: {}", message);
}

class LocalDoorImpl final : public LocalDoor {
 public:
  LocalDoorImpl(Options options, Receiver& receiver)
      : options_(std::make_shared<const Options>(std::move(options))),
        receiver_(receiver),
        io_(std::make_shared<asio::io_context>(1)),
        acceptor_(*io_),
        accept_timer_(*io_) {}

  absl::Status Start();
  void StopAccepting() override;
  void Admit(UniqueFd connection) override;
  std::size_t connections() const override { return count_.load(std::memory_order_relaxed); }
  ~LocalDoorImpl() override;

 private:
  void Accept();
  void Welcome(Protocol::socket socket);
  void CloseAcceptor();
  void Run();
  absl::Status Listen();

  const std::shared_ptr<const Options> options_;
  Receiver& receiver_;
  const std::string host_ = HostName();
  const std::shared_ptr<asio::io_context> io_;  // shared: a connection that the core still holds outlives us

  // Of the thread.
  Protocol::acceptor acceptor_;
  asio::steady_timer accept_timer_;
  std::map<LocalConnection*, std::shared_ptr<LocalConnection>> connections_;
  // Without an acceptor, which the thread would wait for.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> admits_;

  std::atomic<std::size_t> count_ = 0;  // of connections_

  ino_t inode_ = 0;
  std::thread thread_;
};

absl::Status LocalDoorImpl::Start() {
  if (options_->path.empty()) {
    admits_.emplace(io_->get_executor());
  } else {
    CAIRN_RETURN_IF_ERROR(Listen());
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

absl::Status LocalDoorImpl::Listen() {
  CAIRN_RETURN_IF_ERROR(PrepareSocketPath(options_->path));
  ErrorCode error;
  acceptor_.open(Protocol(), error);
  // Before bind: the mode is then right from the first instant, without touching the process's umask.
  if (!error && fchmod(acceptor_.native_handle(), 0600) != 0) error.assign(errno, boost::system::system_category());
  if (!error) acceptor_.bind(Protocol::endpoint(options_->path), error);
  if (!error) acceptor_.listen(Protocol::acceptor::max_listen_connections, error);
  if (error) return Unavailable("listen on {}: {}", options_->path, error.message());
  struct stat info {};
  if (lstat(options_->path.c_str(), &info) == 0) inode_ = info.st_ino;
  Accept();
  return absl::OkStatus();
}

void LocalDoorImpl::Run() {
  for (;;) {
    try {
      io_->run();  // until the acceptor and all connections are closed
      return;
    } catch (const std::exception& e) {
      spdlog::error("local door: {}", e.what());
    }
  }
}

void LocalDoorImpl::Accept() {
  acceptor_.async_accept([this](const ErrorCode& error, Protocol::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      Welcome(std::move(socket));
      return Accept();
    }
    spdlog::warn("accept on {}: {}", options_->path, error.message());
    accept_timer_.expires_after(kAcceptPause);
    accept_timer_.async_wait([this](const ErrorCode& stopped) {
      if (!stopped && acceptor_.is_open()) Accept();
    });
  });
}

void LocalDoorImpl::Welcome(Protocol::socket socket) {
  const auto who =
      options_->credentials ? options_->credentials(socket.native_handle()) : CredentialsOf(socket.native_handle());
  if (!who.ok()) {
    spdlog::warn("a client on {}: {}", options_->path, MessageOf(who.status()));
    return;
  }
  Connection::Peer peer{.host = host_, .pid = static_cast<std::uint32_t>(who->pid), .program = ProgramOf(who->pid)};
  const auto connection = std::make_shared<LocalConnection>(io_, std::move(socket), std::move(peer), options_,
                                                            receiver_, [this](LocalConnection* gone) {
                                                              connections_.erase(gone);
                                                              count_ = connections_.size();
                                                            });
  const bool full = connections_.size() >= options_->connections_max;
  // Beyond the maximum there is room for as many more that are being refused; then they are just hung up on.
  if (full && connections_.size() >= 2 * options_->connections_max) return;
  connections_.emplace(connection.get(), connection);
  count_ = connections_.size();
  if (who->uid != geteuid()) {
    connection->Refuse(local::PERMISSION_DENIED,
                       fmt::format("this daemon serves user {}, not user {}", geteuid(), who->uid));
  } else if (full) {
    connection->Refuse(local::RESOURCE_EXHAUSTED,
                       fmt::format("{} clients are connected already", options_->connections_max));
  } else {
    connection->Start();
  }
}

void LocalDoorImpl::Admit(UniqueFd connection) {
  asio::post(*io_, [this, given = std::make_shared<UniqueFd>(std::move(connection))] {
    if (!admits_) return;
    Protocol::socket socket(*io_);
    ErrorCode error;
    socket.assign(Protocol(), given->get(), error);
    if (error) return spdlog::warn("a connection that was handed over: {}", error.message());
    given->Release();
    Welcome(std::move(socket));
  });
}

void LocalDoorImpl::CloseAcceptor() {
  admits_.reset();
  if (!acceptor_.is_open()) return;
  ErrorCode ignored;  // the name goes anyway
  acceptor_.close(ignored);
  accept_timer_.cancel();
  struct stat info {};
  // Another daemon may have made its own since.
  if (lstat(options_->path.c_str(), &info) == 0 && info.st_ino == inode_) unlink(options_->path.c_str());
}

void LocalDoorImpl::StopAccepting() {
  asio::post(*io_, [this] { CloseAcceptor(); });
}

LocalDoorImpl::~LocalDoorImpl() {
  if (!thread_.joinable()) return;
  asio::post(*io_, [this] {
    CloseAcceptor();
    while (!connections_.empty()) connections_.begin()->second->Drop("the daemon ends");
  });
  thread_.join();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalDoor>> LocalDoor::Listen(Options options, Receiver& receiver) {
  google::protobuf::SetLogHandler(LogForProtobuf);
  auto door = std::make_unique<LocalDoorImpl>(std::move(options), receiver);
  CAIRN_RETURN_IF_ERROR(door->Start());
  return door;
}

}  // namespace cairn
