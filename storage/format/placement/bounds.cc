#include "storage/format/placement/bounds.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "storage/format/placement/bounds_kernels.h"

namespace cairn::view {
namespace {

constexpr std::uint32_t kElementBytes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 16, 8, 16, 0, 1};
constexpr std::uint32_t kX87Type = 11;
constexpr std::size_t kX87Bytes = 10;  // of 16: the rest is padding

// x87 numbers in an order of their own: loading what is none of them, as memory may hold, costs the processor dearly.
// A NaN has no place in it.
struct X87 {
  unsigned __int128 key = 0;
  bool is_nan = false;
};
X87 LoadX87(const std::byte* at) {
  std::uint64_t fraction = 0;
  std::uint16_t sign_and_exponent = 0;
  std::memcpy(&fraction, at, sizeof fraction);
  std::memcpy(&sign_and_exponent, at + sizeof fraction, sizeof sign_and_exponent);
  constexpr std::uint16_t kSign = 0x8000;
  const bool infinite_or_nan = (sign_and_exponent & ~kSign) == 0x7FFF;
  const unsigned __int128 size = (static_cast<unsigned __int128>(sign_and_exponent & ~kSign) << 64) | fraction;
  constexpr unsigned __int128 kMiddle = static_cast<unsigned __int128>(1) << 80;
  return {.key = (sign_and_exponent & kSign) != 0 ? kMiddle - size : kMiddle + size,
          .is_nan = infinite_or_nan && (fraction << 1) != 0};
}

void WidenX87(const std::byte* elements, std::size_t count, std::byte* low, std::byte* high) {
  constexpr std::size_t kStride = 16;
  unsigned __int128 low_key = LoadX87(low).key, high_key = LoadX87(high).key;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* at = elements + i * kStride;
    const X87 value = LoadX87(at);
    if (value.is_nan) continue;
    if (value.key < low_key) {
      low_key = value.key;
      std::memcpy(low, at, kX87Bytes);
    }
    if (value.key > high_key) {
      high_key = value.key;
      std::memcpy(high, at, kX87Bytes);
    }
  }
}

const BoundsKernels& BestKernels() {
  static const BoundsKernels plain = MakeBoundsKernels<16>();
  static const BoundsKernels& best =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
          ? kBoundsAvx512
      : __builtin_cpu_supports("avx2") ? kBoundsAvx2
                                       : plain;
  return best;
}

WidenFunction WidenOf(std::uint32_t type) {
  if (type == kX87Type) return WidenX87;
  return type < std::size(BestKernels().by_type) ? BestKernels().by_type[type] : nullptr;
}

template <typename T>
void StoreEmpty(std::byte* low, std::byte* high) {
  using Limits = std::numeric_limits<T>;
  const T most = Limits::has_infinity ? Limits::infinity() : Limits::max();
  const T least = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  std::memcpy(low, &most, std::min(sizeof most, kElementBytesMax));
  std::memcpy(high, &least, std::min(sizeof least, kElementBytesMax));
}

// Bounds of nothing: what any element widens.
void StoreEmptyOf(std::uint32_t type, std::byte* low, std::byte* high) {
  switch (type) {
    case 1:
      return StoreEmpty<std::int8_t>(low, high);
    case 2:
      return StoreEmpty<std::int16_t>(low, high);
    case 3:
      return StoreEmpty<std::int32_t>(low, high);
    case 4:
      return StoreEmpty<std::int64_t>(low, high);
    case 5:
      return StoreEmpty<std::uint8_t>(low, high);
    case 6:
      return StoreEmpty<std::uint16_t>(low, high);
    case 7:
      return StoreEmpty<std::uint32_t>(low, high);
    case 8:
      return StoreEmpty<std::uint64_t>(low, high);
    case 9:
      return StoreEmpty<float>(low, high);
    case 10:
      return StoreEmpty<double>(low, high);
    case kX87Type: {
      constexpr std::array<std::uint8_t, kX87Bytes> kInfinity{0, 0, 0, 0, 0, 0, 0, 0x80, 0xFF, 0x7F};
      std::memcpy(low, kInfinity.data(), kX87Bytes);
      std::memcpy(high, kInfinity.data(), kX87Bytes);
      high[kX87Bytes - 1] |= std::byte{0x80};
      return;
    }
    default:
      return;
  }
}

