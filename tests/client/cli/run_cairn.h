// Runs the `cairn` command as a user does, with its output in pipes or on a terminal.
#ifndef CAIRN_TESTS_CLIENT_CLI_RUN_CAIRN_H_
#define CAIRN_TESTS_CLIENT_CLI_RUN_CAIRN_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/unique_fd.h"

namespace cairn::testing {

struct CairnRun {
  int exit_code = -1;
  std::string out, err;
};

// `environment`: all that it gets besides PATH and what sanitizers are told. It is killed after 30 s.
CairnRun RunCairn(const std::vector<std::string>& arguments,
                  const std::map<std::string, std::string>& environment = {});

// The same with standard output on a terminal (a pty of 80 columns).
CairnRun RunCairnOnTerminal(const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment = {});

// The same with standard output into `out`, which is borrowed; CairnRun::out stays empty.
CairnRun RunCairnInto(int out, const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& environment = {});

// One on a terminal that goes on meanwhile: it is looked at, gets signals, and is killed in the end if need be.
class CairnOnTerminal {
 public:
  CairnOnTerminal(const std::vector<std::string>& arguments, const std::map<std::string, std::string>& environment,
                  unsigned short rows = 24, unsigned short columns = 80);
  ~CairnOnTerminal();
  CairnOnTerminal(const CairnOnTerminal&) = delete;
  CairnOnTerminal& operator=(const CairnOnTerminal&) = delete;

  // Until what it has written since the last call that found something has `part`; returns that. A failure, and "",
  // after 30 s.
  std::string WaitFor(std::string_view part);
  void Send(int signal);
  // `state` as in /proc/PID/stat: 'T' once it has stopped. A failure after 30 s.
  void WaitForState(char state);
  CairnRun End();  // waits for it; `out`: what was not looked at

 private:
  UniqueFd terminal_;
  UniqueFd errors_;
  pid_t pid_ = -1;
  std::string unseen_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_CLI_RUN_CAIRN_H_
