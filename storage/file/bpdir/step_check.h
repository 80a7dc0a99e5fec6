// Looks at a step in md.0 before it is held in memory: files may be sparse and claim any size.
#ifndef CAIRN_STORAGE_FILE_BPDIR_STEP_CHECK_H_
#define CAIRN_STORAGE_FILE_BPDIR_STEP_CHECK_H_

#include <absl/status/status.h>

#include <cstdint>

#include "storage/file/bpdir/file_source.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::bpdir {

// What a record of md.idx says of its step, as it stands there.
struct StepPlace {
  std::uint64_t begin = 0, bytes = 0;  // in md.0
  std::uint64_t writers = 0;
};

// Whether the step's length, its table of slots, and the formats of those that are not small are what they must be:
// kDataLoss if not. Reads these alone, with little memory. `known` has all formats. Steps of at most a few KiB are not
// looked at, the error of who decodes them is as cheap. REQUIRES: begin + bytes <= bytes of md.0; bytes >= 8 + 16 *
// writers, which do not overflow.
absl::Status CheckStep(FileSource& files, const bp5::Metadata& known, const StepPlace& step);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_STEP_CHECK_H_
