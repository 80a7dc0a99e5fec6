// A datagram socket at a path, by which a process that a test started says how far it is.
#ifndef CAIRN_TESTS_INTEGRATION_NOTIFY_SOCKET_H_
#define CAIRN_TESTS_INTEGRATION_NOTIFY_SOCKET_H_

#include <chrono>
#include <string>

#include "storage/base/unique_fd.h"
#include "tests/integration/process.h"

namespace cairn::testing {

class NotifySocket {
 public:
  // In the place of what is there. A failure of the test if it cannot be. `path`: at most 107 bytes.
  explicit NotifySocket(const std::string& path);
  // The next message; "" if the process ends, or the deadline comes, before it.
  std::string Await(Process& process, std::chrono::seconds deadline = std::chrono::seconds(60));

 private:
  UniqueFd socket_;
};

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_INTEGRATION_NOTIFY_SOCKET_H_
