#include "tests/storage/format/ftiff/by_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>

namespace cairn::ftiff::testing {
namespace {

constexpr std::size_t kFileRecord = 96, kBlockRecord = 12, kChunkRecord = 64;

template <typename Number>
Number At(std::string_view file, std::size_t offset) {
  Number number{};
  EXPECT_LE(offset + sizeof number, file.size());
  if (offset + sizeof number <= file.size()) std::memcpy(&number, file.data() + offset, sizeof number);
  return number;
}

}  // namespace

std::vector<std::string> ContentsByIndex(std::string_view file) {
  std::map<std::int32_t, std::string> contents;
  for (std::size_t block = kFileRecord; block < file.size();) {
    const auto chunks = At<std::int32_t>(file, block);
    for (std::int32_t i = 0; i < chunks; ++i) {
      const std::size_t chunk = block + kBlockRecord + kChunkRecord * static_cast<std::size_t>(i);
      std::string& content = contents[At<std::int32_t>(file, chunk + 4)];
      if (At<std::uint8_t>(file, chunk + 12) == 0) continue;
      const auto in_variable = At<std::uint64_t>(file, chunk + 16), in_file = At<std::uint64_t>(file, chunk + 24);
      const auto bytes = At<std::uint64_t>(file, chunk + 32);
      if (content.size() < in_variable + bytes) content.resize(in_variable + bytes);
      content.replace(in_variable, bytes, file.substr(in_file, bytes));
    }
    const auto bytes = At<std::int64_t>(file, block + 4);
    if (bytes <= 0) break;
    block += static_cast<std::size_t>(bytes);
  }
  std::vector<std::string> in_order;
  for (auto& [index, content] : contents) {
    EXPECT_EQ(static_cast<std::size_t>(index), in_order.size()) << "FTI has no variable of that number";
    in_order.push_back(std::move(content));
  }
  return in_order;
}

}  // namespace cairn::ftiff::testing
