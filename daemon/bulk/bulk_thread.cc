#include "daemon/bulk/bulk_thread.h"

#include <spdlog/spdlog.h>

#include <boost/asio/post.hpp>

#include <utility>

#include "storage/base/caught.h"
#include "storage/base/status.h"

namespace cairn {

BulkThread::BulkThread()
    : guard_(boost::asio::make_work_guard(io_)),
      outlet_(std::make_shared<Outlet>([this](Outlet::Job job) { boost::asio::post(io_, std::move(job)); })),
      thread_([this] { Run(); }) {}

// What throws fails its own connection.
void BulkThread::Run() {
  for (;;) {
    const absl::Status status = Caught([this] { io_.run(); });
    if (status.ok()) return;
    spdlog::error("a step of a bulk connection failed: {}", MessageOf(status));
  }
}

void BulkThread::Add(const std::shared_ptr<BulkConnection>& connection) {
  std::erase_if(connections_, [](const auto& entry) { return entry.second.expired(); });
  connections_[connection.get()] = connection;
  if (stopping_) connection->Close();
}

void BulkThread::Stop() {
  outlet_->Post([this] {
    stopping_ = true;
    for (const auto& [key, weak] : std::exchange(connections_, {})) {
      if (const auto connection = weak.lock()) connection->Close();
    }
    guard_.reset();
  });
  outlet_->Close();
  if (thread_.joinable()) thread_.join();
}

}  // namespace cairn
