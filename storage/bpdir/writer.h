// Writes a BP5 directory, step by step, so that a crash at any instruction leaves a directory with the steps that were
// appended, whole. Blocks on disk. Source: BP5 specification, section 13.
#ifndef CAIRN_STORAGE_BPDIR_WRITER_H_
#define CAIRN_STORAGE_BPDIR_WRITER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/base/disk.h"
#include "storage/bp5/encode.h"
#include "storage/bpdir/image.h"

namespace cairn::bpdir {

class Writer {
 public:
  // Makes the directory; kAlreadyExists if there is one with an md.idx. Active until Close.
  static absl::StatusOr<std::unique_ptr<Writer>> Create(Disk& disk, const std::string& path,
                                                        const bp5::IndexOptions& options);
  // Goes on with one behind its last complete step; what lies behind that in its files is cut off first (md.idx before
  // the others). kFailedPrecondition: active, and not `take_over`.
  static absl::StatusOr<std::unique_ptr<Writer>> Append(Disk& disk, const std::string& path, bool take_over);
  virtual ~Writer() = default;

  virtual std::uint32_t steps() const = 0;
  // Appends to data.<subfile>, padded to 16; answers the position. Durable with the step.
  virtual absl::StatusOr<std::uint64_t> WriteData(std::uint32_t subfile, std::span<const std::byte> bytes) = 0;
  // Makes the data durable, then mmd.0, md.0, md.idx, in this order. A failed step is not there; after an error of the
  // storage only closing is possible.
  virtual absl::Status EndStep(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                               std::span<const std::uint32_t> subfiles) = 0;
  // Clears the active flag, durably, as the last write.
  virtual absl::Status Close() = 0;
};

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_BPDIR_WRITER_H_
