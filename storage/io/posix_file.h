// An open file of the PosixDisk.
#ifndef CAIRN_STORAGE_IO_POSIX_FILE_H_
#define CAIRN_STORAGE_IO_POSIX_FILE_H_

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <memory>
#include <string>
#include <string_view>

#include "storage/base/unique_fd.h"
#include "storage/io/disk.h"
#include "storage/io/io_engine.h"

namespace cairn {

// As statx(2), with its first three arguments. `name` is for the message.
absl::StatusOr<FileInfo> ReadFileInfo(int fd, const char* path, int flags, std::string_view name);

class PosixFile final : public File {
 public:
  // `engine` is let go of once the file and its last transfer have ended, possibly on a thread of the engine itself.
  PosixFile(std::shared_ptr<IoEngine> engine, UniqueFd fd, std::string path, bool direct);

  absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override;
  absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override;
  void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override;
  void WriteAsync(std::uint64_t offset, std::span<const std::byte> bytes, Done done) override;
  absl::Status Truncate(std::uint64_t bytes) override;
  absl::Status Sync() override;
  absl::StatusOr<FileInfo> Info() override;
  absl::Status TryLock() override;
  bool direct() const override { return handle_->direct; }
  const std::string& path() const override { return handle_->path; }

 private:
  // Transfers under way keep it alive: a File may go before they end.
  struct Handle {
    std::shared_ptr<IoEngine> engine;
    UniqueFd fd;
    std::string path;
    bool direct;

    absl::Status CheckAlignment(std::string_view what, std::uint64_t offset, std::span<const std::byte> bytes) const;
    absl::Status ReadResult(int error, std::size_t got, std::uint64_t offset, std::span<std::byte> target) const;
    absl::Status WriteResult(int error, std::size_t taken, std::uint64_t offset) const;
  };

  std::shared_ptr<const Handle> handle_;
  absl::Mutex sync_mutex_;
  absl::Status sync_error_ ABSL_GUARDED_BY(sync_mutex_);
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_IO_POSIX_FILE_H_
