// What an older kernel, a container's filter or a limit refuses, so that each fall-back is really used in a test.
#ifndef CAIRN_TESTS_SUPPORT_REFUSALS_REFUSALS_H_
#define CAIRN_TESTS_SUPPORT_REFUSALS_REFUSALS_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cairn {

struct Refusal {
  // An argument of the call: its lower 32 bits.
  struct Argument {
    int index = 0;
    std::uint32_t mask = ~std::uint32_t{0}, value = 0;  // what it is within the mask
  };
  long call = 0;                       // SYS_…
  int error = 0;                       // what it answers
  std::vector<Argument> only_if = {};  // all of them; else the call is let through
};

struct Refusals {
  std::vector<Refusal> calls = {};
  bool locked_memory = false;  // RLIMIT_MEMLOCK is 0, and nobody may exceed it

  void Add(const Refusals& more);
};

// --- The ones that fall-backs are for ---

Refusals NoIoUring(int error);  // ENOSYS: the kernel has none; EPERM: a filter, or a sysctl
Refusals NoHugePages();         // before Linux 6.1: MADV_COLLAPSE; and no wish for them is heard
Refusals NoPopulate();          // before Linux 5.14: MADV_POPULATE_WRITE
Refusals NoReservation();       // fallocate
Refusals NoDirectIo();
Refusals NoClones();            // FICLONE
Refusals NoHardLinks();         // as file systems without them answer
Refusals NoPinning(int error);  // memory is registered with no ring. ENOMEM: as if it were beyond the limit
Refusals NoNumberedMemory();    // before Linux 5.19: a ring has no places for memory that comes later
Refusals NoLockedMemory();      // newer kernels give no ring then, either

// Runs `what` on a thread of its own. To this one, and to the processes and threads that it starts, these are refused;
// of locked memory to all of this process while `what` runs. Processes that it starts should end within it.
//   kFailedPrecondition  the kernel has no such filters for us, or does not let us give up a capability: nothing was
//                        run
absl::Status RunRefused(const Refusals& refusals, const std::function<void()>& what);

// Skips the test where that is so. First in a test, or in a function that returns nothing.
#define CAIRN_SKIP_UNLESS_REFUSED(refusals) \
  if (const absl::Status can_refuse = ::cairn::RunRefused(refusals, [] {}); !can_refuse.ok()) GTEST_SKIP() << can_refuse

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_REFUSALS_REFUSALS_H_
