// A program on a node of a cluster.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_NODE_PROCESS_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_NODE_PROCESS_H_

#include <memory>
#include <string>

#include "tests/integration/process.h"

namespace cairn::testing {

// As Process::Start, in the namespaces of process `there`. pid() and Signal are the program's own: a program that has
// ended, or was killed by the end of its node, is gone for good when that shows. `folder`: for a socket while it
// starts. A failure of the test, and none, if it does not start.
std::unique_ptr<Process> StartOnNode(const std::string& agent, pid_t there, const std::string& folder,
                                     Process::Options options);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_NODE_PROCESS_H_
