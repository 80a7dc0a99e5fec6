// Runs a program on a node of a cluster: in the namespaces of a process that is there.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_ENTER_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_ENTER_H_

#include <sys/types.h>

#include <string>

namespace cairn::testing {

struct Entrance {
  pid_t there = 0;           // as this process sees it
  bool beside = false;       // on its network and under its host name only, with all rights in its user namespace
  std::string tell;          // a datagram socket that learns the program's process id; "": nobody
  char** command = nullptr;  // ends with nullptr; [0] is looked for in PATH
};

// Runs the command in the working directory of the caller and ends as it ends, by the same signal, too. The program
// dies with the caller. `beside`: in the caller's stead. 125 and a line on stderr if it cannot be there, 127 if it does
// not start. REQUIRES: the caller has one thread.
int Enter(const Entrance& entrance);

// From now on programs that this process executes have its rights in its user namespace, which an ordinary user's
// programs otherwise lack. False, with errno, if the kernel refuses.
bool KeepRightsOverExec();

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_ENTER_H_
