// Boxes of elements of an array, slowest dimension first: intersection, difference, and where rows of one box lie in
// another. Pure. What stands in a box may come from a file: sums and products are checked, counts are bounded.
#ifndef CAIRN_STORAGE_BASE_BOX_H_
#define CAIRN_STORAGE_BASE_BOX_H_

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn {

using Extents = absl::InlinedVector<std::uint64_t, 4>;  // one per dimension

struct Box {
  Extents start, count;  // equally many; none: a single element
  std::size_t dimensions() const { return count.size(); }
  friend bool operator==(const Box&, const Box&) = default;
};

// Elements of a box with these extents; nullopt: more than fit into 64 bits.
std::optional<std::uint64_t> Elements(std::span<const std::uint64_t> count);
bool Empty(const Box& box);  // one extent is 0
// Every end (start + count) fits into 64 bits, and start and count have equally many dimensions.
bool Sound(const Box& box);
// False also if `outer` has another number of dimensions. An empty box lies inside if its corner does.
bool Inside(const Box& box, const Box& outer);

// What both have; nullopt: nothing. REQUIRES: both sound, of equally many dimensions.
std::optional<Box> Intersect(const Box& a, const Box& b);
// `box` without `hole`, as at most 2 * dimensions boxes that do not overlap. REQUIRES: as Intersect.
std::vector<Box> Subtract(const Box& box, const Box& hole);
// The elements [begin, end) of a packed box (its elements alone, slowest dimension first) as boxes, in order, at most
// 2 * dimensions - 1. REQUIRES: begin <= end <= elements of the box.
std::vector<Box> RunAsBoxes(const Box& box, std::uint64_t begin, std::uint64_t end);

// Where the rows of a box lie in two packed boxes that both contain it: rows are as long as they are contiguous in
// both. All in elements.
struct RowPattern {
  std::uint64_t a_begin = 0, b_begin = 0;
  std::uint64_t row = 1;
  struct Level {
    std::uint64_t count = 0, a_stride = 0, b_stride = 0;
  };
  absl::InlinedVector<Level, 4> levels;  // slowest first; none: one row
  std::uint64_t rows() const;
  // From the first to behind the last element in a.
  std::uint64_t a_extent() const;
};
// REQUIRES: `common` is not empty and inside both; elements of a and b fit into 64 bits.
RowPattern PatternOf(const Box& common, const Box& a, const Box& b);

// Calls visit(place in a, place in b) for each row, in elements from the boxes' begin.
template <typename Visit>
void ForEachRow(const RowPattern& pattern, Visit visit) {
  Extents at(pattern.levels.size(), 0);
  std::uint64_t a = pattern.a_begin, b = pattern.b_begin;
  while (true) {
    visit(a, b);
    std::size_t level = pattern.levels.size();
    while (true) {
      if (level == 0) return;
      const RowPattern::Level& step = pattern.levels[--level];
      if (++at[level] < step.count) {
        a += step.a_stride;
        b += step.b_stride;
        break;
      }
      a -= step.a_stride * (step.count - 1);
      b -= step.b_stride * (step.count - 1);
      at[level] = 0;
    }
  }
}

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_BOX_H_
