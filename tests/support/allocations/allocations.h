// How often a program that links this asks for memory by `new`.
#ifndef CAIRN_TESTS_SUPPORT_ALLOCATIONS_ALLOCATIONS_H_
#define CAIRN_TESTS_SUPPORT_ALLOCATIONS_ALLOCATIONS_H_

#include <cstddef>

namespace cairn {

// By all threads since the program began, but for what UncountedHere has spared.
std::size_t Allocations();

// What this thread allocates meanwhile does not count: it is the test's own.
class UncountedHere {
 public:
  UncountedHere();
  ~UncountedHere();
  UncountedHere(const UncountedHere&) = delete;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_ALLOCATIONS_ALLOCATIONS_H_
