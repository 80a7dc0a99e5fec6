// How large the transfers of a disk are, and how many of them are under way at once; and which of several measured
// ones is taken. Pure.
#ifndef CAIRN_STORAGE_BASE_TRANSFER_SHAPE_H_
#define CAIRN_STORAGE_BASE_TRANSFER_SHAPE_H_

#include <cstdint>
#include <optional>
#include <span>

namespace cairn {

struct TransferShape {
  // So much in one transfer, and so many of them at once. More of either costs memory and makes others wait.
  static constexpr std::uint32_t kBytesMin = 256 << 10, kBytesMax = 16 << 20;  // powers of two
  static constexpr std::uint32_t kDepthMax = 64;

  std::uint32_t bytes = 4 << 20;
  std::uint32_t depth = 8;

  std::uint64_t bytes_in_flight() const { return std::uint64_t{bytes} * depth; }
  bool valid() const;
  bool operator==(const TransferShape&) const = default;
};

// What a disk uses where nothing better is known of it.
struct TransferShapes {
  TransferShape write, read;
  bool operator==(const TransferShapes&) const = default;
};

struct ShapeSpeed {
  TransferShape shape;
  double bytes_per_s = 0;
};

// Of those that come within 5 % of the fastest the one with the fewest bytes in flight, and of several with as many
// that with the largest transfers. Speeds that are no positive number do not count. None: there is no other.
std::optional<ShapeSpeed> ChooseShape(std::span<const ShapeSpeed> measured);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_TRANSFER_SHAPE_H_
