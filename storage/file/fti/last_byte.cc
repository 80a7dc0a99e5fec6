#include "storage/file/fti/last_byte.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/base/checksum.h"
#include "storage/base/md5_stream.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"

namespace cairn::fti {
namespace {

constexpr std::size_t kHashedAtOnce = 1 << 20;

// What follows no chunk: the last chunk record, if the last block has no bytes. It ends with the hash of an empty
// chunk, which its other bytes tell; all else is zeros.
absl::Status MendBehindChunks(File& file, std::uint64_t bytes) {
  const Md5Digest empty = Md5({});
  Md5Digest end{};
  const auto found = std::as_writable_bytes(std::span(end));
  std::byte last{0};
  if (bytes >= found.size()) {
    CAIRN_RETURN_IF_ERROR(file.ReadAt(bytes - found.size(), found));
    const auto expected = std::as_bytes(std::span(empty));
    if (std::equal(found.begin(), found.end() - 1, expected.begin())) last = expected.back();
  }
  return file.WriteAt(bytes - 1, {&last, 1});
}

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
  if (last == containers.end()) return MendBehindChunks(file, info.bytes);
  // Hashed once up to the last byte, which then is tried with each value.
  Md5Stream hash;
  const std::uint64_t known = last->chunk_bytes - 1;
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kHashedAtOnce, known));
  for (std::uint64_t done = 0; done < known; done += buffer.size()) {
    const auto piece = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), known - done));
    CAIRN_RETURN_IF_ERROR(file.ReadAt(last->file_offset + done, piece));
    hash.Append(piece);
  }
  const Md5Digest& expected = metadata.chunk_hashes[static_cast<std::size_t>(last - containers.begin())];
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::byte>(value);
    Md5Stream tried = hash;
    tried.Append({&byte, 1});
    if (tried.Finish() == expected) return file.WriteAt(info.bytes - 1, {&byte, 1});
  }
  return absl::OkStatus();
}

}  // namespace cairn::fti
