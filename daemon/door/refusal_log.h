// Log lines of peers that were refused. Strangers can cause as many as they like: of each kind of flaw a few are
// written in a while, the others are counted. One thread at a time.
#ifndef CAIRN_DAEMON_DOOR_REFUSAL_LOG_H_
#define CAIRN_DAEMON_DOOR_REFUSAL_LOG_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/trust/refusal.h"

namespace cairn {

class RefusalLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::uint32_t kLinesMax = 10;
  static constexpr std::chrono::seconds kWhile{10};

  // `peer` by its address. Warns.
  void Write(std::string_view peer, const Refusal& refusal, Time now);

 private:
  struct Kind {
    Time since{};
    std::uint32_t lines = 0, dropped = 0;
  };
  std::array<Kind, kFlaws> kinds_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_DOOR_REFUSAL_LOG_H_
