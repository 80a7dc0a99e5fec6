// One connection that a peer has dialled: its questions are answered, in order. While one answer goes out the next is
// read from disk. Internal to this folder: brings Asio.
//
// Bounds: questions are taken only while fewer than `serving_windows_each` answers are being made or sent; a peer that
// does not take an answer in time, or asks nothing for long, loses the connection.
#ifndef CAIRN_DAEMON_BULK_ANSWERING_H_
#define CAIRN_DAEMON_BULK_ANSWERING_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "daemon/bulk/bulk.h"
#include "daemon/bulk/bulk_stream.h"
#include "daemon/bulk/bulk_thread.h"
#include "daemon/bulk/served_files.h"
#include "daemon/bulk/windows.h"
#include "daemon/core/loop.h"

namespace cairn {

// What all such connections share. Outlives the threads.
struct AnsweringShare {
  explicit AnsweringShare(const BulkOptions& its_options);

  const BulkOptions options;
  ServedFiles files;
  const std::shared_ptr<Windows> windows;
  const std::unique_ptr<BlockingPool> pool;  // ends first
};

class Answering final : public BulkConnection, public std::enable_shared_from_this<Answering> {
 public:
  Answering(AnsweringShare& share, BulkThread& thread, std::unique_ptr<TlsStream> tls, PeerIdentity peer,
            std::string address, std::function<void()> on_gone);

  void Start();
  void Close() override;

 private:
  template <typename T>
  using Awaitable = boost::asio::awaitable<T>;
  struct Job;

  Awaitable<void> TakeQuestions();
  Awaitable<void> GiveAnswers();
  void Prepare(const std::shared_ptr<Job>& job);
  void GiveUpWhenQuiet();
  void End(absl::Status why);

  AnsweringShare& share_;
  BulkThread& thread_;
  BulkStream stream_;
  const PeerIdentity peer_;
  const std::string address_;
  const std::function<void()> on_gone_;
  const std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);  // nothing needs a disk
  std::deque<std::shared_ptr<Job>> jobs_;  // in the order of the questions
  Signal job_taken_, job_done_;
  Deadline take_, quiet_;
  int ways_ = 2;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_ANSWERING_H_
