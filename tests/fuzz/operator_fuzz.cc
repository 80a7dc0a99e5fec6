// Any bytes as a block that an operator of ADIOS2 has stored: an answer with a status, or exactly as many bytes as the
// block's elements have.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "storage/base/check.h"
#include "storage/format/bp5/operator.h"
#include "tests/fuzz/operator_input.h"

namespace cairn::bp5 {
namespace {

// As long as the bytes are and no longer, so that every step beyond is seen.
void Read(const OperatorInput& input) {
  const std::vector<std::byte> block(input.block.begin(), input.block.end());
  const auto head = std::span(block).first(std::min<std::size_t>(block.size(), kOperatorHeadBytes));
  const auto found = ReadOperatorHead(head, block.size(), input.bytes);
  if (!found.ok()) return;
  if (found->raw) {
    CAIRN_CHECK(*found->raw <= block.size() && input.bytes <= block.size() - *found->raw);
    return;
  }
  const auto elements = UndoOperator(block, input.type, input.bytes);
  if (!elements.ok()) return;
  // All of them were written: the sanitizers see it where they are looked at.
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < input.bytes; ++i) sum += std::to_integer<unsigned>((*elements)[i]);
  CAIRN_CHECK(sum <= 255 * input.bytes);
}

}  // namespace
}  // namespace cairn::bp5

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = cairn::bp5::OperatorInputOf({reinterpret_cast<const std::byte*>(data), size});
  if (input) cairn::bp5::Read(*input);
  return 0;
}
