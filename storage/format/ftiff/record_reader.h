// Runs of records of a file, record after record, through a buffer of bounded size. Nothing outside a run is read.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_RECORD_READER_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_RECORD_READER_H_

#include <absl/status/statusor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"

namespace cairn::ftiff {

class RecordReader {
 public:
  static constexpr std::size_t kBufferBytes = 64 << 10;

  explicit RecordReader(const ReadAt& read) : read_(read) {}  // borrowed

  // Begins the run [begin, end), or moves the end of the present one. REQUIRES: at() <= end.
  void Begin(std::uint64_t begin, std::uint64_t end) {
    at_ = begin;
    buffered_ = used_ = 0;
    Extend(end);
  }
  void Extend(std::uint64_t end) {
    CAIRN_CHECK(at_ + (buffered_ - used_) <= end);
    end_ = end;
  }

  std::uint64_t at() const { return at_; }
  std::uint64_t rest() const { return end_ - at_; }

  // The next record, good until the next call. REQUIRES: bytes <= rest() and <= kBufferBytes.
  absl::StatusOr<std::span<const std::byte>> Take(std::size_t bytes) {
    CAIRN_CHECK(bytes <= rest() && bytes <= kBufferBytes);
    if (buffered_ - used_ < bytes) {
      buffered_ = used_ = 0;
      const std::size_t filled = std::min<std::uint64_t>(rest(), kBufferBytes);
      if (buffer_.size() < filled) buffer_.resize(filled);
      CAIRN_RETURN_IF_ERROR(read_(at_, std::span(buffer_).first(filled)));
      buffered_ = filled;
    }
    const std::span<const std::byte> record = std::span(buffer_).subspan(used_, bytes);
    used_ += bytes;
    at_ += bytes;
    return record;
  }

  // Leaves out what follows. REQUIRES: bytes <= rest().
  void Skip(std::uint64_t bytes) {
    CAIRN_CHECK(bytes <= rest());
    used_ += std::min<std::uint64_t>(bytes, buffered_ - used_);
    at_ += bytes;
  }

 private:
  const ReadAt& read_;
  std::uint64_t at_ = 0, end_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t buffered_ = 0, used_ = 0;  // bytes of the buffer: filled, and handed out or left out
};

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_RECORD_READER_H_
