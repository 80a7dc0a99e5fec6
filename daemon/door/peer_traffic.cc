#include "daemon/door/peer_traffic.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "daemon/config/tcp_trust.h"
#include "daemon/door/await.h"
#include "daemon/door/crowd.h"
#include "daemon/door/outlet.h"
#include "daemon/door/peer_connection.h"
#include "daemon/door/peer_listener.h"
#include "daemon/door/refusal_log.h"
#include "daemon/door/tls_pump.h"
#include "storage/base/caught.h"
#include "storage/base/clock.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Tcp = asio::ip::tcp;

constexpr std::chrono::milliseconds kAcceptPause{100};  // when this process has no descriptors left
constexpr std::size_t kMungeThreads = 2;

// Whom connections from one place count for. Who has one address of IPv6 has 2^64 of them.
std::string PlaceOf(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  const auto bytes = address.to_v6().to_bytes();
  return std::string(bytes.begin(), bytes.begin() + 8);
}

absl::StatusOr<std::shared_ptr<const SiteTrust>> SiteOf(const Config::Peers& peers) {
  if (peers.tls_ca.empty()) return std::shared_ptr<const SiteTrust>();
  CAIRN_ASSIGN_OR_RETURN(const std::string authorities, ReadPem("peers.tls_ca", peers.tls_ca));
  CAIRN_ASSIGN_OR_RETURN(const std::string certificates, ReadPem("peers.tls_cert", peers.tls_cert));
  CAIRN_ASSIGN_OR_RETURN(const std::string key, ReadPem("peers.tls_key", peers.tls_key));
  auto site = SiteTrust::Parse(authorities, certificates, key);
  if (!site.ok()) return Annotate(site.status(), "peers.tls_ca, tls_cert and tls_key");
  return site;
}

absl::StatusOr<std::shared_ptr<const Munge>> MungeOf(const PeerDoor::Options& options) {
  if (options.peers.munge == "off") return std::shared_ptr<const Munge>();
  auto munge = Munge::Load(options.munge_socket);
  if (!munge.ok() && options.peers.munge != "require") return std::shared_ptr<const Munge>();
  if (!munge.ok()) return Annotate(munge.status(), "peers.munge is require");
  return munge;
}

class PeerTrafficImpl final : public PeerTraffic {
 public:
  PeerTrafficImpl(const PeerDoor::Options& options, OnPipe on_pipe, OnGone on_gone)
      : options_(options),
        wall_(options.wall ? options.wall : WallNow),
        on_pipe_(std::move(on_pipe)),
        on_gone_(std::move(on_gone)),
        outlet_(std::make_shared<Outlet>([this](Outlet::Job job) { asio::post(io_, std::move(job)); })),
        guard_(asio::make_work_guard(io_)) {}
  ~PeerTrafficImpl() override { Stop(); }

  absl::Status Open();
  const std::string& address() const override { return address_; }
  void Join(std::shared_ptr<const Authority> authority) override;
  void Leave(const RunId& run) override;
  void Serve(const RunId& run, bool serve) override;
  void Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline, OnDialled done) override;
  void DialLine(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                PeerLines::Dialled done) override;
  void TakeLines(PeerLines::HasRoom has_room, PeerLines::OnLine on_line) override;
  void Stop() override;

 private:
  using ConnectionId = Crowd::Id;

  void StartToAccept();
  asio::awaitable<void> Accept();
  void Welcome(Tcp::socket socket);
  void MakeRoom();
  void Answered(const std::string& peer, PeerConnection::Result result);
  using Proven = std::function<void(absl::StatusOr<ProvenPeer> peer)>;
  void StartDial(const RunId& run, const std::string& address, std::string_view protocol,
                 std::chrono::milliseconds deadline, const Proven& done);
  absl::StatusOr<ProvenPeer> Dialled(const std::string& peer, PeerConnection::Result result);
  static PeerLine LineOf(const std::string& peer, ProvenPeer proven);
  absl::StatusOr<PeerPipe> Carry(const std::string& peer, ProvenPeer proven, bool from_outside);
  PeerConnection::Plan NewPlan(std::chrono::milliseconds deadline);
  void Run();

  const PeerDoor::Options options_;
  const std::function<WallTime()> wall_;
  const OnPipe on_pipe_;
  const OnGone on_gone_;
  std::string address_;
  std::shared_ptr<const SiteTrust> site_;
  std::shared_ptr<const Munge> munge_;

  asio::io_context io_;
  const std::shared_ptr<Outlet> outlet_;  // to the thread
  asio::executor_work_guard<asio::io_context::executor_type> guard_;
  std::unique_ptr<BlockingPool> munge_pool_;  // ends before what it posts to
  TlsContext answering_, dialling_;

  // All below belongs to the thread.
  std::optional<Tcp::acceptor> acceptor_;
  std::map<RunId, std::shared_ptr<MemberProof>> proofs_;
  std::set<RunId> served_;
  Crowd crowd_;  // of connections from outside, by the keys of waiting_
  std::map<ConnectionId, std::weak_ptr<PeerConnection>> waiting_;
  std::map<std::uint64_t, std::weak_ptr<PeerConnection>> dials_;
  std::map<std::uint64_t, std::weak_ptr<TlsPump>> pumps_;
  std::uint64_t last_ = 0;  // key of the two maps above
  std::size_t from_outside_ = 0;
  PeerLines::HasRoom has_room_;
  PeerLines::OnLine on_line_;
  RefusalLog log_;
  bool stopping_ = false;

  std::thread thread_;
};

