// MD5 of bytes that come in parts of any length.
#ifndef CAIRN_STORAGE_BASE_MD5_STREAM_H_
#define CAIRN_STORAGE_BASE_MD5_STREAM_H_

#include <array>
#include <cstddef>
#include <span>

#include "storage/base/checksum.h"
#include "storage/base/md5_lanes.h"

namespace cairn {

// Copyable.
class Md5Stream {
 public:
  void Append(std::span<const std::byte> bytes) {
    const Md5Lane lane = Take(bytes);
    Md5Advance({&lane, 1});
  }

  // Takes the next bytes, but leaves their whole blocks to be hashed: the caller gives the lane that is returned, with
  // those of other streams, to Md5Advance, before this stream is used, moved or copied again.
  Md5Lane Take(std::span<const std::byte> bytes);

  // Of all bytes so far; more may follow.
  Md5Digest Finish() const { return Md5Finish(state_, std::span(carry_).first(carried_)); }

 private:
  // Fills the block that is begun; returns what does not go into it.
  std::span<const std::byte> Carry(std::span<const std::byte> bytes);

  Md5State state_;
  std::array<std::byte, kMd5BlockBytes> carry_{};  // the begin of a block whose rest has not come
  std::size_t carried_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_BASE_MD5_STREAM_H_
