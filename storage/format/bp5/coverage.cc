#include "storage/format/bp5/coverage.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

namespace cairn::bp5 {
namespace {

constexpr std::uint64_t kElementsAtOnce = std::uint64_t{8} << 20;

class Marks {
 public:
  explicit Marks(std::uint64_t elements) : words_((elements + 63) / 64) {}

  void Clear() { std::fill(words_.begin(), words_.end(), 0); }
  void Set(std::uint64_t begin, std::uint64_t count) {
    const std::uint64_t end = begin + count;
    while (begin < end) {
      const std::uint64_t bit = begin % 64, here = std::min(64 - bit, end - begin);
      const std::uint64_t ones = here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1;
      words_[begin / 64] |= ones << bit;
      begin += here;
    }
  }
  std::uint64_t Count() const {
    std::uint64_t count = 0;
    for (std::uint64_t word : words_) count += static_cast<std::uint64_t>(std::popcount(word));
    return count;
  }

 private:
  std::vector<std::uint64_t> words_;
};

// Whether the run [begin, end) of the packed `box` is covered.
bool CoversRun(std::span<const Box> parts, const Box& box, std::uint64_t begin, std::uint64_t end, Marks& marks) {
  marks.Clear();
  for (const Box& piece : RunAsBoxes(box, begin, end)) {
    for (const Box& part : parts) {
      const std::optional<Box> common = Intersect(part, piece);
      if (!common) continue;
      const RowPattern pattern = PatternOf(*common, box, box);
      ForEachRow(pattern, [&](std::uint64_t at, std::uint64_t) { marks.Set(at - begin, pattern.row); });
    }
  }
  return marks.Count() == end - begin;
}

}  // namespace

bool Covers(std::span<const Box> parts, const Box& box) {
  const std::uint64_t elements = *Elements(box.count);
  if (elements == 0) return true;
  std::uint64_t together = 0;  // at most `elements` each, so that it is capped there
  for (const Box& part : parts) {
    const std::uint64_t some = *Elements(part.count);
    if (some == elements) return true;
    together = some > elements - together ? elements : together + some;
  }
  if (together < elements) return false;
  Marks marks(std::min(elements, kElementsAtOnce));
  for (std::uint64_t begin = 0; begin < elements;) {
    const std::uint64_t end = begin + std::min(elements - begin, kElementsAtOnce);
    if (!CoversRun(parts, box, begin, end, marks)) return false;
    begin = end;
  }
  return true;
}

}  // namespace cairn::bp5
