// The least and the greatest of values whose type is known at run time only. For metadata_*.cc.
#ifndef CAIRN_STORAGE_FORMAT_BP5_RANGE_H_
#define CAIRN_STORAGE_FORMAT_BP5_RANGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

// Calls `visit` with a value of the C++ type; false: there is no min and max of it.
template <typename Visit>
[[gnu::always_inline]] inline bool WithOrderedType(Type type, Visit visit) {
  switch (type) {
    case Type::kChar:  // has no order, but arrays of ADIOS2 2.8 have min and max
    case Type::kInt8:
      visit(std::int8_t{});
      return true;
    case Type::kInt16:
      visit(std::int16_t{});
      return true;
    case Type::kInt32:
      visit(std::int32_t{});
      return true;
    case Type::kInt64:
      visit(std::int64_t{});
      return true;
    case Type::kUint8:
      visit(std::uint8_t{});
      return true;
    case Type::kUint16:
      visit(std::uint16_t{});
      return true;
    case Type::kUint32:
      visit(std::uint32_t{});
      return true;
    case Type::kUint64:
      visit(std::uint64_t{});
      return true;
    case Type::kFloat:
      visit(float{});
      return true;
    case Type::kDouble:
      visit(double{});
      return true;
    case Type::kLongDouble:
      visit(static_cast<long double>(0));
      return true;
    default:
      return false;
  }
}

// Widens bounds, none if not `known`, by a pair. Of equal values the first stays. A NaN counts only where there is
// nothing else.
struct Widened {
  bool low = false, high = false;
};
template <typename T>
[[gnu::always_inline]] inline Widened Widen(const std::byte* min, const std::byte* max, T& low, T& high, bool& known) {
  const auto is_nan = [](T value) { return !(value == value); };
  T new_low, new_high;
  std::memcpy(&new_low, min, sizeof(T));
  std::memcpy(&new_high, max, sizeof(T));
  const Widened widened = {!known || is_nan(low) || new_low < low, !known || is_nan(high) || new_high > high};
  if (widened.low) low = new_low;
  if (widened.high) high = new_high;
  known = true;
  return widened;
}

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_RANGE_H_
