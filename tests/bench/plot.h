// Lines in a picture, both axes logarithmic.
#ifndef CAIRN_TESTS_BENCH_PLOT_H_
#define CAIRN_TESTS_BENCH_PLOT_H_

#include <string>
#include <utility>
#include <vector>

namespace cairn::bench {

struct PlotLine {
  std::string name;  // empty: it belongs to the one before, and has its colour
  bool dashed = false;
  std::vector<std::pair<double, double>> points;  // both above 0, from left to right
};

struct Plot {
  std::string title, x, y;  // no characters that XML knows
  std::vector<PlotLine> lines;
};

// As SVG; false: the file cannot be written. REQUIRES: at least one point.
bool WriteSvg(const Plot& plot, const std::string& path);

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_PLOT_H_
