// The least and the greatest of a variable's elements, while its bytes come by in parts of any length.
//
// NaN counts for nothing: what has only NaNs has no bounds. Zeros are equal: which sign one has as a bound is open.
// Complex numbers, characters and what is of no known type have no order, and no bounds. Types are BP5's codes (BP5
// specification, section 7). Pure; values only.
#ifndef CAIRN_STORAGE_FORMAT_PLACEMENT_BOUNDS_H_
#define CAIRN_STORAGE_FORMAT_PLACEMENT_BOUNDS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cairn::view {

inline constexpr std::size_t kElementBytesMax = 16;
// Bytes of an element; 0: no such type, or none of a fixed size.
std::uint32_t ElementBytesOf(std::uint32_t type);

struct Bounds {
  enum class State : std::uint8_t {
    kUnknown,  // not looked at, no order, or an element was cut
    kNone,     // no elements but NaNs
    kKnown,
  } state = State::kUnknown;
  std::array<std::byte, kElementBytesMax> min{}, max{};  // from the first byte
};

// Of both together.
Bounds Join(std::uint32_t type, const Bounds& a, const Bounds& b);
// As catalogue.Run.min_max has it: min, then max; empty: not known, or none.
std::string MinMaxOf(std::uint32_t type, const Bounds& bounds);

class BoundsScan {
 public:
  enum class Keep : std::uint8_t {
    kBounds,
    kElement,  // there is one element: its bytes are both bounds, whatever its type
  };
  BoundsScan() = default;  // looks at nothing
  explicit BoundsScan(std::uint32_t type, Keep keep = Keep::kBounds);

  // The next bytes. Their memory may be shared with others and change meanwhile.
  void Add(std::span<const std::byte> bytes);
  // Of all that came.
  Bounds Finish() const;

 private:
  void Take(const std::byte* elements, std::size_t count);

  std::uint8_t type_ = 0;
  std::uint8_t element_bytes_ = 0;  // 0: nothing is to be looked at
  Keep keep_ = Keep::kBounds;
  std::uint8_t carried_ = 0;
  std::array<std::byte, kElementBytesMax> carry_{};  // the begin of an element whose rest has not come
  Bounds bounds_;
};

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_FORMAT_PLACEMENT_BOUNDS_H_
