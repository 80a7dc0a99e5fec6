#include "tests/bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>

namespace cairn::bench {
namespace {

constexpr double kWidth = 760, kHeight = 420, kLeft = 70, kRight = 170, kTop = 40, kBottom = 60;
constexpr std::array kColours = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};

// From a value to its place.
struct Axis {
  double least = std::numeric_limits<double>::max(), greatest = 0;
  double from = 0, to = 0;  // places of these

  void Hold(double value) {
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  double Place(double value) const {
    if (greatest <= least) return (from + to) / 2;
    return from + (to - from) * std::log(value / least) / std::log(greatest / least);
  }
  // 1, 2 and 5 of each power of ten.
  std::vector<double> Marks() const {
    std::vector<double> marks;
    for (double power = std::pow(10, std::floor(std::log10(least))); power <= greatest; power *= 10) {
      for (const double digit : {1, 2, 5}) {
        const double mark = power * digit;
        if (mark >= least * 0.999 && mark <= greatest * 1.001) marks.push_back(mark);
      }
    }
    return marks;
  }
};

std::string Text(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, text);
}

std::string Line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n", x1, y1, x2,
                     y2);
}

std::string Axes(const Plot& plot, const Axis& x, const Axis& y) {
  std::string svg = Text(kLeft, 22, "start", plot.title);
  for (const double mark : x.Marks()) {
    svg += Line(x.Place(mark), kTop, x.Place(mark), kHeight - kBottom);
    svg += Text(x.Place(mark), kHeight - kBottom + 18, "middle", fmt::format("{:g}", mark));
  }
  for (const double mark : y.Marks()) {
    svg += Line(kLeft, y.Place(mark), kWidth - kRight, y.Place(mark));
    svg += Text(kLeft - 8, y.Place(mark) + 4, "end", fmt::format("{:g}", mark));
  }
  svg += Text((kLeft + kWidth - kRight) / 2, kHeight - 16, "middle", plot.x);
  const double middle = (kTop + kHeight - kBottom) / 2;
  return svg + fmt::format(
                   "<text x=\"18\" y=\"{0:.1f}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {0:.1f})\">{1}"
                   "</text>\n",
                   middle, plot.y);
}

std::string Draw(const PlotLine& line, const Axis& x, const Axis& y, const char* colour) {
  std::string places;
  for (const auto& [at, value] : line.points) places += fmt::format("{:.1f},{:.1f} ", x.Place(at), y.Place(value));
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n", places, colour,
                     line.dashed ? " stroke-dasharray=\"5 4\" opacity=\"0.6\"" : "");
}

}  // namespace

bool WriteSvg(const Plot& plot, const std::string& path) {
  Axis x{.from = kLeft, .to = kWidth - kRight}, y{.from = kHeight - kBottom, .to = kTop};
  y.Hold(1);
  for (const PlotLine& line : plot.lines) {
    for (const auto& [at, value] : line.points) {
      x.Hold(at);
      y.Hold(value);
    }
  }
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += Axes(plot, x, y);
  std::size_t named = 0;
  for (const PlotLine& line : plot.lines) {
    if (!line.name.empty()) ++named;
    const char* const colour = kColours.at((std::max<std::size_t>(named, 1) - 1) % kColours.size());
    svg += Draw(line, x, y, colour);
    if (line.name.empty()) continue;
    const double at = kTop + 18 * static_cast<double>(named);
    svg += fmt::format("<rect x=\"{}\" y=\"{:.1f}\" width=\"14\" height=\"4\" fill=\"{}\"/>\n", kWidth - kRight + 14,
                       at - 5, colour);
    svg += Text(kWidth - kRight + 34, at, "start", line.name);
  }
  std::ofstream file(path);
  file << svg << "</svg>\n" << std::flush;
  return file.good();
}

}  // namespace cairn::bench
