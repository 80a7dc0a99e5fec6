// The files of a BP5 directory, wherever they are. Thread-safe once made.
#ifndef CAIRN_STORAGE_BPDIR_FILE_SOURCE_H_
#define CAIRN_STORAGE_BPDIR_FILE_SOURCE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "storage/base/disk.h"

namespace cairn::bpdir {

class FileSource {
 public:
  virtual ~FileSource() = default;
  virtual absl::StatusOr<std::uint64_t> Bytes(const std::string& name) = 0;  // now. kNotFound
  virtual absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) = 0;
  // Bytes that stay in place as long as the source: mapped, or read into memory of its own. kDataLoss: the file ends
  // before.
  virtual absl::StatusOr<std::span<const std::byte>> Hold(const std::string& name, std::uint64_t offset,
                                                          std::uint64_t bytes) = 0;
  // Data where it is, if that costs no reading; empty: Read it.
  virtual std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) = 0;
  virtual std::string NameOf(const std::string& name) const = 0;  // for errors: with the directory
};

// Maps what is held. For directories that nobody truncates meanwhile: who reads a mapped page that a file has lost
// gets a signal. kNotFound: no such directory.
absl::StatusOr<std::unique_ptr<FileSource>> MapFiles(const std::string& directory);
// Reads through a disk: for directories that may be truncated while they are read. Symbolic links of the data files
// are followed (a checkpoint's view has such).
std::unique_ptr<FileSource> ReadFiles(Disk& disk, const std::string& directory);

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_BPDIR_FILE_SOURCE_H_
