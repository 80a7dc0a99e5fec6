// A cable that is longer than it is: carries frames between two network devices and holds each back for a while.
#ifndef CAIRN_TESTS_SUPPORT_CLUSTER_RELAY_H_
#define CAIRN_TESTS_SUPPORT_CLUSTER_RELAY_H_

#include <chrono>
#include <string>

namespace cairn::testing {

// Prints "ready" and carries, until it is killed, what comes in at one device out at the other, `delay` later, in its
// order. As a real switch it loses what it has no room for: more than 64 MiB on the way in one direction. 1 and a line
// on stderr if it cannot.
int RunRelay(const std::string& one, const std::string& other, std::chrono::milliseconds delay);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_SUPPORT_CLUSTER_RELAY_H_
