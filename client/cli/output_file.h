// A file that a command makes: it is written under a work name beside its place, and is there whole and durable or not
// at all, also if the command is interrupted.
#ifndef CAIRN_CLIENT_CLI_OUTPUT_FILE_H_
#define CAIRN_CLIENT_CLI_OUTPUT_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "storage/io/disk.h"

namespace cairn::cli {

class OutputFile {
 public:
  struct Options {
    std::string input{};        // absolute, without links: the output must be another file
    bool force = false;         // replace what is there
    std::uint32_t mode = 0600;  // subject to the umask
    std::uint64_t bytes = 0;    // so many must be free, and room is taken for them at once
  };
  // `given` as on the command line; a symbolic link stands for what it points to. `disk` is borrowed. One at a time:
  // until Commit or destruction, SIGINT, SIGTERM and SIGHUP remove the work file before they end the process.
  //   kInvalidArgument    a directory, a device, a pipe, the input itself, "-" or no name at all
  //   kAlreadyExists      it is there, and not to be replaced
  //   kNotFound           its directory is not there
  //   kResourceExhausted  no room
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(Disk& disk, const std::string& given, Options options);

  ~OutputFile();  // not committed: nothing is left
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // From several threads at once, too.
  absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) { return file_->WriteAt(offset, bytes); }
  // Syncs, gives the file its name, syncs the directory. kAlreadyExists: another one was made there meanwhile.
  absl::Status Commit();

  const std::string& path() const { return path_; }  // absolute

 private:
  OutputFile(Disk& disk, std::string path, bool force);
  absl::Status Publish();

  Disk& disk_;
  const std::string path_;
  const std::string work_;
  const bool force_;
  std::unique_ptr<File> file_;
  bool committed_ = false;
};

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_OUTPUT_FILE_H_
