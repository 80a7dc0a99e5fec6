#include "tests/daemon/core/protected_memory.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace cairn {

Protected PlainOf(std::int32_t id, std::string bytes) {
  Protected plain;
  plain.variable.set_id(id);
  plain.variable.set_kind(local::PLAIN);
  plain.variable.set_type(1);
  plain.variable.set_count(bytes.size());
  plain.variable.set_bytes(bytes.size());
  plain.bytes = std::move(bytes);
  return plain;
}

Protected ValueOf(std::int32_t id, const std::string& name, std::uint64_t value) {
  Protected out;
  out.variable.set_id(id);
  out.variable.set_kind(local::VALUE);
  out.variable.set_name(name);
  out.variable.set_type(8);
  out.variable.set_count(1);
  out.variable.set_bytes(8);
  out.bytes.assign(reinterpret_cast<const char*>(&value), sizeof value);
  return out;
}

Protected ArrayOf(std::int32_t id, const std::string& name, const std::vector<std::uint64_t>& shape,
                  const std::vector<std::uint64_t>& start, const std::vector<std::uint64_t>& count, std::string bytes) {
  Protected array = PlainOf(id, std::move(bytes));
  array.variable.set_kind(local::ARRAY);
  array.variable.set_name(name);
  array.variable.mutable_shape()->Assign(shape.begin(), shape.end());
  array.variable.mutable_box_start()->Assign(start.begin(), start.end());
  array.variable.mutable_box_count()->Assign(count.begin(), count.end());
  return array;
}

std::string RandomBytes(std::uint64_t seed, std::size_t bytes) {
  std::mt19937_64 random(seed);
  std::string out(bytes, '\0');
  for (std::size_t i = 0; i < bytes; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(out.data() + i, &word, std::min<std::size_t>(8, bytes - i));
  }
  return out;
}

std::uint64_t NumberIn(const Protected& value) {
  std::uint64_t number = 0;
  std::memcpy(&number, value.bytes.data(), std::min(sizeof number, value.bytes.size()));
  return number;
}

Memory Blank(Memory memory) {
  for (Protected& one : memory) std::fill(one.bytes.begin(), one.bytes.end(), '?');
  return memory;
}

}  // namespace cairn
