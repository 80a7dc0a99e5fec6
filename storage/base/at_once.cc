#include "storage/base/at_once.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace cairn {

void EachAtOnce(std::size_t count, std::size_t at_once, const std::function<bool(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> goes_on{true};
  const auto lane = [&] {
    while (goes_on) {
      const std::size_t i = next++;
      if (i >= count) return;
      if (!work(i)) goes_on = false;
    }
  };
  std::vector<std::jthread> threads;
  threads.reserve(std::min(count, at_once));
  try {
    while (threads.size() + 1 < std::min(count, at_once)) threads.emplace_back(lane);
  } catch (const std::system_error&) {
    // No more threads to be had: those that there are do it.
  }
  lane();
}

}  // namespace cairn
