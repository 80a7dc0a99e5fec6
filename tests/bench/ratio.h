// Pairs of times, ours and the limit's, measured in the same round; and how they are reported.
#ifndef CAIRN_TESTS_BENCH_RATIO_H_
#define CAIRN_TESTS_BENCH_RATIO_H_

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cairn::bench {

struct Ratio {
  double measured = 0;
  double limit = 0;
  double value() const { return measured / limit; }
};

// The pair whose ratio is the median.
inline Ratio Median(std::vector<Ratio> pairs) {
  std::ranges::sort(pairs, {}, &Ratio::value);
  return pairs[pairs.size() / 2];
}

struct Quartiles {
  double low = 0, median = 0, high = 0;
};
inline Quartiles QuartilesOf(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](std::size_t quarter) { return values[(values.size() - 1) * quarter / 4]; };
  return {.low = at(1), .median = at(2), .high = at(3)};
}

// `inverse`: the pair is (limit, measured), so that the ratio is one of throughputs.
inline void PrintRatios(const std::string& what, std::vector<Ratio> pairs, const std::string& limit,
                        bool inverse = false) {
  std::ranges::sort(pairs, {}, &Ratio::value);
  const auto at = [&](std::size_t quarter) { return pairs[(pairs.size() - 1) * quarter / 4]; };
  const double ours = inverse ? at(2).limit : at(2).measured;
  const double theirs = inverse ? at(2).measured : at(2).limit;
  fmt::print("{}: {:.2f} x {} (quartiles {:.2f} to {:.2f}, {} pairs; {:.1f} ms against {:.1f} ms)\n", what,
             at(2).value(), limit, at(1).value(), at(3).value(), pairs.size(), ours * 1e3, theirs * 1e3);
}

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_RATIO_H_
