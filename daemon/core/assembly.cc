#include "daemon/core/assembly.h"

#include <algorithm>
#include <utility>

#include "storage/base/status.h"

namespace cairn {
namespace {

std::uint64_t ElementsOf(const Box& box) {
  return Elements(box.count).value_or(0);  // fit, as required
}

// Takes out of `missing` what the box has; that is the share.
Share TakeShare(const StoredBox& from, const Box& common, std::vector<Box>& missing) {
  Share share{.from = from, .parts = {}};
  std::vector<Box> left;
  std::uint64_t elements = 0;
  for (Box& box : missing) {
    std::optional<Box> part = Intersect(box, common);
    if (!part) {
      left.push_back(std::move(box));
      continue;
    }
    elements += ElementsOf(*part);
    for (Box& rest : Subtract(box, *part)) left.push_back(std::move(rest));
    share.parts.push_back(*std::move(part));
  }
  missing = std::move(left);
  // The missing boxes are cut where other ranks' boxes ended; that is no reason to cut this one's.
  if (share.parts.size() > 1 && elements == ElementsOf(common)) share.parts = {common};
  return share;
}

}  // namespace

absl::StatusOr<Assembly> Assemble(const Box& wanted, std::span<const StoredBox> stored, std::uint64_t work_max) {
  Assembly assembly;
  if (Empty(wanted)) return assembly;
  std::vector<Box> missing = {wanted};
  for (std::size_t i = stored.size(); i-- > 0 && !missing.empty();) {
    const std::optional<Box> common = Intersect(stored[i].box, wanted);
    if (!common) continue;
    assembly.work += missing.size();
    if (assembly.work > work_max) {
      return ResourceExhausted("{} stored boxes overlap and adjoin in too many ways", stored.size());
    }
    Share share = TakeShare(stored[i], *common, missing);
    if (!share.parts.empty()) assembly.shares.push_back(std::move(share));
  }
  const auto first = std::min_element(missing.begin(), missing.end(), [](const Box& a, const Box& b) {
    return std::lexicographical_compare(a.start.begin(), a.start.end(), b.start.begin(), b.start.end());
  });
  if (first != missing.end()) assembly.hole = *first;
  return assembly;
}

}  // namespace cairn
