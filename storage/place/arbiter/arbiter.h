// Decides races between the nodes of a run. What they race for is a name: a launch ("launch.7"), a block of ids
// ("ids.3"), a lease ("launch.7.1.lease"), the epoch of a coordinator. Of all nodes that make the same name one
// succeeds, and all others see what that one has made.
//
// It decides who was first and nothing else. What was decided for good is also a file of that name in the run's .cairn,
// before anyone acts on it, so that whoever reads the prefix needs no arbiter; datasets are committed on the prefix
// alone. Which back end decides for a run is a record of the run (arbiter_record.h).
//
// Calls block, on disk or network, each for a bounded time unless the file system hangs. Thread-safe.
//   kUnavailable  no answer; what was to be made may have been made, and is found by Names then. IsArbiterSilent: it is
//                 not the file system that does not answer
#ifndef CAIRN_STORAGE_PLACE_ARBITER_ARBITER_H_
#define CAIRN_STORAGE_PLACE_ARBITER_ARBITER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

// kUnavailable, of an arbiter that is a service beside the prefix: whoever needs it may wait for it.
absl::Status ArbiterIsSilent(std::string_view text);
bool IsArbiterSilent(const absl::Status& status);

class Arbiter {
 public:
  Arbiter() = default;
  Arbiter(const Arbiter&) = delete;
  Arbiter& operator=(const Arbiter&) = delete;
  virtual ~Arbiter() = default;

  // A record that never changes, complete and durable, at the arbiter and in .cairn. At most kRecordBytesMax.
  //   kAlreadyExists  another has made it: it is in .cairn
  virtual absl::Status Create(const std::string& name, std::string_view bytes) = 0;

  // All names there are, sorted, as they were for all nodes at some instant after the call began. Records among them
  // are in .cairn when it returns. There may be others: whatever .cairn holds.
  virtual absl::StatusOr<std::vector<std::string>> Names() = 0;

  // --- A lease: its maker alone writes it again, and anybody reads it ---
  // kAlreadyExists: another has made it.
  virtual absl::Status CreateLease(const std::string& name, std::string_view bytes) = 0;
  // kNotFound: it is gone. Until it has returned OK, readers may find what it replaces, what it brings, or neither.
  virtual absl::Status WriteLease(const std::string& name, std::string_view bytes) = 0;
  // kNotFound. At most `bytes_max` and one more, so that one that is too long can be told; what cannot be a lease (it
  // was cut, it is a directory, somebody has forged it) is empty.
  virtual absl::StatusOr<std::string> ReadLease(const std::string& name, std::size_t bytes_max) = 0;

  static constexpr std::size_t kRecordBytesMax = 64 << 10;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_ARBITER_ARBITER_H_
