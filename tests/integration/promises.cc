#include "tests/integration/promises.h"

#include <poll.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

namespace cairn::testing {

Promises ReadPromises(const std::string& path) {
  Promises promises;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string kind;
    std::uint64_t a = 0, b = 0;
    words >> kind >> a >> b;
    if (kind == "refused") {
      promises.refused.push_back(line);
    } else if (kind == "lost") {
      promises.lost.push_back(line);
    } else {
      promises.by_kind[kind][a] = b;
    }
  }
  return promises;
}

std::uint64_t NewestStep(const std::map<std::uint64_t, std::uint64_t>& promised) {
  return promised.empty() ? 0 : promised.rbegin()->second;
}

bool AwaitPromises(const std::string& path, const std::string& kind, std::size_t count) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (ReadPromises(path).by_kind[kind].size() < count) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

void LetItWorkFor(std::chrono::microseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    ::poll(nullptr, 0, 0);
  }
}

std::uint64_t TestSeed() {
  const char* given = std::getenv("CAIRN_TEST_SEED");
  return given != nullptr && *given != '\0' ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

}  // namespace cairn::testing
