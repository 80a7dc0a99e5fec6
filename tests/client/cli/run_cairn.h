// Runs the `cairn` command as a user does, with its output in pipes.
#ifndef CAIRN_TESTS_CLIENT_CLI_RUN_CAIRN_H_
#define CAIRN_TESTS_CLIENT_CLI_RUN_CAIRN_H_

#include <map>
#include <string>
#include <vector>

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

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_CLIENT_CLI_RUN_CAIRN_H_
