// A job that writes a BP5 directory step by step, and a look at whether the steps that one shows are whole.
#ifndef CAIRN_TESTS_SUPPORT_GROWING_BP5_H_
#define CAIRN_TESTS_SUPPORT_GROWING_BP5_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "storage/file/bpdir/writer.h"
#include "storage/format/bp5/encode.h"
#include "storage/io/disk.h"

namespace cairn {

// Two writers with a subfile each. Every step has the scalar "tag", a number that no other step of any job with another
// seed has, and the global array "x" whose elements follow from it; every third step a new variable comes, so that
// formats change.
class GrowingBp5 {
 public:
  GrowingBp5(Disk& disk, std::string path, std::uint64_t seed = 1, std::uint64_t elements = 600)
      : disk_(disk), path_(std::move(path)), seed_(seed), elements_(elements) {}

  absl::Status Create(std::uint32_t id = 0);
  absl::Status Step();
  absl::Status Close() { return writer_->Close(); }
  // What an append run does that throws steps away: md.idx, md.0 and the data are cut, and it is written on with
  // another seed.
  absl::Status CutTo(std::uint32_t steps, std::uint64_t seed);
  std::uint32_t steps() const { return writer_->steps(); }

 private:
  Disk& disk_;
  const std::string path_;
  std::uint64_t seed_, elements_;
  std::vector<bp5::WriterEncoder> encoders_ = std::vector<bp5::WriterEncoder>(2);
  std::unique_ptr<bpdir::Writer> writer_;
};

// Opens the directory and reads all of every step: the number of steps, or what is wrong.
//   kNotFound  there is no md.idx
absl::StatusOr<std::uint32_t> WholeSteps(Disk& disk, const std::string& path);
// The tag of a step; 0: no such step.
std::uint64_t TagOf(Disk& disk, const std::string& path, std::uint32_t step);
bool IsActive(Disk& disk, const std::string& path);

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_GROWING_BP5_H_
