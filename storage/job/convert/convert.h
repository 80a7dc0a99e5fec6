// A checkpoint file of FTI-FF again in layout A or F. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_CONVERT_CONVERT_H_
#define CAIRN_STORAGE_JOB_CONVERT_CONVERT_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "storage/file/known/known_file.h"
#include "storage/format/ftiff/letter.h"
#include "storage/format/ftiff/write.h"
#include "storage/io/disk.h"

namespace cairn {

struct ConvertOptions {
  ftiff::Letter letter = ftiff::Letter::kF;  // A or F
  // One container a variable; else the containers of the file, unless it ends inside one, as B may: then exact, too.
  bool exact = false;
};

struct Converted {
  ftiff::FileMetadata metadata;    // of the new file
  std::vector<std::string> notes;  // what is right and yet may surprise
};

class Conversion {
 public:
  // `path`: absolute. Errors of OpenCheckpointFile pass through. `disk` outlives the conversion.
  static absl::StatusOr<Conversion> Plan(Disk& disk, const std::string& path, const ConvertOptions& options);

  std::uint64_t bytes() const;  // of the new file
  bool exact() const { return exact_; }
  std::uint32_t file_mode() const { return file_mode_; }

  // Keeps checkpoint id, timestamp, maxFs and ptFs. Where a layout holds no id, a name of FTI's tells it: the file's,
  // or `output`'s, which is the new file's path. The file is verified before and while it is converted.
  //   kDataLoss  it is damaged, and what was written is worth nothing
  using WriteAt = std::function<absl::Status(std::uint64_t offset, std::span<const std::byte> bytes)>;
  absl::StatusOr<Converted> Run(const std::string& output, const WriteAt& write);

 private:
  std::vector<std::string> NotesOf(const std::string& output) const;

  std::string path_;
  ConvertOptions options_;
  CheckpointFile file_;
  ftiff::FileToWrite target_;
  bool exact_ = false;
  std::uint64_t bytes_there_ = 0;  // of the file; its metadata may claim more
  std::uint32_t file_mode_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_CONVERT_CONVERT_H_
