// The bounds of all arrays of a step in one pass over its records. For metadata_*.cc.
#ifndef CAIRN_STORAGE_FORMAT_BP5_STEP_BOUNDS_H_
#define CAIRN_STORAGE_FORMAT_BP5_STEP_BOUNDS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

// Of an array in a step.
struct ArrayBounds {
  std::uint32_t variable = 0;
  std::uint32_t without = 0;              // blocks with elements, but without bounds
  std::array<std::byte, 8> min{}, max{};  // if `known`
  bool known = false;
};

// Asked variable by variable, each question looks at one place of each record: memory gives one cache line at a time.
// All of them in the order of the records take less than half the time. So a step of which many were asked for is looked
// through once, and its bounds are kept: 28 bytes for each array.
class StepBounds {
 public:
  // Not there: has to be looked for block by block. Arrays that are stacked, of more than 8 bytes an element, or of
  // which any record or block is not as it must be are never here, so that errors come from there.
  const ArrayBounds* Find(std::uint32_t variable) const {
    const auto found = std::ranges::lower_bound(arrays_, variable, {}, &ArrayBounds::variable);
    return found != arrays_.end() && found->variable == variable ? &*found : nullptr;
  }
  bool made() const { return made_; }
  void Make(std::vector<ArrayBounds> arrays) {
    arrays_ = std::move(arrays);
    made_ = true;
  }
  // Counts questions that were looked for block by block.
  std::uint32_t Ask() { return ++asked_; }
  std::uint64_t own_bytes() const { return arrays_.capacity() * sizeof(ArrayBounds); }

 private:
  std::vector<ArrayBounds> arrays_;  // by variable
  std::uint32_t asked_ = 0;
  bool made_ = false;
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_STEP_BOUNDS_H_
