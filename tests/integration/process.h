// A process that a test started: its output, its end. It dies with the test.
#ifndef CAIRN_TESTS_INTEGRATION_PROCESS_H_
#define CAIRN_TESTS_INTEGRATION_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::testing {

// How it ended: `exit_code`, or the signal that killed it; both -1 if it was still running at the deadline.
struct Ending {
  int exit_code = -1;
  int signal = -1;
  std::string output;  // standard output and error, as they came
};

class Process {
 public:
  struct Options {
    std::vector<std::string> arguments;  // [0]: the program, looked for in PATH
    std::map<std::string, std::string>
        environment;                // beyond PATH, HOME and the sanitizers' variables; nothing else is passed
    std::string working_directory;  // empty: the test's
  };

  // Ends the test with a failure if the program cannot be started.
  static std::unique_ptr<Process> Start(const Options& options);

  // Waits until the output contains `text`; false at its end or the deadline.
  virtual bool WaitForOutput(std::string_view text, std::chrono::seconds deadline = std::chrono::seconds(60)) = 0;
  // Waits for its end; at the deadline it is killed.
  virtual Ending Wait(std::chrono::seconds deadline = std::chrono::seconds(120)) = 0;
  virtual void Signal(int signal) = 0;
  virtual pid_t pid() const = 0;
  virtual bool running() = 0;
  // Kills it if it still runs.
  virtual ~Process() = default;
};

// Start and Wait.
Ending RunProcess(const Process::Options& options, std::chrono::seconds deadline = std::chrono::seconds(120));

// Signals a process that is not our child and waits until it is gone; false if it is still there at the deadline.
bool EndProcess(pid_t pid, int signal, std::chrono::seconds deadline = std::chrono::seconds(60));

// Absolute path of a file that the test's BUILD rule names under `data`, for example "daemon/cairnd".
std::string DataPath(std::string_view workspace_path);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_PROCESS_H_
