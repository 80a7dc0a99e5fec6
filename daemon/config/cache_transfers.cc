#include "daemon/config/cache_transfers.h"

#include <cstdint>

namespace cairn {

TransferShapes WithSettings(const Config::Cache& cache, TransferShapes shapes) {
  const auto take = [](TransferShape& shape, std::uint64_t bytes, std::uint32_t depth) {
    if (bytes != 0) shape.bytes = static_cast<std::uint32_t>(bytes);
    if (depth != 0) shape.depth = depth;
  };
  take(shapes.write, cache.write_bytes, cache.write_depth);
  take(shapes.read, cache.read_bytes, cache.read_depth);
  return shapes;
}

std::string WhyNotMeasured(const Config::Cache& cache) {
  const bool all_set =
      cache.write_bytes != 0 && cache.write_depth != 0 && cache.read_bytes != 0 && cache.read_depth != 0;
  if (all_set) return "the settings say all of it";
  if (!cache.probe) return "cache.probe is off";
  if (!cache.direct) return "cache.direct is off";
  return "";
}

}  // namespace cairn
