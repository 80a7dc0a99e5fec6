// Writes a BP5 directory, step by step, so that a crash at any instruction leaves a directory with the steps that were
// appended, whole. Blocks on disk. Source: BP5 specification, section 13.
#ifndef CAIRN_STORAGE_FILE_BPDIR_WRITER_H_
#define CAIRN_STORAGE_FILE_BPDIR_WRITER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/format/bp5/encode.h"
#include "storage/format/bp5/image.h"
#include "storage/io/disk.h"

namespace cairn::bpdir {

// One thread at a time. Gone without Close it leaves the directory active, as a crash does.
//
// md.idx and mmd.0 grow so that a reader who stops at the first unfinished record, as he should, never takes what a
// crash has left behind them for one: first the record's length is there, too large by far, then all of the record,
// then its true length, each made durable before the next.
//
// Errors of the storage are those of Disk, and final: from then on only Close is possible. Others name what is wrong.
class Writer {
 public:
  // Makes the directory, and its parents. Active until Close. kAlreadyExists: it has an md.idx. Other files of these
  // names that are there, but no md.idx, are taken for what a crash in here has left.
  static absl::StatusOr<std::unique_ptr<Writer>> Create(Disk& disk, const std::string& path,
                                                        const bp5::IndexOptions& options);
  // Goes on with one behind its last complete step; what lies behind that in its files is cut off first (md.idx before
  // the others), in data files that are files here and not links. Whom the active flag does not keep apart must not
  // call this at the same time.
  //   kNotFound            there is no md.idx
  //   kFailedPrecondition  active, and not `take_over`; of another version
  //   kDataLoss            damaged
  static absl::StatusOr<std::unique_ptr<Writer>> Append(Disk& disk, const std::string& path, bool take_over);
  virtual ~Writer() = default;

  virtual std::uint32_t steps() const = 0;
  // Appends to data.<subfile>, padded to 16; answers the position. Durable with the step.
  virtual absl::StatusOr<std::uint64_t> WriteData(std::uint32_t subfile, std::span<const std::byte> bytes) = 0;
  // Makes the data durable, then mmd.0, md.0, md.idx, in this order. A failed step is not there, unless it was the
  // very last sync that failed: then it may be.
  //   kInvalidArgument  no writers, or the three do not fit each other; nothing was done
  virtual absl::Status EndStep(std::span<const bp5::EncodedStep> writers, std::span<const bp5::WriterData> data,
                               std::span<const std::uint32_t> subfiles) = 0;
  // Clears the active flag, durably, as the last write. After an error in md.idx itself that error: the directory stays
  // active, to be taken over.
  virtual absl::Status Close() = 0;
};

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_WRITER_H_
