#include "tests/support/cluster/node_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "storage/base/unique_fd.h"
#include "tests/integration/notify_socket.h"

namespace cairn::testing {
namespace {

// Two processes: the one that entered the node, our child, ends as the program ends; signals go to the program.
class NodeProcess final : public Process {
 public:
  NodeProcess(std::unique_ptr<Process> enterer, pid_t pid)
      : enterer_(std::move(enterer)), pid_(pid), program_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  ~NodeProcess() override {
    if (enterer_->running()) Wait(std::chrono::seconds(0));
  }

  bool WaitForOutput(std::string_view text, std::chrono::seconds deadline) override {
    return enterer_->WaitForOutput(text, deadline);
  }
  Ending Wait(std::chrono::seconds deadline) override {
    Ending ending = enterer_->Wait(deadline);
    // At the deadline the enterer was killed; the program dies with it, but a moment later.
    Signal(SIGKILL);
    pollfd poll{.fd = program_.get(), .events = POLLIN, .revents = 0};
    const bool gone = !program_.valid() || ::poll(&poll, 1, 30'000) == 1;
    EXPECT_TRUE(gone) << "process " << pid_ << " cannot be killed";
    return ending;
  }
  void Signal(int signal) override {
    if (program_.valid()) ::syscall(SYS_pidfd_send_signal, program_.get(), signal, nullptr, 0);
  }
  pid_t pid() const override { return pid_; }
  bool running() override { return enterer_->running(); }

 private:
  const std::unique_ptr<Process> enterer_;
  const pid_t pid_;
  const UniqueFd program_;  // none if it had ended before we looked
};

}  // namespace

std::unique_ptr<Process> StartOnNode(const std::string& agent, pid_t there, const std::string& folder,
                                     Process::Options options) {
  static std::atomic<int> starts = 0;
  const std::string path = folder + "/start-" + std::to_string(++starts);
  NotifySocket told(path);
  options.arguments.insert(options.arguments.begin(), {agent, "enter", std::to_string(there), path});
  std::unique_ptr<Process> enterer = Process::Start(options);
  const pid_t pid = enterer ? std::atoi(told.Await(*enterer).c_str()) : 0;
  ::unlink(path.c_str());
  if (pid > 0) return std::make_unique<NodeProcess>(std::move(enterer), pid);
  ADD_FAILURE() << options.arguments[4]
                << " does not start: " << (enterer ? enterer->Wait(std::chrono::seconds(0)).output : "");
  return nullptr;
}

}  // namespace cairn::testing
