// A core that answers the Admin service as it was told, and remembers what it was asked. Faults it can make: an error
// for any question, and an answer to Wait or Status that comes late or never.
#ifndef CAIRN_TESTS_DAEMON_DOOR_FAKE_CORE_H_
#define CAIRN_TESTS_DAEMON_DOOR_FAKE_CORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/core.h"

namespace cairn::testing {

class FakeCore : public Core {
 public:
  void Attach(std::shared_ptr<Connection>) override {}
  void Receive(const std::shared_ptr<Connection>&, std::unique_ptr<local::Request>) override {}
  void Detach(const std::shared_ptr<Connection>&) override {}
  void Quiesce(std::function<void(bool)> done) override { done(true); }
  void Stop(std::function<void()> done) override { done(); }
  void Reload(const Config&) override {}
  void Announce(std::string) override {}
  void Warn(std::string) override {}

  void Status(const admin::StatusRequest& request, std::function<void(admin::StatusReply)> done) override {
    this_node_only = request.this_node_only();
    if (!hold_status) {
      ++status_count;
      return done(status);
    }
    const std::lock_guard lock(mutex_);
    held_.push_back([this, done = std::move(done)] { done(status); });
    ++status_count;
  }
  void List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) override {
    this_node_only = request.this_node_only();
    Note("list " + request.run());
    done(list);
  }
  void Show(const admin::DatasetRequest& request, std::function<void(absl::StatusOr<admin::ShowReply>)> done) override {
    this_node_only = request.this_node_only();
    Note("show " + request.run() + " " + std::to_string(request.dataset()));
    done(show);
  }
  void Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) override {
    const std::string question = "wait " + request.run() + " " + std::to_string(request.dataset()) + " " +
                                 std::to_string(request.level()) + " " + std::to_string(request.timeout_ms());
    if (!hold_waits) {
      Note(question);
      return done(wait);
    }
    // In one step: who sees the question in asked() may answer it at once.
    const std::lock_guard lock(mutex_);
    asked_.push_back(question);
    held_.push_back([this, done = std::move(done)] { done(wait); });
  }
  void Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) override {
    Note("flush " + request.run() + " " + std::to_string(request.dataset()));
    done(flush);
  }
  void Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) override {
    Note("pin " + request.run() + " " + std::to_string(request.dataset()) + (request.pinned() ? " on" : " off"));
    done(pin);
  }
  void Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) override {
    const bool aside = request.set_aside() != admin::RemoveRequest::NONE;
    Note("rm " + request.run() + " " + std::to_string(request.dataset()) +
         (aside ? " aside " + std::to_string(request.set_aside()) : ""));
    done(remove);
  }
  void Leave(const admin::LeaveRequest& request, std::function<void(admin::LeaveReply)> done) override {
    Note("leave " + request.run() + (request.to_prefix() ? " to the prefix" : ""));
    done(leave);
  }
  void Rebuild(const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) override {
    Note("rebuild " + request.run() + " " + std::to_string(request.dataset()));
    done(rebuild);
  }
  void Nodes(const admin::NodesRequest& request, std::function<void(absl::StatusOr<admin::NodesReply>)> done) override {
    Note("nodes " + request.run());
    done(nodes);
  }

  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // Answers what was held.
  void AnswerHeld() {
    std::vector<std::function<void()>> held;
    {
      const std::lock_guard lock(mutex_);
      held.swap(held_);
    }
    for (const auto& answer : held) answer();
  }

  // Set while nothing is asked.
  admin::StatusReply status;
  absl::StatusOr<admin::ListReply> list = admin::ListReply();
  absl::StatusOr<admin::ShowReply> show = admin::ShowReply();
  absl::StatusOr<admin::NodesReply> nodes = admin::NodesReply();
  admin::WaitReply wait;
  admin::FlushReply flush;
  admin::PinReply pin;
  admin::RemoveReply remove;
  admin::RebuildReply rebuild;
  admin::LeaveReply leave;
  bool hold_waits = false;
  bool hold_status = false;
  std::atomic<int> status_count{0};
  std::atomic<bool> this_node_only{false};  // as Status, List or Show was asked last

 private:
  void Note(std::string question) {
    const std::lock_guard lock(mutex_);
    asked_.push_back(std::move(question));
  }

  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<std::function<void()>> held_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_DOOR_FAKE_CORE_H_
