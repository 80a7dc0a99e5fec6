// Filters of system calls, those of containers for one, may refuse ioprio_set: tests that need it are skipped there.
#ifndef CAIRN_TESTS_SUPPORT_IO_PRIORITIES_H_
#define CAIRN_TESTS_SUPPORT_IO_PRIORITIES_H_

#include <linux/ioprio.h>

#include <thread>

#include "storage/io/io_priority.h"

namespace cairn {

inline bool MaySetIoPriority() {
  bool may = false;
  std::thread([&may] { may = IoPriority::Idle().Use().ok(); }).join();  // the caller's stays
  return may;
}

// By ioprio_get. Linux 5.15 to 5.19 answers best-effort:4 where none was set.
inline bool IsNone(long number) {
  return number >= 0 &&
         (IOPRIO_PRIO_CLASS(number) == IOPRIO_CLASS_NONE || number == IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4));
}

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_IO_PRIORITIES_H_
