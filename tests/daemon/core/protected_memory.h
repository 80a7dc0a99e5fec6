// What an application protects, as tests make it up.
#ifndef CAIRN_TESTS_DAEMON_CORE_PROTECTED_MEMORY_H_
#define CAIRN_TESTS_DAEMON_CORE_PROTECTED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "proto/local.pb.h"

namespace cairn {

// A protected variable and its memory.
struct Protected {
  local::Variable variable;
  std::string bytes;
};
using Memory = std::vector<Protected>;

Protected PlainOf(std::int32_t id, std::string bytes);
Protected ValueOf(std::int32_t id, const std::string& name, std::uint64_t value);
// Bytes as elements; `bytes` has the product of `count`.
Protected ArrayOf(std::int32_t id, const std::string& name, const std::vector<std::uint64_t>& shape,
                  const std::vector<std::uint64_t>& start, const std::vector<std::uint64_t>& count, std::string bytes);
// Bytes that no other seed gives.
std::string RandomBytes(std::uint64_t seed, std::size_t bytes);
std::uint64_t NumberIn(const Protected& value);
// The same variables with other content.
Memory Blank(Memory memory);

}  // namespace cairn

#endif  // CAIRN_TESTS_DAEMON_CORE_PROTECTED_MEMORY_H_
