// One connection to a peer that we have dialled: takes questions, sends them, and reads the answers, which come in the
// same order. Internal to this folder: brings Asio.
#ifndef CAIRN_DAEMON_BULK_ASKING_H_
#define CAIRN_DAEMON_BULK_ASKING_H_

#include <deque>
#include <memory>
#include <string>

#include "daemon/bulk/bulk_stream.h"
#include "daemon/bulk/bulk_thread.h"
#include "daemon/bulk/peer_calls.h"

namespace cairn {

// All on its thread. Keeps itself, and the peer's calls, until it has ended.
class Asking final : public BulkConnection, public std::enable_shared_from_this<Asking> {
 public:
  Asking(const BulkOptions& options, BulkThread& thread, std::unique_ptr<TlsStream> tls,
         std::shared_ptr<PeerCalls> calls, std::uint64_t id);

  void Start();
  void Wake();
  void Close() override;

 private:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  using Question = PeerCalls::Question;

  Awaitable<absl::Status> Run();
  Awaitable<absl::Status> AskMore();
  Awaitable<absl::Status> Rest();
  Awaitable<absl::Status> TakeAnswer();
  Awaitable<absl::Status> TakePayload(const Question& question, const bulk::Answer& answer, std::size_t bytes,
                                      std::string& names);
  void Expect();  // an answer, in time

  const BulkOptions options_;
  BulkThread& thread_;
  BulkStream stream_;
  const std::shared_ptr<PeerCalls> calls_;
  const std::uint64_t id_;
  std::deque<Question> unanswered_;
  std::uint64_t asked_ = 0, answered_ = 0;
  bool woken_ = false;
  Deadline deadline_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_ASKING_H_
