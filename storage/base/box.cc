#include "storage/base/box.h"

#include <algorithm>

#include "storage/base/check.h"

namespace cairn {

std::optional<std::uint64_t> Elements(std::span<const std::uint64_t> count) {
  std::uint64_t elements = 1;
  // A zero makes all of it zero, whatever the others would overflow to.
  if (std::find(count.begin(), count.end(), 0) != count.end()) return 0;
  for (std::uint64_t extent : count) {
    if (__builtin_mul_overflow(elements, extent, &elements)) return std::nullopt;
  }
  return elements;
}

bool Empty(const Box& box) {
  return std::find(box.count.begin(), box.count.end(), 0) != box.count.end();
}

bool Sound(const Box& box) {
  if (box.start.size() != box.count.size()) return false;
  for (std::size_t d = 0; d < box.dimensions(); ++d) {
    if (box.count[d] > ~std::uint64_t{0} - box.start[d]) return false;
  }
  return true;
}

bool Inside(const Box& box, const Box& outer) {
  if (!Sound(box) || !Sound(outer) || box.dimensions() != outer.dimensions()) return false;
  for (std::size_t d = 0; d < box.dimensions(); ++d) {
    if (box.start[d] < outer.start[d]) return false;
    if (box.start[d] + box.count[d] > outer.start[d] + outer.count[d]) return false;
  }
  return true;
}

std::optional<Box> Intersect(const Box& a, const Box& b) {
  CAIRN_CHECK(a.dimensions() == b.dimensions());
  Box both{.start = Extents(a.dimensions()), .count = Extents(a.dimensions())};
  for (std::size_t d = 0; d < a.dimensions(); ++d) {
    const std::uint64_t low = std::max(a.start[d], b.start[d]);
    const std::uint64_t high = std::min(a.start[d] + a.count[d], b.start[d] + b.count[d]);
    if (low >= high) return std::nullopt;
    both.start[d] = low;
    both.count[d] = high - low;
  }
  return both;
}

std::vector<Box> Subtract(const Box& box, const Box& hole) {
  if (Empty(box)) return {};
  const std::optional<Box> common = Intersect(box, hole);
  if (!common) return {box};
  std::vector<Box> left;
  Box rest = box;  // shrinks to `common`, dimension by dimension
  for (std::size_t d = 0; d < box.dimensions(); ++d) {
    const std::uint64_t end = rest.start[d] + rest.count[d];
    const std::uint64_t common_end = common->start[d] + common->count[d];
    if (rest.start[d] < common->start[d]) {
      Box before = rest;
      before.count[d] = common->start[d] - rest.start[d];
      left.push_back(std::move(before));
    }
    if (common_end < end) {
      Box after = rest;
      after.start[d] = common_end;
      after.count[d] = end - common_end;
      left.push_back(std::move(after));
    }
    rest.start[d] = common->start[d];
    rest.count[d] = common->count[d];
  }
  return left;
}

std::vector<Box> RunAsBoxes(const Box& box, std::uint64_t begin, std::uint64_t end) {
  std::vector<Box> boxes;
  const std::size_t dimensions = box.dimensions();
  if (dimensions == 0) {
    if (begin < end) boxes.push_back(box);
    return boxes;
  }
  while (begin < end) {
    // The largest slab of whole rows, planes, … that begins here: from the slowest dimension whose inside begins here
    // and fits.
    std::size_t slab = dimensions - 1;
    std::uint64_t inner = 1;  // elements of one index of dimension `slab`
    while (slab > 0) {
      const std::uint64_t wider = inner * box.count[slab];
      if (begin % wider != 0 || end - begin < wider) break;
      inner = wider;
      --slab;
    }
    Box piece{.start = box.start, .count = Extents(dimensions, 1)};
    std::uint64_t rest = begin / inner;
    for (std::size_t d = slab + 1; d < dimensions; ++d) piece.count[d] = box.count[d];
    const std::uint64_t at = rest % box.count[slab];
    for (std::size_t d = slab + 1; d-- > 0;) {
      piece.start[d] += rest % box.count[d];
      rest /= box.count[d];
    }
    piece.count[slab] = std::min((end - begin) / inner, box.count[slab] - at);
    begin += piece.count[slab] * inner;
    boxes.push_back(std::move(piece));
  }
  return boxes;
}

std::uint64_t RowPattern::rows() const {
  std::uint64_t rows = 1;
  for (const Level& level : levels) rows *= level.count;
  return rows;
}

std::uint64_t RowPattern::a_extent() const {
  std::uint64_t extent = row;
  for (const Level& level : levels) extent += (level.count - 1) * level.a_stride;
  return extent;
}

RowPattern PatternOf(const Box& common, const Box& a, const Box& b) {
  CAIRN_CHECK(!Empty(common) && Inside(common, a) && Inside(common, b));
  RowPattern pattern;
  std::uint64_t a_stride = 1, b_stride = 1;
  for (std::size_t d = common.dimensions(); d-- > 0;) {
    pattern.a_begin += (common.start[d] - a.start[d]) * a_stride;
    pattern.b_begin += (common.start[d] - b.start[d]) * b_stride;
    if (common.count[d] > 1) {
      // Goes on where the row ends in both: it belongs to the row.
      if (pattern.levels.empty() && a_stride == pattern.row && b_stride == pattern.row) {
        pattern.row *= common.count[d];
      } else {
        pattern.levels.insert(pattern.levels.begin(),
                              {.count = common.count[d], .a_stride = a_stride, .b_stride = b_stride});
      }
    }
    a_stride *= a.count[d];
    b_stride *= b.count[d];
  }
  return pattern;
}

}  // namespace cairn
