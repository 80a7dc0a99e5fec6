// What bounds.cc does with elements, for vector registers of one width. Included by files that are compiled for
// different processors: all of it is local to each.
#ifndef CAIRN_STORAGE_FORMAT_PLACEMENT_BOUNDS_KERNELS_H_
#define CAIRN_STORAGE_FORMAT_PLACEMENT_BOUNDS_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace cairn::view {

// Widens [*low, *high], each an element, by `count` elements, aligned or not. By type code; null: no order.
using WidenFunction = void (*)(const std::byte* elements, std::size_t count, std::byte* low, std::byte* high);
struct BoundsKernels {
  WidenFunction by_type[12];
};
extern const BoundsKernels kBoundsAvx512, kBoundsAvx2;

namespace {  // NOLINT: see above

// Every comparison with a NaN is false: so it changes neither bound. Several vectors side by side, so that no element
// waits for the one before it.
template <typename T, std::size_t kVectorBytes>
void Widen(const std::byte* elements, std::size_t count, std::byte* low_at, std::byte* high_at) {
  constexpr std::size_t kSide = 4;
  constexpr std::size_t kLanes = kVectorBytes / sizeof(T);
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  T low, high;
  std::memcpy(&low, low_at, sizeof low);
  std::memcpy(&high, high_at, sizeof high);
  // Nothing is beyond these: so memory that is protected as bytes costs no more than its first few thousand.
  if constexpr (std::numeric_limits<T>::is_integer) {
    if (low == std::numeric_limits<T>::lowest() && high == std::numeric_limits<T>::max()) return;
  }
  std::size_t i = 0;
  if (count >= kSide * kLanes) {
    Vector lows[kSide], highs[kSide];
    for (std::size_t k = 0; k < kSide; ++k) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        lows[k][lane] = low;
        highs[k][lane] = high;
      }
    }
    for (; i + kSide * kLanes <= count; i += kSide * kLanes) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kSide; ++k) {
        Vector value;
        std::memcpy(&value, elements + i * sizeof(T) + k * kVectorBytes, kVectorBytes);
        lows[k] = value < lows[k] ? value : lows[k];
        highs[k] = value > highs[k] ? value : highs[k];
      }
    }
    for (std::size_t k = 0; k < kSide; ++k) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        low = lows[k][lane] < low ? lows[k][lane] : low;
        high = highs[k][lane] > high ? highs[k][lane] : high;
      }
    }
  }
  for (; i < count; ++i) {
    T value;
    std::memcpy(&value, elements + i * sizeof(T), sizeof value);
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  std::memcpy(low_at, &low, sizeof low);
  std::memcpy(high_at, &high, sizeof high);
}

template <std::size_t kVectorBytes>
constexpr BoundsKernels MakeBoundsKernels() {
  return {{nullptr, Widen<std::int8_t, kVectorBytes>, Widen<std::int16_t, kVectorBytes>,
           Widen<std::int32_t, kVectorBytes>, Widen<std::int64_t, kVectorBytes>, Widen<std::uint8_t, kVectorBytes>,
           Widen<std::uint16_t, kVectorBytes>, Widen<std::uint32_t, kVectorBytes>, Widen<std::uint64_t, kVectorBytes>,
           Widen<float, kVectorBytes>, Widen<double, kVectorBytes>, nullptr}};
}

}  // namespace
}  // namespace cairn::view

#endif  // CAIRN_STORAGE_FORMAT_PLACEMENT_BOUNDS_KERNELS_H_
