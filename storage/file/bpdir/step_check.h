// Looks at a large step of md.0 while it is read: files may be sparse and claim any size.
#ifndef CAIRN_STORAGE_FILE_BPDIR_STEP_CHECK_H_
#define CAIRN_STORAGE_FILE_BPDIR_STEP_CHECK_H_

#include <absl/status/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "storage/format/bp5/metadata.h"

namespace cairn::bpdir {

// What a record of md.idx says of its step, as it stands there.
struct StepPlace {
  std::uint64_t begin = 0, bytes = 0;  // in md.0
  std::uint64_t writers = 0;
};

// Whether the step's length, its table of slots, and the formats of those that are not small are what they must be, as
// soon as they are there. Whoever decodes the step looks at the rest.
class StepCheck {
 public:
  // `known` has all formats. `file` goes into errors. REQUIRES: step.bytes >= 8 + 16 * writers, which do not overflow.
  StepCheck(const bp5::Metadata& known, std::string file, const StepPlace& step);
  // `so_far`: the step's first bytes, more each time. kDataLoss: they are none.
  absl::Status Take(std::span<const std::byte> so_far);

 private:
  absl::Status Bad(std::string_view what) const;
  absl::Status TakeSizes(std::span<const std::byte> so_far);
  absl::Status TakeHeads(std::span<const std::byte> so_far);

  const std::string file_;
  const StepPlace step_;
  std::vector<std::array<std::uint8_t, 12>> ids_;  // of the formats, sorted
  const std::uint64_t slots_;
  std::uint64_t sizes_ = 0, heads_ = 0;  // slots of which size and format were looked at
  std::uint64_t left_;                   // of the step, behind the slots whose sizes are known
  std::uint64_t head_begin_;             // of the slot `heads_`, in the step
};

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_STEP_CHECK_H_
