// A core that only takes notes. Faults it can make: it can keep every request's connection pointer, as a core that does
// not get on with its work does; and it can answer nothing.
#ifndef CAIRN_TESTS_DAEMON_DOOR_FAKE_RECEIVER_H_
#define CAIRN_TESTS_DAEMON_DOOR_FAKE_RECEIVER_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "daemon/core/door.h"

namespace cairn::testing {

class FakeReceiver : public Receiver {
 public:
  using ConnectionPtr = std::shared_ptr<Connection>;

  // Every wait in these tests ends: with what was expected, or with false after this time.
  static constexpr auto kPatience = std::chrono::seconds(20);

  void Attach(ConnectionPtr connection) override {
    const std::lock_guard lock(mutex_);
    attached_.push_back(std::move(connection));
    changed_.notify_all();
  }

  void Receive(const ConnectionPtr& connection, std::unique_ptr<local::Request> request) override {
    if (on_request) on_request(connection, *request);
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(request));
    if (keep_pointers_) pointers_.push_back(connection);
    changed_.notify_all();
  }

  void Detach(const ConnectionPtr& connection) override {
    const std::lock_guard lock(mutex_);
    detached_.push_back(connection.get());
    changed_.notify_all();
  }

  // Waits for the n-th (from 1) connection; null: it did not come.
  ConnectionPtr Attached(std::size_t n) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kPatience, [&] { return attached_.size() >= n; })) return nullptr;
    return attached_[n - 1];
  }
  bool WaitRequests(std::size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return requests_.size() >= n; });
  }
  bool WaitDetached(std::size_t n) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return detached_.size() >= n; });
  }
  std::size_t attached() { return Count(attached_); }
  std::size_t requests() { return Count(requests_); }
  std::size_t detached() { return Count(detached_); }
  local::Request Request(std::size_t index) {
    const std::lock_guard lock(mutex_);
    return *requests_.at(index);
  }

  void KeepPointers() {
    const std::lock_guard lock(mutex_);
    keep_pointers_ = true;
  }
  // Forgets those that were kept and keeps no more.
  void DropPointers() {
    std::vector<ConnectionPtr> dropped;
    const std::lock_guard lock(mutex_);
    keep_pointers_ = false;
    dropped.swap(pointers_);
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    attached_.clear();
  }

  // Runs on the door's thread, before the request is noted. Set before the door is opened.
  std::function<void(const ConnectionPtr&, const local::Request&)> on_request;

 private:
  template <typename T>
  std::size_t Count(const std::vector<T>& list) {
    const std::lock_guard lock(mutex_);
    return list.size();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ConnectionPtr> attached_;
  std::vector<std::unique_ptr<local::Request>> requests_;
  std::vector<ConnectionPtr> pointers_;
  std::vector<Connection*> detached_;
  bool keep_pointers_ = false;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_DOOR_FAKE_RECEIVER_H_
