// Members, as tests make them up.
#ifndef CAIRN_TESTS_DAEMON_PEERS_SAMPLE_H_
#define CAIRN_TESTS_DAEMON_PEERS_SAMPLE_H_

#include <fmt/format.h>

#include <cstdint>

#include "daemon/peers/member.h"

namespace cairn {

inline NodeId NodeOf(std::uint32_t number) {
  return fmt::format("{:032x}", 0xa000 + number);
}

inline Member MemberOf(std::uint32_t number, std::uint64_t incarnation = 1, std::uint64_t revision = 1) {
  return {.node = NodeOf(number),
          .incarnation = incarnation,
          .revision = revision,
          .host = fmt::format("node{}", number),
          .address = fmt::format("10.0.0.{}:17001", number),
          .since_us = 1'700'000'000'000'000,
          .summary = {.datasets = 3, .bytes = 1 << 20, .sessions = 2, .newest_dataset = 17}};
}

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_PEERS_SAMPLE_H_
