// What is asked of one peer, and the connections that it is asked over: who asks puts a call here, connections take
// questions out of it, and it makes as many connections as there is work for. Thread-safe.
//
// A call of READ becomes questions of a window each, only as connections take them. A question whose connection ends
// before the answer is asked once more; if a connection that was made after that ends, too, the call fails. (When all
// connections end at once, the question may meet several of them.)
#ifndef CAIRN_DAEMON_BULK_PEER_CALLS_H_
#define CAIRN_DAEMON_BULK_PEER_CALLS_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/bulk/bulk.h"
#include "proto/bulk.pb.h"
#include "storage/base/clock.h"

namespace cairn {

class Asking;
class BulkThread;

struct PeerCall {
  bulk::Request request;        // of READ without `offset` and `bytes`
  std::uint64_t offset = 0;     // READ
  std::span<std::byte> target;  // READ; not empty; its owner's until `done`
  // Once, on a thread of the network or of who has called. `payload`: LIST.
  std::function<void(absl::Status status, const bulk::Answer& answer, const std::string& payload)> done;
};

class PeerCalls : public std::enable_shared_from_this<PeerCalls> {
 public:
  // The peer is `node` of `run`, at `address`. `threads` and `lines` are not used once Close has returned.
  PeerCalls(const BulkOptions& options, std::vector<BulkThread*> threads, PeerLines& lines, RunId run, std::string node,
            std::string address);

  void Start(PeerCall call);
  // Calls that no connection has taken end now, the others with their connections.
  void Close();
  const std::string& title() const { return title_; }  // "node 0123… at 10.0.0.7:17600"

  // --- For connections ---

  struct Pending;  // a call that is under way
  struct Question {
    std::shared_ptr<Pending> call;
    std::uint64_t offset = 0;
    std::span<std::byte> target = {};
    std::uint64_t lost = 0;  // the newest connection when its own has ended; 0: it has not
    bulk::Request ToRequest(std::uint64_t id) const;
    bool wants_names() const;
    const std::string& name() const;
  };
  // None: there is nothing to ask. Then, and if it says that it would `rest`, the connection is woken (Asking::Wake)
  // when there is.
  std::optional<Question> Take(std::uint64_t connection, bool rest);
  void Answered(const Question& question, const absl::Status& status, const bulk::Answer& answer,
                const std::string& payload = {});
  // True: it may go. False: it is about to be woken.
  bool MayLeave(std::uint64_t connection);
  // Its last call, whether or not it may. `unanswered`: what it has taken.
  void Ended(std::uint64_t connection, std::vector<Question> unanswered, const absl::Status& why);

 private:
  struct Connection {
    std::shared_ptr<Asking> asking;
    BulkThread* thread = nullptr;
    bool rests = false;
  };
  using Ends = std::vector<std::function<void()>>;  // callbacks, to be run without the mutex

  void Work() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Dialled(absl::StatusOr<PeerLine> line);
  absl::Status Begin(absl::StatusOr<PeerLine> line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailWaiting(const absl::Status& why, Ends& ends) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fail(const std::shared_ptr<Pending>& call, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndIfOver(const std::shared_ptr<Pending>& call, Ends& ends) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const BulkOptions options_;
  const std::vector<BulkThread*> threads_;
  PeerLines& lines_;
  const RunId run_;
  const std::string node_, address_, title_;

  absl::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<Question> again_ ABSL_GUARDED_BY(mutex_);                    // first
  std::deque<std::shared_ptr<Pending>> waiting_ ABSL_GUARDED_BY(mutex_);  // not all of it was asked
  std::size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;  // questions that connections have
  std::map<std::uint64_t, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::size_t dials_ ABSL_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point dial_again_ ABSL_GUARDED_BY(mutex_){};  // not before, if there is a connection
  std::uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_PEER_CALLS_H_
