// Bytes of files read into memory that stay in place until they are released. Thread-safe.
#ifndef CAIRN_STORAGE_FILE_BPDIR_HELD_BYTES_H_
#define CAIRN_STORAGE_FILE_BPDIR_HELD_BYTES_H_

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>

#include "storage/base/status.h"
#include "storage/file/bpdir/file_source.h"

namespace cairn::bpdir {

class HeldBytes {
 public:
  // Metadata of hundreds of millions of blocks. Files may be sparse and claim any size.
  static constexpr std::uint64_t kBytesMax = std::uint64_t{2} << 30;

  // Reads what stands `at` a place among the bytes wanted.
  using ReadPiece = std::function<absl::Status(std::uint64_t at, std::span<std::byte> target)>;

  // `read` fills new memory: at once, or, if there is a check, in pieces that grow, so that little is read of what is
  // refused. `what` goes into errors.
  absl::StatusOr<std::span<const std::byte>> Hold(std::string_view what, std::uint64_t bytes, const PrefixCheck& check,
                                                  const ReadPiece& read) {
    if (bytes == 0) return std::span<const std::byte>();
    std::unique_ptr<std::byte[]> memory;
    if (bytes <= kBytesMax) memory.reset(new (std::nothrow) std::byte[bytes]);
    if (memory == nullptr) return ResourceExhausted("{}: {} bytes are too many to be held in memory", what, bytes);
    const std::span<std::byte> target(memory.get(), bytes);
    std::uint64_t piece = check ? kFirstPieceBytes : bytes;
    for (std::uint64_t done = 0; done < bytes; piece = std::min(2 * piece, kPieceBytesMax)) {
      const std::uint64_t now = std::min(piece, bytes - done);
      CAIRN_RETURN_IF_ERROR(read(done, target.subspan(done, now)));
      done += now;
      if (check) CAIRN_RETURN_IF_ERROR(check(target.first(done)));
    }
    absl::MutexLock lock(&mutex_);
    held_[target.data()] = std::move(memory);
    return target;
  }
  void Release(std::span<const std::byte> held) {
    absl::MutexLock lock(&mutex_);
    held_.erase(held.data());
  }

 private:
  static constexpr std::uint64_t kFirstPieceBytes = std::uint64_t{64} << 10, kPieceBytesMax = std::uint64_t{4} << 20;

  absl::Mutex mutex_;
  std::map<const std::byte*, std::unique_ptr<std::byte[]>> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace cairn::bpdir

#endif  // CAIRN_STORAGE_FILE_BPDIR_HELD_BYTES_H_
