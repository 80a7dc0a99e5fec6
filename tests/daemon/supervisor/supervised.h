// A supervisor in a process of its own, in folders of its own, and users who connect to it. For root alone.
#ifndef CAIRN_TESTS_DAEMON_SUPERVISOR_SUPERVISED_H_
#define CAIRN_TESTS_DAEMON_SUPERVISOR_SUPERVISED_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "daemon/supervisor/supervisor.h"
#include "proto/supervisor.h"
#include "storage/base/unique_fd.h"

namespace cairn::testing {

class Supervised : public ::testing::Test {
 protected:
  static constexpr uid_t kAlice = 41'001, kBob = 41'002, kCarol = 41'003, kNobodyKnows = 41'999;

  void SetUp() override;
  void TearDown() override;

  // Starts it, with odd_worker in place of workers; fails the test if it does not become ready.
  void Start(const std::function<void(Supervisor::Options*)>& change = {});
  void Signal(int signal) const;
  // How it ended, as waitpid says.
  int Wait();
  std::string Log() const;
  bool LogSays(std::string_view text) const;  // within a few seconds

  // Connects as `user`, from this process.
  UniqueFd Connect(uid_t user, const std::string& socket = kLocalSocketName) const;
  // Says `word`, and returns all that comes until `text` is there, the end, or the deadline.
  std::string Ask(uid_t user, const std::string& word) const;
  static void SayWord(const UniqueFd& connection, const std::string& word);
  static std::string Hear(const UniqueFd& connection, std::chrono::milliseconds deadline = std::chrono::seconds(10));
  // The process of the worker that answers; 0: none does.
  pid_t WorkerOf(uid_t user) const;

  struct Rows {
    SupervisorStatus head{};
    std::vector<WorkerStatus> rows;
    const WorkerStatus* of(uid_t user) const;
  };
  Rows Status() const;

  std::string folder_;
  pid_t pid_ = 0;
};

// Waits until it holds; false: it does not within ten seconds.
bool Within(const std::function<bool()>& holds, std::chrono::milliseconds deadline = std::chrono::seconds(10));

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_DAEMON_SUPERVISOR_SUPERVISED_H_