// --- Start and stop ---

absl::Status PeerTrafficImpl::Open() {
  CAIRN_ASSIGN_OR_RETURN(site_, SiteOf(options_.peers));
  CAIRN_ASSIGN_OR_RETURN(munge_, MungeOf(options_));
  if (munge_ != nullptr) munge_pool_ = MakeBlockingPool(kMungeThreads);
  CAIRN_ASSIGN_OR_RETURN(answering_, MakeTlsContext(TlsSide::kAnswers));
  CAIRN_ASSIGN_OR_RETURN(dialling_, MakeTlsContext(TlsSide::kDials));
  CAIRN_ASSIGN_OR_RETURN(const auto ip, AddressOf(options_.peers.interface));
  CAIRN_ASSIGN_OR_RETURN(const PortRange ports, ParsePorts(options_.peers.ports));
  CAIRN_ASSIGN_OR_RETURN(acceptor_, ListenOn(io_, ip, ports));
  error_code error;
  address_ = TextOf(acceptor_->local_endpoint(error));
  if (error) return Unavailable("peers.interface: {}", error.message());
  StartToAccept();
  thread_ = std::thread([this] { Run(); });
  spdlog::info("peers on {}, mutual TLS 1.3 by {}{}", address_,
               site_ == nullptr ? "each run's own authority" : "the site's authority",
               munge_ == nullptr ? "" : fmt::format(", MUNGE: {}", options_.peers.munge));
  return absl::OkStatus();
}

// What throws fails its own connection.
void PeerTrafficImpl::Run() {
  for (;;) {
    const absl::Status status = Caught([this] { io_.run(); });
    if (status.ok()) return;
    spdlog::error("a step of the peer door failed: {}", MessageOf(status));
  }
}

void PeerTrafficImpl::Stop() {
  outlet_->Post([this] {
    stopping_ = true;
    error_code ignored;  // it is closed, whatever this says
    acceptor_->close(ignored);
    const auto drop = [](const auto& connections) {
      // A copy: who is dropped may take leave at once.
      for (const auto& [id, weak] : std::map(connections)) {
        if (const auto connection = weak.lock()) connection->Drop({Flaw::kBroken, "this daemon goes away"});
      }
    };
    drop(waiting_);
    drop(dials_);
    for (const auto& [id, weak] : pumps_) {
      if (const auto pump = weak.lock()) pump->EndWithin(std::chrono::milliseconds(0));
    }
    guard_.reset();
  });
  outlet_->Close();
  if (thread_.joinable()) thread_.join();
}

// --- Runs ---

void PeerTrafficImpl::Join(std::shared_ptr<const Authority> authority) {
  outlet_->Post([this, authority = std::move(authority)] {
    const PeerIdentity me{.run = authority->run(), .node = options_.node, .incarnation = options_.incarnation};
    proofs_[me.run] = std::make_shared<MemberProof>(authority, me, wall_, options_.validity);
  });
}

void PeerTrafficImpl::Leave(const RunId& run) {
  outlet_->Post([this, run] { proofs_.erase(run); });
}

void PeerTrafficImpl::Serve(const RunId& run, bool serve) {
  outlet_->Post([this, run, serve] {
    if (serve) {
      served_.insert(run);
    } else {
      served_.erase(run);
    }
  });
}

// --- From outside ---

void PeerTrafficImpl::StartToAccept() {
  asio::co_spawn(
      io_, [this] { return Accept(); },
      [this](const std::exception_ptr& thrown) {
        if (thrown == nullptr) return;
        spdlog::error("the peer door ran out of memory");
        StartToAccept();
      });
}

