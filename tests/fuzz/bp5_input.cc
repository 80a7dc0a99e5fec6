#include "tests/fuzz/bp5_input.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint8_t kIdsMadeRightBit = 0x01, kInTwoTailsBit = 0x02;
constexpr std::size_t kHeadBytes = 5;

}  // namespace

std::optional<Input> InputOf(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < kHeadBytes) return std::nullopt;
  const auto take = [&bytes](std::size_t count) {
    count = std::min(count, bytes.size());
    const std::string taken(reinterpret_cast<const char*>(bytes.data()), count);
    bytes = bytes.subspan(count);
    return taken;
  };
  Input input;
  input.ids_made_right = (bytes[0] & kIdsMadeRightBit) != 0;
  input.in_two_tails = (bytes[0] & kInTwoTailsBit) != 0;
  const std::size_t index_bytes = bytes[1] | bytes[2] << 8, formats_bytes = bytes[3] | bytes[4] << 8;
  bytes = bytes.subspan(kHeadBytes);
  input.files.index = take(index_bytes);
  input.files.formats = take(formats_bytes);
  input.files.metadata = take(bytes.size());
  return input;
}

std::string BytesOf(const Input& input) {
  const std::size_t index_bytes = input.files.index.size(), formats_bytes = input.files.formats.size();
  CAIRN_CHECK(index_bytes < 1 << 16 && formats_bytes < 1 << 16);
  std::string bytes;
  bytes.push_back(
      static_cast<char>((input.ids_made_right ? kIdsMadeRightBit : 0) | (input.in_two_tails ? kInTwoTailsBit : 0)));
  for (const std::size_t length : {index_bytes, formats_bytes}) {
    bytes.push_back(static_cast<char>(length & 0xff));
    bytes.push_back(static_cast<char>(length >> 8));
  }
  return bytes + input.files.index + input.files.formats + input.files.metadata;
}

}  // namespace cairn::bp5
