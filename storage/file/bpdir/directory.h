// A BP5 directory to read from: its metadata, kept up with while it grows, and its data. Blocks on its files.
// Source: BP5 specification, sections 2 and 11 ("Growing datasets").
#ifndef CAIRN_STORAGE_FILE_BPDIR_DIRECTORY_H_
#define CAIRN_STORAGE_FILE_BPDIR_DIRECTORY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/file/bpdir/checked_source.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"

namespace cairn::bpdir {

class Directory {
 public:
  enum class Change {
    kNone,
    kGrown,    // steps were added; all found before is as it was
    kReplaced  // truncated or written anew: everything was read again, what metadata() pointed to is gone
  };

  // Reads md.idx, md.0 and mmd.0. kNotFound: there is no md.idx (on a node-local disk that is normal); errors of
  // bp5::Metadata::Extend.
  static absl::StatusOr<std::unique_ptr<Directory>> Open(std::unique_ptr<FileSource> files);
  // Maps it, but data only if it is closed (MapFiles, MapHeldFiles); so again when it was replaced. `sums`: CheckFiles.
  static absl::StatusOr<std::unique_ptr<Directory>> Open(const std::string& path,
                                                         std::shared_ptr<const KnownSums> sums = nullptr);
  virtual ~Directory() = default;

  // Reads the new tail only. An error leaves all that was found as it was; of a tail of many MiB the steps before the
  // damage may have been added. Not thread-safe with anything else. A step whose bytes are not all there, while its
  // record is, is an error: with a writer at work ask again.
  virtual absl::StatusOr<Change> Refresh() = 0;

  virtual const bp5::Metadata& metadata() const = 0;
  // A writer has it open, or died: as of the last Refresh. The flag in metadata().header() is that of the first look.
  virtual bool active() const = 0;
  // Are all steps there, as of the last Refresh? An active directory may end anywhere: OK. Who closes one leaves a
  // whole record at the end of md.idx, and no more in md.0 than its records speak of.
  //   kDataLoss  it is closed, and md.idx was cut, or does not say where its last record ends: steps are missing
  virtual const absl::Status& ending() const = 0;
  // What people should know of it besides: of gaps in md.0, as a job leaves them that was killed before another went on
  // with the directory; nothing tells them from steps whose records were lost.
  virtual std::vector<std::string> notes() const = 0;
  // Whether metadata() can be looked at: asked before each use, of mapped files that others may cut. Quick;
  // thread-safe.
  //   kDataLoss  md.0 or mmd.0 has lost bytes since the last Refresh: a look at them would be a signal
  virtual absl::Status CheckHeld() const = 0;
  // Subfile k is data.<k>. Thread-safe; opens files as they are wanted.
  virtual bp5::ByteSource& data() = 0;
  // While it is kept, bytes that data() has shown in place stay there, whatever becomes of this object.
  virtual std::shared_ptr<const void> Pin() const = 0;
};

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_DIRECTORY_H_
