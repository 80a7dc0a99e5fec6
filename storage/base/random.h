// Random bytes of the kernel, for identities and names that must not collide between processes and nodes.
#ifndef CAIRN_STORAGE_BASE_RANDOM_H_
#define CAIRN_STORAGE_BASE_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace cairn {

void FillRandom(std::span<std::byte> bytes);

// While one lives, FillRandom on this thread takes its bytes from `next` instead. For simulations, which run all there
// is on one thread and must come to the same again; never in a program. The innermost one counts.
class ScopedRandom {
 public:
  explicit ScopedRandom(std::function<std::uint64_t()> next);
  ~ScopedRandom();
  ScopedRandom(const ScopedRandom&) = delete;
  ScopedRandom& operator=(const ScopedRandom&) = delete;

 private:
  friend void FillRandom(std::span<std::byte> bytes);
  const std::function<std::uint64_t()> next_;
  ScopedRandom* const outer_;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_RANDOM_H_
