// Which transfers go first where several wait for a disk (ioprio_set(2)), if the disk's scheduler heeds that: each
// thread has a priority, and the transfers that it begins have it, too, whoever carries them out (io_engine.h).
#ifndef CAIRN_STORAGE_IO_IO_PRIORITY_H_
#define CAIRN_STORAGE_IO_IO_PRIORITY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string_view>

namespace cairn {

class IoPriority {
 public:
  constexpr IoPriority() = default;  // none: the kernel goes by the thread's nice value
  explicit constexpr IoPriority(std::uint16_t number) : number_(number) {}  // as the kernel numbers them
  static IoPriority Idle();                                                 // after all others
  // As settings have it: "none", "idle", or "best-effort:0" (first) to "best-effort:7"; 4 is what others have.
  //   kInvalidArgument  anything else
  static absl::StatusOr<IoPriority> Parse(std::string_view text);
  // What this thread has, or has from the one that made it. best-effort:4 that it was not given by Use: none.
  static IoPriority OfThisThread();

  // This thread's from now on, and that of threads that it makes.
  //   kUnavailable  the kernel, or a filter, refuses it: what it was stays
  absl::Status Use() const;
  std::uint16_t number() const { return number_; }  // 0: none
  friend bool operator==(const IoPriority&, const IoPriority&) = default;

 private:
  std::uint16_t number_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_IO_PRIORITY_H_