asio::awaitable<void> PeerTrafficImpl::Accept() {
  asio::steady_timer pause(io_);
  for (;;) {
    auto [error, socket] = co_await acceptor_->async_accept(kAwait);
    if (!acceptor_->is_open()) co_return;
    if (!error) {
      const absl::Status welcomed = Caught([this, &socket = socket] { Welcome(std::move(socket)); });
      if (!welcomed.ok()) spdlog::error("a peer's connection was not taken: {}", MessageOf(welcomed));
      continue;
    }
    // Of a peer that has gone again nothing is to be said; else this process, or the node, has too much open.
    if (error == asio::error::connection_aborted) continue;
    log_.Write(address_, {Flaw::kCrowded, fmt::format("no connection can be taken: {}", error.message())}, SteadyNow());
    MakeRoom();
    pause.expires_after(kAcceptPause);
    co_await pause.async_wait(kAwait);
  }
}

void PeerTrafficImpl::MakeRoom() {
  const auto victim = crowd_.Victim();
  if (!victim) return;
  crowd_.Remove(*victim);
  const auto connection = waiting_[*victim].lock();
  if (connection != nullptr) connection->Drop({Flaw::kCrowded, "too many connections wait for their handshake"});
}

void PeerTrafficImpl::Welcome(Tcp::socket socket) {
  error_code error;
  const Tcp::endpoint from = socket.remote_endpoint(error);
  if (error) return;  // it has gone again
  if (crowd_.size() >= options_.handshakes_max) MakeRoom();
  const ConnectionId id = crowd_.Add(PlaceOf(from.address()));
  PeerConnection::Plan plan = NewPlan(options_.handshake);
  plan.on_result = [this, peer = TextOf(from)](PeerConnection::Result result) { Answered(peer, std::move(result)); };
  plan.on_gone = [this, id] {
    crowd_.Remove(id);
    waiting_.erase(id);
  };
  plan.crowded = [this](std::string_view protocol, const PeerIdentity& peer) -> std::string {
    if (protocol == kLinkProtocol) {
      return from_outside_ < options_.links_max ? "" : "there are too many links already";
    }
    if (on_line_ == nullptr) return "no files are served here";
    return has_room_(peer) ? "" : "there are too many connections of it already";
  };
  auto find = [this](const RunId& run) {
    const auto found = served_.contains(run) ? proofs_.find(run) : proofs_.end();
    return found == proofs_.end() ? nullptr : found->second;
  };
  auto tls = std::make_unique<TlsStream>(std::move(socket), answering_.get(), TlsHandshake::Answering(find, site_));
  const auto connection = std::make_shared<PeerConnection>(io_, std::move(tls), std::move(plan));
  waiting_.emplace(id, connection);
  connection->Answer();
}

void PeerTrafficImpl::Answered(const std::string& peer, PeerConnection::Result result) {
  if (stopping_) return;
  if (auto* const refusal = std::get_if<Refusal>(&result)) {
    if (refusal->flaw != Flaw::kBroken) return log_.Write(peer, *refusal, SteadyNow());
    return spdlog::debug("peer {}: {}", peer, refusal->text);
  }
  auto& proven = std::get<ProvenPeer>(result);
  if (proven.protocol != kLinkProtocol) {
    if (on_line_ != nullptr) on_line_(LineOf(peer, std::move(proven)));
    return;
  }
  auto pipe = Carry(peer, std::move(proven), /*from_outside=*/true);
  if (!pipe.ok()) return spdlog::warn("peer {}: {}", peer, MessageOf(pipe.status()));
  on_pipe_(*std::move(pipe));
}

PeerConnection::Plan PeerTrafficImpl::NewPlan(std::chrono::milliseconds deadline) {
  return {.deadline = deadline,
          .munge = munge_,
          .munge_required = options_.peers.munge == "require",
          .munge_pool = munge_pool_.get(),
          .on_result = {},
          .on_gone = {}};
}

// --- From here ---

void PeerTrafficImpl::Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                           OnDialled done) {
  outlet_->Post([this, run, address, deadline, done = std::move(done)] {
    StartDial(run, address, kLinkProtocol, deadline, [this, address, done](absl::StatusOr<ProvenPeer> proven) {
      if (!proven.ok()) return done(proven.status());
      done(Carry(address, *std::move(proven), /*from_outside=*/false));
    });
  });
}

void PeerTrafficImpl::DialLine(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                               PeerLines::Dialled done) {
  outlet_->Post([this, run, address, deadline, done = std::move(done)] {
    StartDial(run, address, kBulkProtocol, deadline, [address, done](absl::StatusOr<ProvenPeer> proven) {
      if (!proven.ok()) return done(proven.status());
      done(LineOf(address, *std::move(proven)));
    });
  });
}