template <typename T>
bool IsRange(const std::byte* low, const std::byte* high) {
  T from, to;
  std::memcpy(&from, low, sizeof from);
  std::memcpy(&to, high, sizeof to);
  return from <= to;
}

// False for bounds that nothing has widened yet, or NaNs alone.
bool IsRangeOf(std::uint32_t type, const std::byte* low, const std::byte* high) {
  switch (type) {
    case 1:
      return IsRange<std::int8_t>(low, high);
    case 2:
      return IsRange<std::int16_t>(low, high);
    case 3:
      return IsRange<std::int32_t>(low, high);
    case 4:
      return IsRange<std::int64_t>(low, high);
    case 5:
      return IsRange<std::uint8_t>(low, high);
    case 6:
      return IsRange<std::uint16_t>(low, high);
    case 7:
      return IsRange<std::uint32_t>(low, high);
    case 8:
      return IsRange<std::uint64_t>(low, high);
    case 9:
      return IsRange<float>(low, high);
    case 10:
      return IsRange<double>(low, high);
    case kX87Type:
      return LoadX87(low).key <= LoadX87(high).key;
    default:
      return false;
  }
}

}  // namespace

std::uint32_t ElementBytesOf(std::uint32_t type) {
  return type < std::size(kElementBytes) ? kElementBytes[type] : 0;
}

Bounds Join(std::uint32_t type, const Bounds& a, const Bounds& b) {
  if (a.state == Bounds::State::kUnknown || b.state == Bounds::State::kNone) return a;
  if (b.state == Bounds::State::kUnknown || a.state == Bounds::State::kNone) return b;
  const WidenFunction widen = WidenOf(type);
  if (widen == nullptr) return {};
  Bounds both = a;
  widen(b.min.data(), 1, both.min.data(), both.max.data());
  widen(b.max.data(), 1, both.min.data(), both.max.data());
  return both;
}

std::string MinMaxOf(std::uint32_t type, const Bounds& bounds) {
  if (bounds.state != Bounds::State::kKnown) return {};
  const std::uint32_t bytes = ElementBytesOf(type);
  std::string text(2 * std::size_t{bytes}, '\0');
  std::memcpy(text.data(), bounds.min.data(), bytes);
  std::memcpy(text.data() + bytes, bounds.max.data(), bytes);
  return text;
}

BoundsScan::BoundsScan(std::uint32_t type, Keep keep) : keep_(keep) {
  if (keep == Keep::kBounds && WidenOf(type) == nullptr) return;
  type_ = static_cast<std::uint8_t>(type);
  element_bytes_ = static_cast<std::uint8_t>(ElementBytesOf(type));
  if (keep == Keep::kBounds) StoreEmptyOf(type_, bounds_.min.data(), bounds_.max.data());
}

void BoundsScan::Add(std::span<const std::byte> bytes) {
  if (element_bytes_ == 0 || bytes.empty()) return;
  if (carried_ > 0) {
    const std::size_t part = std::min<std::size_t>(element_bytes_ - carried_, bytes.size());
    std::memcpy(carry_.data() + carried_, bytes.data(), part);
    carried_ = static_cast<std::uint8_t>(carried_ + part);
    bytes = bytes.subspan(part);
    if (carried_ < element_bytes_) return;
    Take(carry_.data(), 1);
    carried_ = 0;
  }
  const std::size_t count = bytes.size() / element_bytes_;
  Take(bytes.data(), count);
  bytes = bytes.subspan(count * element_bytes_);
  std::memcpy(carry_.data(), bytes.data(), bytes.size());
  carried_ = static_cast<std::uint8_t>(bytes.size());
}

void BoundsScan::Take(const std::byte* elements, std::size_t count) {
  if (count == 0) return;
  if (keep_ == Keep::kElement) {
    std::memcpy(bounds_.min.data(), elements, element_bytes_);
    bounds_.max = bounds_.min;
    bounds_.state = Bounds::State::kKnown;
  } else {
    WidenOf(type_)(elements, count, bounds_.min.data(), bounds_.max.data());
  }
}

Bounds BoundsScan::Finish() const {
  if (element_bytes_ == 0 || carried_ > 0) return {};
  Bounds bounds = bounds_;
  if (keep_ == Keep::kBounds && IsRangeOf(type_, bounds.min.data(), bounds.max.data())) {
    bounds.state = Bounds::State::kKnown;
  }
  if (bounds.state != Bounds::State::kKnown) return {.state = Bounds::State::kNone};
  return bounds;
}

}  // namespace cairn::view
