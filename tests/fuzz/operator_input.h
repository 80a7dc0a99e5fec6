// What operator_fuzz makes of its inputs: a type, a number of bytes, a block.
#ifndef CAIRN_TESTS_FUZZ_OPERATOR_INPUT_H_
#define CAIRN_TESTS_FUZZ_OPERATOR_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

struct OperatorInput {
  Type type = Type::kDouble;
  std::uint64_t bytes = 0;  // of the elements
  std::span<const std::byte> block;
};

inline constexpr std::uint32_t kElementBytesMax = 1 << 20;
inline constexpr std::size_t kInputHeadBytes = 1 + 4;

inline std::optional<OperatorInput> OperatorInputOf(std::span<const std::byte> input) {
  if (input.size() < kInputHeadBytes) return std::nullopt;
  std::uint32_t bytes = 0;
  std::memcpy(&bytes, &input[1], sizeof bytes);
  const auto type = static_cast<Type>(1 + std::to_integer<unsigned>(input[0]) % 13);
  return OperatorInput{.type = type, .bytes = 1 + bytes % kElementBytesMax, .block = input.subspan(kInputHeadBytes)};
}

inline std::string InputOf(Type type, std::uint32_t bytes, const std::string& block) {
  std::string input(1, static_cast<char>(static_cast<unsigned>(type) - 1));
  const std::uint32_t number = bytes - 1;
  input.append(reinterpret_cast<const char*>(&number), sizeof number);
  return input + block;
}

}  // namespace cairn::bp5

#endif  // CAIRN_TESTS_FUZZ_OPERATOR_INPUT_H_
