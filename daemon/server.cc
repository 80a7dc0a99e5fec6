#include "daemon/server.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <utility>

#include "daemon/arbiter/arbiters.h"
#include "daemon/core/threads.h"
#include "daemon/door/admin_service.h"
#include "daemon/door/ingest_door.h"
#include "daemon/door/local_door.h"
#include "daemon/door/peer_access.h"
#include "storage/base/host_name.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/base/user_name.h"
#include "storage/base/version.h"
#include "storage/io/posix_disk.h"
#include "storage/io/scratch.h"
#include "storage/place/cache/disk_record.h"

namespace cairn {
namespace {

DaemonIdentity NewIdentity() {
  std::random_device random;
  return {.name = fmt::format("cairnd {}", kVersion),
          .incarnation = (std::uint64_t{random()} << 32) | std::uint64_t{random()}};
}

// A crash while the disk was measured may have left the scratch file. It is as large as a small checkpoint, and the
// disk may never be measured again.
void ClearUpAfterProbe(Disk& disk, const std::string& cache) {
  const absl::Status cleared = RemoveScratch(disk, DiskRecordPath(cache, UserName()));
  if (cleared.ok() || absl::IsNotFound(cleared)) return;
  spdlog::warn("what a measurement of the cache's disk has left is not removed: {}", MessageOf(cleared));
}

class ServerImpl : public Server {
 public:
  ServerImpl(const Config& config, Clients clients, const WatchFolders& drains)
      : clients_(clients),
        drains_(drains),
        cache_disk_(MakePosixDisk({.engine = {}, .direct = config.cache.direct})),
        prefix_disk_(MakePosixDisk({.engine = {.may_hang = true}})),
        peers_(MakePeerAccess(config.peers)),
        socket_path_(config.runtime_dir + "/cairnd.sock") {}

  ~ServerImpl() override {
    CloseDoors();
    core_.reset();
  }

  absl::Status Open(const Config& config, std::shared_ptr<Deposits> deposits) {
    ClearUpAfterProbe(*cache_disk_, config.cache.path);
    CAIRN_ASSIGN_OR_RETURN(arbiters_, MakeArbiters(config.arbiter));
    CAIRN_ASSIGN_OR_RETURN(core_, ThreadedCore::Start(config, *cache_disk_, *prefix_disk_, {}, *arbiters_, peers_.get(),
                                                      std::move(deposits), drains_.background()));
    admin_ = AdminService::Make(core_->core(), [this](admin::StatusReply& reply) { drains_.Describe(reply); });
    const DaemonIdentity identity = NewIdentity();
    CAIRN_ASSIGN_OR_RETURN(ingest_door_, IngestDoor::Listen({.node_socket = config.runtime_dir + "/cairnd-grpc.sock",
                                                             .tcp = config.ingest,
                                                             .host = HostName(),
                                                             .without_tcp = clients_ == Clients::kAdmitted,
                                                             .identity = identity},
                                                            core_->core(), admin_.get()));
    if (!ingest_door_->tcp_status().ok()) core_->core().Warn(std::string(MessageOf(ingest_door_->tcp_status())));
    core_->core().Announce(ingest_door_->announcement());
    // Last: who finds this socket finds everything else ready.
    LocalDoor::Options options;
    if (clients_ == Clients::kListenedFor) options.path = socket_path_;
    options.identity = identity;
    CAIRN_ASSIGN_OR_RETURN(local_door_, LocalDoor::Listen(std::move(options), core_->core()));
    return absl::OkStatus();
  }

  void Admit(Door door, UniqueFd connection) override {
    if (door == Door::kLocal) return local_door_->Admit(std::move(connection));
    const absl::Status admitted = ingest_door_->Admit(std::move(connection));
    if (!admitted.ok()) spdlog::warn("a connection that was handed over: {}", MessageOf(admitted));
  }

  void Status(std::function<void(const admin::StatusReply&)> done) override {
    admin::StatusRequest request;
    request.set_this_node_only(true);
    admin::StatusReply drains;
    drains_.Describe(drains);
    core_->core().Status(request, [drains = std::move(drains), done = std::move(done)](admin::StatusReply reply) {
      reply.MergeFrom(drains);
      done(reply);
    });
  }

  std::size_t connections() const override { return local_door_->connections(); }

  bool Quiesce() override {
    local_door_->StopAccepting();
    ingest_door_->StopAccepting();
    return core_->Quiesce();
  }

  absl::Status Stop() override {
    CloseDoors();
    return core_->Stop();
  }

  void Reload(const Config& config) override { core_->core().Reload(config); }
  const std::string& socket_path() const override { return socket_path_; }

 private:
  void CloseDoors() {
    local_door_.reset();
    ingest_door_.reset();
    admin_.reset();
  }

  const Clients clients_;
  const WatchFolders& drains_;
  std::unique_ptr<Disk> cache_disk_, prefix_disk_;
  std::shared_ptr<const Arbiters> arbiters_;
  std::unique_ptr<PeerAccess> peers_;
  std::string socket_path_;
  std::unique_ptr<ThreadedCore> core_;
  std::unique_ptr<AdminService> admin_;
  std::unique_ptr<IngestDoor> ingest_door_;
  std::unique_ptr<LocalDoor> local_door_;
};

}  // namespace

absl::StatusOr<std::vector<LockFile>> TakeLocks(const Config& config) {
  constexpr std::chrono::seconds kPatience(2);  // one that was just killed may not be quite gone
  std::vector<LockFile> locks;
  for (const std::string& path :
       {config.runtime_dir + "/cairnd.lock", fmt::format("{}/cairnd.{}.lock", config.cache.path, ::geteuid())}) {
    CAIRN_ASSIGN_OR_RETURN(LockFile lock, LockFile::Take(path, kPatience));
    locks.push_back(std::move(lock));
  }
  // Whose this is could put another cache there.
  CAIRN_RETURN_IF_ERROR(CheckOwner(ParentOf(config.cache.path)));
  return locks;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const Config& config, Clients clients,
                                                      std::shared_ptr<Deposits> deposits, const WatchFolders& drains) {
  auto server = std::make_unique<ServerImpl>(config, clients, drains);
  CAIRN_RETURN_IF_ERROR(server->Open(config, std::move(deposits)));
  return server;
}

}  // namespace cairn
