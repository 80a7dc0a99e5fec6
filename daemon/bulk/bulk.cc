#include "daemon/bulk/bulk.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/bulk/answering.h"
#include "daemon/bulk/bulk_thread.h"
#include "daemon/bulk/peer_calls.h"
#include "daemon/bulk/peer_disk.h"
#include "daemon/door/outlet.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// How many connections are answered, of each node and in all. Thread-safe.
class Guests {
 public:
  Guests(std::size_t max, std::size_t per_node_max) : max_(max), per_node_max_(per_node_max) {}

  bool HasRoom(const PeerIdentity& peer) {
    const absl::MutexLock lock(&mutex_);
    const auto found = of_node_.find({peer.run, peer.node});
    return all_ < max_ && (found == of_node_.end() || found->second < per_node_max_);
  }
  // Those that were let in together may be a few too many.
  void Enter(const PeerIdentity& peer) {
    const absl::MutexLock lock(&mutex_);
    ++all_;
    ++of_node_[{peer.run, peer.node}];
  }
  void Leave(const PeerIdentity& peer) {
    const absl::MutexLock lock(&mutex_);
    --all_;
    const auto found = of_node_.find({peer.run, peer.node});
    if (--found->second == 0) of_node_.erase(found);
  }

 private:
  const std::size_t max_, per_node_max_;
  absl::Mutex mutex_;
  std::size_t all_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<RunId, std::string>, std::size_t> of_node_ ABSL_GUARDED_BY(mutex_);
};

class BulkImpl final : public BulkNet {
 public:
  BulkImpl(const BulkOptions& options, PeerLines& lines)
      : options_(options),
        lines_(lines),
        share_(options),
        guests_(options.serving_max, options.serving_per_node_max),
        gate_(std::make_shared<Outlet>([](const Outlet::Job& job) { job(); })) {
    for (std::size_t i = 0; i < std::max<std::size_t>(options.threads, 1); ++i) {
      threads_.push_back(std::make_unique<BulkThread>());
    }
    lines_.TakeLines(
        [this, gate = gate_](const PeerIdentity& peer) {
          bool room = false;
          gate->Post([&] { room = guests_.HasRoom(peer); });
          return room;
        },
        [this, gate = gate_](PeerLine line) {
          const auto shared = std::make_shared<PeerLine>(std::move(line));
          gate->Post([this, shared] { Answer(std::move(*shared)); });
        });
  }
  ~BulkImpl() override;

  std::shared_ptr<Disk> DiskOf(const RunId& run, const std::string& node, const std::string& address) override;
  void Serve(const RunId& run, Disk& disk, const std::string& folder) override {
    share_.files.Serve(run, disk, folder);
  }
  void Unserve(const RunId& run) override { share_.files.Unserve(run); }

 private:
  void Answer(PeerLine line);

  const BulkOptions options_;
  PeerLines& lines_;
  AnsweringShare share_;
  Guests guests_;
  const std::shared_ptr<Outlet> gate_;  // for the door's thread: whoever comes later is not let in
  std::vector<std::unique_ptr<BulkThread>> threads_;
  std::size_t answered_ = 0;  // of the door's thread

  absl::Mutex mutex_;
  std::map<std::tuple<RunId, std::string, std::string>, std::weak_ptr<PeerCalls>> peers_ ABSL_GUARDED_BY(mutex_);
};

BulkImpl::~BulkImpl() {
  lines_.TakeLines(nullptr, nullptr);
  gate_->Close();
  {
    const absl::MutexLock lock(&mutex_);
    for (const auto& [key, weak] : peers_) {
      if (const auto calls = weak.lock()) calls->Close();
    }
  }
  share_.windows->Close();
  for (const auto& thread : threads_) thread->Stop();
}

std::shared_ptr<Disk> BulkImpl::DiskOf(const RunId& run, const std::string& node, const std::string& address) {
  const absl::MutexLock lock(&mutex_);
  std::erase_if(peers_, [](const auto& entry) { return entry.second.expired(); });
  auto& known = peers_[{run, node, address}];
  auto calls = known.lock();
  if (calls == nullptr) {
    std::vector<BulkThread*> threads;
    for (const auto& thread : threads_) threads.push_back(thread.get());
    known = calls = std::make_shared<PeerCalls>(options_, std::move(threads), lines_, run, node, address);
  }
  return MakePeerDisk(std::move(calls));
}

// On the door's thread.
void BulkImpl::Answer(PeerLine line) {
  const PeerIdentity peer = line.peer;
  const std::string address = line.address;
  BulkThread* const thread = threads_[answered_++ % threads_.size()].get();
  auto tls = TlsStream::Continue(thread->io(), std::move(line));
  if (!tls.ok()) return spdlog::warn("peer {}: {}", address, MessageOf(tls.status()));
  guests_.Enter(peer);
  auto answering = std::make_shared<Answering>(share_, *thread, *std::move(tls), peer, address,
                                               [this, peer] { guests_.Leave(peer); });
  thread->outlet()->Post([thread, answering] {
    thread->Add(answering);
    answering->Start();
  });
}

}  // namespace

std::unique_ptr<BulkNet> MakeBulk(const BulkOptions& options, PeerLines& lines) {
  return std::make_unique<BulkImpl>(options, lines);
}

}  // namespace cairn
