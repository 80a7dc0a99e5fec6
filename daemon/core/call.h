// A request that is being answered: the reply goes out once, at the latest when the deadline passes. Strand only.
#ifndef CAIRN_DAEMON_CORE_CALL_H_
#define CAIRN_DAEMON_CORE_CALL_H_

#include <absl/status/status.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "daemon/core/door.h"
#include "daemon/core/loop.h"
#include "proto/local.pb.h"
#include "storage/base/unique_fd.h"

namespace cairn {

// The code that a client sees for an absl status (kAborted: the dataset FAILED; kUnimplemented: UNSUPPORTED).
local::Code CodeOf(const absl::Status& status);
void SetStatus(const absl::Status& status, local::Status* out);

class Call : public std::enable_shared_from_this<Call> {
 public:
  static std::shared_ptr<Call> Make(Loop& loop, std::shared_ptr<Connection> connection, std::uint64_t number,
                                    std::chrono::milliseconds deadline);

  std::uint64_t number() const { return number_; }
  bool answered() const { return answered_; }
  std::chrono::milliseconds deadline() const { return deadline_; }  // from when it was made
  const std::shared_ptr<Connection>& connection() const { return connection_; }

  // What it is waiting for now: the deadline's error says "<what> did not come within N ms".
  void WaitingFor(std::string what) { waiting_for_ = std::move(what); }
  // Runs when the deadline has passed, after the reply has gone out; let go of when there is a reply before.
  void OnExpired(std::function<void()> job) { on_expired_ = std::move(job); }

  // The last reply. A second one is dropped: the deadline may have come first.
  void Reply(local::Reply reply, SharedFd descriptor = nullptr);
  void Fail(const absl::Status& status);
  void Fail(local::Code code, std::string message);
  // Nobody is there to hear it any more: as if the deadline had passed, but nothing is sent.
  void Abandon();
  // A reply that is not the last one (Released, Ready, plans).
  void Push(local::Reply reply, SharedFd descriptor = nullptr);

 private:
  Call(Loop& loop, std::shared_ptr<Connection> connection, std::uint64_t number);
  void Expire(std::chrono::milliseconds deadline);
  bool Finish();

  Loop& loop_;
  std::shared_ptr<Connection> connection_;
  const std::uint64_t number_;
  bool answered_ = false;
  std::chrono::milliseconds deadline_{0};
  Loop::TimerId timer_ = 0;
  std::string waiting_for_ = "the daemon's answer";
  std::function<void()> on_expired_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_CALL_H_
