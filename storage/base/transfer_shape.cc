#include "storage/base/transfer_shape.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace cairn {
namespace {

constexpr double kNear = 0.95;  // of the fastest: measurements of one shape differ by as much

bool Smaller(const TransferShape& one, const TransferShape& other) {
  if (one.bytes_in_flight() != other.bytes_in_flight()) return one.bytes_in_flight() < other.bytes_in_flight();
  return one.bytes > other.bytes;
}

}  // namespace

bool TransferShape::valid() const {
  return bytes >= kBytesMin && bytes <= kBytesMax && std::has_single_bit(bytes) && depth >= 1 && depth <= kDepthMax;
}

std::optional<ShapeSpeed> ChooseShape(std::span<const ShapeSpeed> measured) {
  const auto counts = [](const ShapeSpeed& one) { return std::isfinite(one.bytes_per_s) && one.bytes_per_s > 0; };
  double fastest = 0;
  for (const ShapeSpeed& one : measured) fastest = counts(one) ? std::max(fastest, one.bytes_per_s) : fastest;
  std::optional<ShapeSpeed> chosen;
  for (const ShapeSpeed& one : measured) {
    if (!counts(one) || one.bytes_per_s < kNear * fastest) continue;
    if (!chosen.has_value() || Smaller(one.shape, chosen->shape)) chosen = one;
  }
  return chosen;
}

}  // namespace cairn
