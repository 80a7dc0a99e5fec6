#include "daemon/door/peer_door.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/door/outlet.h"
#include "daemon/door/peer_link.h"
#include "daemon/door/peer_stream.h"
#include "daemon/door/peer_traffic.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// Connections whose peer has not begun its stream yet.
class Arrivals {
 public:
  void Add(const std::string& token, PeerPipe pipe) {
    const absl::MutexLock lock(&mutex_);
    pipes_.emplace(token, std::move(pipe));
  }
  std::optional<PeerPipe> Take(std::string_view token) {
    const absl::MutexLock lock(&mutex_);
    const auto found = pipes_.find(token);
    if (found == pipes_.end()) return std::nullopt;
    PeerPipe pipe = std::move(found->second);
    pipes_.erase(found);
    return pipe;
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, PeerPipe, std::less<>> pipes_ ABSL_GUARDED_BY(mutex_);
};

class PeerDoorImpl final : public PeerDoor, private PeerLines {
 public:
  PeerDoorImpl(Options options, Loop& loop)
      : options_(std::move(options)), strand_(std::make_shared<Outlet>([&loop, open = open_](Outlet::Job job) {
          loop.Post([open, job = std::move(job)] {
            if (*open) job();
          });
        })) {}
  ~PeerDoorImpl() override;

  absl::Status Open();
  void Join(std::shared_ptr<const Authority> authority) override { traffic_->Join(std::move(authority)); }
  void Leave(const RunId& run) override { traffic_->Leave(run); }
  void Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
            PeerNet::Dialled done) override;
  void Serve(const RunId& run, OnLink on_link) override;
  std::string address() const override { return traffic_->address(); }
  PeerLines& lines() override { return *this; }

 private:
  void DialLine(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                PeerLines::Dialled done) override {
    traffic_->DialLine(run, address, deadline, std::move(done));
  }
  void TakeLines(HasRoom has_room, PeerLines::OnLine on_line) override {
    traffic_->TakeLines(std::move(has_room), std::move(on_line));
  }

  std::shared_ptr<LinkEnd> EndOf(const PeerPipe& pipe) const;
  void Arrived(PeerPipe pipe);
  std::shared_ptr<LinkEnd> Claimed(std::string_view token);

  const Options options_;
  // Of the strand, and shared with what is posted there: that may come to run when the door is gone.
  const std::shared_ptr<bool> open_ = std::make_shared<bool>(true);
  const std::shared_ptr<std::map<RunId, OnLink>> served_ = std::make_shared<std::map<RunId, OnLink>>();
  const std::shared_ptr<Outlet> strand_;
  Arrivals arrivals_;
  std::unique_ptr<PeerServer> server_;
  std::unique_ptr<PeerTraffic> traffic_;
};

absl::Status PeerDoorImpl::Open() {
  CAIRN_ASSIGN_OR_RETURN(server_,
                         PeerServer::Start(options_, [this](std::string_view token) { return Claimed(token); }));
  CAIRN_ASSIGN_OR_RETURN(traffic_, PeerTraffic::Listen(
                                       options_, [this](PeerPipe pipe) { Arrived(std::move(pipe)); },
                                       [this](const std::string& token) { arrivals_.Take(token); }));
  return absl::OkStatus();
}

PeerDoorImpl::~PeerDoorImpl() {
  *open_ = false;
  served_->clear();
  strand_->Close();
  if (traffic_ != nullptr) traffic_->Stop();
  server_.reset();
}

std::shared_ptr<LinkEnd> PeerDoorImpl::EndOf(const PeerPipe& pipe) const {
  return std::make_shared<LinkEnd>(LinkEnd::Plan{.peer = pipe.identity,
                                                 .strand = strand_,
                                                 .end_within = pipe.end_within,
                                                 .drain = options_.drain,
                                                 .frame_bytes_max = options_.frame_bytes_max,
                                                 .queue_bytes_max = options_.queue_bytes_max});
}

void PeerDoorImpl::Dial(const RunId& run, const std::string& address, std::chrono::milliseconds deadline,
                        PeerNet::Dialled done) {
  traffic_->Dial(run, address, deadline, [this, done = std::move(done)](absl::StatusOr<PeerPipe> pipe) {
    if (!pipe.ok()) {
      strand_->Post([done, status = pipe.status()] { done(status); });
      return;
    }
    auto end = EndOf(*pipe);
    BeginLink(*std::move(pipe), options_, end);
    // If nobody is told of it, it is closed with what would have been told.
    auto link = std::make_shared<std::unique_ptr<PeerLink>>(LinkEnd::Own(std::move(end)));
    strand_->Post([done, link] { done(std::move(*link)); });
  });
}

void PeerDoorImpl::Serve(const RunId& run, OnLink on_link) {
  traffic_->Serve(run, on_link != nullptr);
  if (on_link == nullptr) {
    served_->erase(run);
  } else {
    (*served_)[run] = std::move(on_link);
  }
}

// On the door's thread.
void PeerDoorImpl::Arrived(PeerPipe pipe) {
  UniqueFd fd = std::move(pipe.fd);
  const std::string token = pipe.token;
  arrivals_.Add(token, std::move(pipe));  // first: the stream may be there already
  server_->Take(std::move(fd));
}

// On one of gRPC's.
std::shared_ptr<LinkEnd> PeerDoorImpl::Claimed(std::string_view token) {
  const auto pipe = arrivals_.Take(token);
  if (!pipe) return nullptr;
  pipe->begun();
  auto end = EndOf(*pipe);
  auto link = std::make_shared<std::unique_ptr<PeerLink>>(LinkEnd::Own(end));
  strand_->Post([served = served_, run = pipe->identity.run, link] {
    const auto found = served->find(run);
    if (found != served->end()) OnLink(found->second)(std::move(*link));
  });
  return end;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerDoor>> PeerDoor::Listen(Options options, Loop& loop) {
  auto door = std::make_unique<PeerDoorImpl>(std::move(options), loop);
  CAIRN_RETURN_IF_ERROR(door->Open());
  return door;
}

}  // namespace cairn
