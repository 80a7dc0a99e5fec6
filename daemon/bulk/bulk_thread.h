// A thread of the network, with the connections that live on it. Internal to this folder: brings Asio.
#ifndef CAIRN_DAEMON_BULK_BULK_THREAD_H_
#define CAIRN_DAEMON_BULK_BULK_THREAD_H_

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <functional>
#include <map>
#include <memory>
#include <thread>

#include "daemon/door/outlet.h"

namespace cairn {

// A connection ends itself, or is closed by its thread.
class BulkConnection {
 public:
  virtual ~BulkConnection() = default;
  virtual void Close() = 0;  // at once; on its thread
};

class BulkThread {
 public:
  BulkThread();
  ~BulkThread() { Stop(); }

  boost::asio::io_context& io() { return io_; }
  // Outlives the thread: what is posted later is dropped.
  const std::shared_ptr<Outlet>& outlet() const { return outlet_; }
  // On this thread: it is closed when the thread stops, at once if that was before.
  void Add(const std::shared_ptr<BulkConnection>& connection);
  // Closes all connections, and returns when they have ended. Not on the thread.
  void Stop();

 private:
  void Run();

  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
  const std::shared_ptr<Outlet> outlet_;
  std::map<BulkConnection*, std::weak_ptr<BulkConnection>> connections_;  // of the thread; some have ended
  bool stopping_ = false;                                                 // of the thread
  std::thread thread_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_BULK_BULK_THREAD_H_
