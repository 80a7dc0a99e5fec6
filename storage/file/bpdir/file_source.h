// The files of a BP5 directory, wherever they are. Thread-safe once made.
#ifndef CAIRN_STORAGE_FILE_BPDIR_FILE_SOURCE_H_
#define CAIRN_STORAGE_FILE_BPDIR_FILE_SOURCE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "storage/io/disk.h"

namespace cairn::bpdir {

// Sees the first bytes of what is being read into memory, more of them each time, and all of them at last. An error
// ends the reading.
using PrefixCheck = std::function<absl::Status(std::span<const std::byte> so_far)>;

inline constexpr std::size_t kOpenFilesMax = 64;  // of a source; to open one more, it closes another

// All calls: kDataLoss, too, of what is no regular file.
class FileSource {
 public:
  virtual ~FileSource() = default;
  virtual absl::StatusOr<std::uint64_t> Bytes(const std::string& name) = 0;  // now. kNotFound
  // kDataLoss: the file ends before.
  virtual absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) = 0;
  // Bytes that stay in place as long as the source: mapped, or read into memory of its own. kDataLoss: the file ends
  // before. kResourceExhausted: no memory for so many.
  absl::StatusOr<std::span<const std::byte>> Hold(const std::string& name, std::uint64_t offset, std::uint64_t bytes) {
    return HoldIf(name, offset, bytes, nullptr);
  }
  // The same of many bytes that may be none: read piece by piece, none behind one that `check` refuses. Mapped bytes
  // cost nothing, and are not given to `check`.
  virtual absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset,
                                                            std::uint64_t bytes, const PrefixCheck& check) = 0;
  // What Hold answered is not wanted any more.
  virtual void Release(std::span<const std::byte> held) = 0;
  // Whether what is held can be looked at still, as of about now. kDataLoss: it is mapped, and its file was cut.
  virtual absl::Status CheckHeld() { return absl::OkStatus(); }
  // Data where it is, if that costs no reading; empty: Read it.
  virtual std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual std::string NameOf(const std::string& name) const = 0;  // for errors: with the directory; empty: that
  // Another one of the same files as they are now, that holds nothing yet.
  virtual std::unique_ptr<FileSource> Anew() const = 0;
};

// Maps what is held, and data that is shown in place. For directories that nobody truncates meanwhile: who reads a
// mapped page that a file has lost gets a signal. Symbolic links are followed. kNotFound: no such directory.
absl::StatusOr<std::unique_ptr<FileSource>> MapFiles(const std::string& directory);
// Maps what is held, shows no data in place. For directories that grow: what is held of them stays as it is, unless
// somebody cuts them.
absl::StatusOr<std::unique_ptr<FileSource>> MapHeldFiles(const std::string& directory);
// For readers whom no signal may hit, whoever cuts the files: what is held is read into memory, nothing is mapped.
absl::StatusOr<std::unique_ptr<FileSource>> CopyFiles(const std::string& directory);
// Reads through a disk, as CopyFiles. Symbolic links of data files are followed if they are relative and lead to a file
// below the directory's parent, as those of a checkpoint's view do; else kPermissionDenied. `disk` outlives the source.
std::unique_ptr<FileSource> ReadFiles(Disk& disk, const std::string& directory);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_FILE_SOURCE_H_
