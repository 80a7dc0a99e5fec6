// A set of numbers (ids of datasets, ranks), kept as ranges: those of a run are mostly consecutive. Not thread-safe for
// changes.
#ifndef CAIRN_STORAGE_BASE_NUMBER_RANGES_H_
#define CAIRN_STORAGE_BASE_NUMBER_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

class NumberRanges {
 public:
  bool Contains(std::uint64_t number) const;
  void Add(std::uint64_t number) { AddRange(number, number); }
  void AddRange(std::uint64_t first, std::uint64_t last);  // both in it. REQUIRES: first <= last < 2^64 - 1
  void Remove(std::uint64_t number);
  bool empty() const { return ranges_.empty(); }
  std::uint64_t size() const;                  // how many numbers
  std::vector<std::uint64_t> Numbers() const;  // rising. Bounded by whoever has made the set

  const std::map<std::uint64_t, std::uint64_t>& ranges() const {
    return ranges_;
  }  // first -> last, apart from each other
  friend bool operator==(const NumberRanges&, const NumberRanges&) = default;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;
};

// "0-3,8". Parse takes nothing else: rising, apart from each other, all of them below `below`, not empty.
std::string TextOf(const NumberRanges& numbers);
std::optional<NumberRanges> ParseNumberRanges(std::string_view text, std::uint64_t below);

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_NUMBER_RANGES_H_