void PeerTrafficImpl::StartDial(const RunId& run, const std::string& address, std::string_view protocol,
                                std::chrono::milliseconds deadline, const Proven& done) {
  const auto proof = proofs_.find(run);
  const auto endpoint = EndpointOf(address);
  if (!endpoint.ok()) return done(Unavailable("{}", MessageOf(endpoint.status())));
  if (proof == proofs_.end()) return done(Unavailable("this daemon takes no part in run {}", run.Hex()));
  if (dials_.size() >= options_.dials_max) {
    return done(Unavailable("{} connections to peers are being made already", dials_.size()));
  }
  const std::uint64_t id = ++last_;
  PeerConnection::Plan plan = NewPlan(deadline);
  plan.on_result = [this, done, address](PeerConnection::Result result) {
    if (!stopping_) done(Dialled(address, std::move(result)));
  };
  plan.on_gone = [this, id] { dials_.erase(id); };
  auto tls = std::make_unique<TlsStream>(Tcp::socket(io_), dialling_.get(),
                                         TlsHandshake::Dialling(proof->second, site_, protocol));
  const auto connection = std::make_shared<PeerConnection>(io_, std::move(tls), std::move(plan));
  dials_.emplace(id, connection);
  connection->Dial(*endpoint);
}

absl::StatusOr<ProvenPeer> PeerTrafficImpl::Dialled(const std::string& peer, PeerConnection::Result result) {
  auto* const refusal = std::get_if<Refusal>(&result);
  if (refusal == nullptr) return std::get<ProvenPeer>(std::move(result));
  const absl::Status status = ToStatus(*refusal);
  if (absl::IsPermissionDenied(status)) log_.Write(peer, *refusal, SteadyNow());
  return Annotate(status, peer);
}

// --- Both ---

void PeerTrafficImpl::TakeLines(PeerLines::HasRoom has_room, PeerLines::OnLine on_line) {
  outlet_->Post([this, has_room = std::move(has_room), on_line = std::move(on_line)] {
    has_room_ = has_room;
    on_line_ = on_line;
  });
}

PeerLine PeerTrafficImpl::LineOf(const std::string& peer, ProvenPeer proven) {
  spdlog::debug("peer {}: for bulk bytes, node {} of run {}", peer, proven.identity.node, proven.identity.run.Hex());
  return TlsStream::TakeOut(std::move(proven.tls), std::move(proven.identity), peer);
}

absl::StatusOr<PeerPipe> PeerTrafficImpl::Carry(const std::string& peer, ProvenPeer proven, bool from_outside) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return Unavailable("no sockets for a link: {}", std::strerror(errno));
  }
  PeerPipe pipe{.fd = UniqueFd(fds[0]),
                .identity = std::move(proven.identity),
                .token = std::move(proven.token),
                .end_within = {},
                .begun = {}};
  UniqueFd other(fds[1]);
  TlsPump::Near near(io_);
  boost::system::error_code refused;  // by epoll, which may be full
  near.assign(asio::local::stream_protocol(), other.get(), refused);
  if (refused) return Unavailable("no sockets for a link: {}", refused.message());
  other.Release();
  const std::uint64_t id = ++last_;
  from_outside_ += from_outside;
  auto gone = [this, id, from_outside, token = pipe.token] {
    pumps_.erase(id);
    if (!from_outside) return;
    --from_outside_;
    if (!stopping_) on_gone_(token);
  };
  const auto pump = std::make_shared<TlsPump>(io_, std::move(proven.tls), std::move(near), std::move(gone));
  pumps_.emplace(id, pump);
  pump->Start();
  if (from_outside) pump->BeginWithin(options_.handshake);
  // By way of the outlet: who holds these may outlive all this.
  const auto post = [outlet = outlet_, weak = std::weak_ptr(pump)](auto act) {
    outlet->Post([weak, act] {
      if (const auto alive = weak.lock()) act(*alive);
    });
  };
  pipe.end_within = [post](std::chrono::milliseconds time) { post([time](TlsPump& it) { it.EndWithin(time); }); };
  pipe.begun = [post] { post([](TlsPump& it) { it.Begun(); }); };
  spdlog::info("peer {}: linked, node {} of run {}", peer, pipe.identity.node, pipe.identity.run.Hex());
  return pipe;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerTraffic>> PeerTraffic::Listen(const PeerDoor::Options& options, OnPipe on_pipe,
                                                                 OnGone on_gone) {
  auto traffic = std::make_unique<PeerTrafficImpl>(options, std::move(on_pipe), std::move(on_gone));
  CAIRN_RETURN_IF_ERROR(traffic->Open());
  return traffic;
}

}  // namespace cairn
