// What a rank computes between two checkpoints.
#ifndef CAIRN_TESTS_BENCH_RELAXATION_H_
#define CAIRN_TESTS_BENCH_RELAXATION_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "tests/bench/bench_daemon.h"

namespace cairn::bench {

// A relaxation on a grid of one dimension; so many sweeps take the interval when nothing else runs.
class Relaxation {
 public:
  Relaxation() : grid_(kGridBytes / sizeof(double), 1.0) {}
  void Calibrate(double seconds) {
    constexpr int kSweeps = 20;
    double fastest = std::numeric_limits<double>::max();  // of some tries: something else may still be ending
    sweeps_ = kSweeps;
    for (int i = 0; i < 5; ++i) {
      const double start = Now();
      Run();
      fastest = std::min(fastest, Now() - start);
    }
    sweeps_ = std::max(1, static_cast<int>(std::lround(kSweeps * seconds / fastest)));
  }
  void Run(const std::function<void()>& after_sweep = nullptr) {
    for (int sweep = 0; sweep < sweeps_; ++sweep) {
      if (after_sweep) after_sweep();
      for (std::size_t i = 1; i + 1 < grid_.size(); ++i) {
        grid_[i] = 0.25 * grid_[i - 1] + 0.5 * grid_[i] + 0.25 * grid_[i + 1];
      }
    }
  }

 private:
  static constexpr std::size_t kGridBytes = 4 << 20;  // more than a core's own caches
  std::vector<double> grid_;
  int sweeps_ = 0;
};

}  // namespace cairn::bench

#endif  // CAIRN_TESTS_BENCH_RELAXATION_H_
