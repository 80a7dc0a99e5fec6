#include "storage/io/io_priority.h"

#include <linux/ioprio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "storage/base/status.h"

namespace cairn {
namespace {

// glibc has functions for neither.
long Get() {
  return ::syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
}
long Set(std::uint16_t number) {
  return ::syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, number);
}

// Linux 5.15 to 5.19 answers this of a thread that has none, too. It is where transfers are that have none.
constexpr long kOfOthers = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 4);

// A thread has it for long, and each of its transfers asks. What was set here is known, also where it is kOfOthers.
thread_local std::optional<IoPriority> of_this_thread;

}  // namespace

IoPriority IoPriority::Idle() {
  return IoPriority(IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
}

absl::StatusOr<IoPriority> IoPriority::Parse(std::string_view text) {
  constexpr std::string_view kBestEffort = "best-effort:";
  if (text == "none") return IoPriority();
  if (text == "idle") return Idle();
  if (text.size() == kBestEffort.size() + 1 && text.starts_with(kBestEffort) && text.back() >= '0' &&
      text.back() <= '7') {
    return IoPriority(static_cast<std::uint16_t>(IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, text.back() - '0')));
  }
  return InvalidArgument("\"{}\" is none of none, idle, best-effort:0 to best-effort:7", text);
}

IoPriority IoPriority::OfThisThread() {
  if (!of_this_thread) {
    const long number = Get();
    // Where none was set, some kernels tell a class that follows from the nice value, others none with a level.
    const bool none = number < 0 || IOPRIO_PRIO_CLASS(number) == IOPRIO_CLASS_NONE || number == kOfOthers;
    of_this_thread = none ? IoPriority() : IoPriority(static_cast<std::uint16_t>(number));
  }
  return *of_this_thread;
}

absl::Status IoPriority::Use() const {
  if (OfThisThread() == *this) return absl::OkStatus();
  if (Set(number_) != 0) return Unavailable("ioprio_set: {}", std::strerror(errno));
  of_this_thread = *this;
  return absl::OkStatus();
}

}  // namespace cairn
