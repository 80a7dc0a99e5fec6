#include "storage/base/random.h"

#include <sys/random.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "storage/base/check.h"

namespace cairn {
namespace {

thread_local ScopedRandom* simulated_random = nullptr;

}  // namespace

void FillRandom(std::span<std::byte> bytes) {
  while (!bytes.empty() && simulated_random != nullptr) {
    const std::uint64_t number = simulated_random->next_();
    const std::size_t n = std::min(bytes.size(), sizeof number);
    std::memcpy(bytes.data(), &number, n);
    bytes = bytes.subspan(n);
  }
  while (!bytes.empty()) {
    const ssize_t n = ::getrandom(bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    CAIRN_CHECK(n > 0);  // the kernel promises it for a valid buffer
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

ScopedRandom::ScopedRandom(std::function<std::uint64_t()> next)
    : next_(std::move(next)), outer_(std::exchange(simulated_random, this)) {}

ScopedRandom::~ScopedRandom() {
  CAIRN_CHECK(simulated_random == this);
  simulated_random = outer_;
}

}  // namespace cairn
