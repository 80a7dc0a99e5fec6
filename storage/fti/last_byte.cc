#include "storage/fti/last_byte.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/md5_lanes.h"
#include "storage/base/status.h"
#include "storage/ftiff/codec.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;
static_assert(kReadBytes % kMd5BlockBytes == 0);

}  // namespace

absl::Status MendLastByte(File& file) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file.Info());
  const ftiff::ReadAt read = [&file](std::uint64_t offset, std::span<std::byte> target) {
    return file.ReadAt(offset, target);
  };
  CAIRN_ASSIGN_OR_RETURN(const ftiff::FileMetadata metadata, ftiff::DecodeMetadata(file.path(), info.bytes, read));
  const auto& containers = metadata.layout.containers;
  const auto last = std::find_if(containers.begin(), containers.end(), [&](const ftiff::Container& container) {
    return container.has_content && container.chunk_bytes > 0 &&
           container.file_offset + container.chunk_bytes == info.bytes;
  });
  if (last == containers.end()) {  // behind the last chunk there are only zeros
    const std::byte zero{0};
    return file.WriteAt(info.bytes - 1, {&zero, 1});
  }
  // Hashed once up to the last piece, which then is tried with each value.
  Md5State state;
  std::uint64_t done = 0;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kReadBytes, last->chunk_bytes));
  for (; last->chunk_bytes - done > kMd5BlockBytes;) {
    const std::uint64_t whole = (last->chunk_bytes - done - 1) / kMd5BlockBytes * kMd5BlockBytes;
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(kReadBytes, whole));
    CAIRN_RETURN_IF_ERROR(file.ReadAt(last->file_offset + done, piece));
    const Md5Lane lane{&state, piece.data(), piece.size()};
    Md5Advance({&lane, 1});
    done += piece.size();
  }
  const auto rest = std::span(buffer).first(last->chunk_bytes - done);
  CAIRN_RETURN_IF_ERROR(file.ReadAt(last->file_offset + done, rest));
  const Md5Digest& expected = metadata.chunk_hashes[static_cast<std::size_t>(last - containers.begin())];
  for (int value = 0; value < 256; ++value) {
    rest.back() = static_cast<std::byte>(value);
    if (Md5Finish(state, rest) == expected) return file.WriteAt(info.bytes - 1, rest.last(1));
  }
  return absl::OkStatus();
}

}  // namespace cairn::fti
