// What clients of a core live in: the core that they speak to, and how they wait for its answers.
#ifndef CAIRN_TESTS_DAEMON_CORE_CLIENT_HOST_H_
#define CAIRN_TESTS_DAEMON_CORE_CLIENT_HOST_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>

#include "daemon/core/core.h"

namespace cairn {

class ClientHost {
 public:
  virtual ~ClientHost() = default;
  virtual Core& core() = 0;
  virtual bool running() const = 0;
  virtual std::string prefix() const = 0;  // of clients that name none
  // Waits until `holds`, which is asked under the lock; `changed` is notified when that may have become so. False: it
  // was waited for in vain.
  virtual bool Wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                    const std::function<bool()>& holds) = 0;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_CLIENT_HOST_H_
