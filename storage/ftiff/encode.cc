#include <cstring>
#include <limits>
#include <string>

#include "storage/base/check.h"
#include "storage/ftiff/codec.h"
#include "storage/ftiff/records.h"

namespace cairn::ftiff {
namespace {

// By the reader rule (3.5): such a file is accepted by FTI, too, when a container has lost its content.
std::string ChecksumOf(const FileLayout& layout, std::span<const Md5Digest> chunk_hashes) {
  std::vector<Md5Digest> covered;
  covered.reserve(chunk_hashes.size());
  for (std::size_t i = 0; i < chunk_hashes.size(); ++i) {
    if (layout.containers[i].has_content) covered.push_back(chunk_hashes[i]);
  }
  return HexOf(Md5(std::as_bytes(std::span(covered))));
}

void PutChunk(const RecordTable& table, const Container& container, const Md5Digest& hash,
              std::span<std::byte> record) {
  const ChunkFields& fields = *table.chunk;
  PutField(record, fields.id, container.id);
  PutField(record, fields.container_id, container.index);
  PutField(record, fields.has_content, container.has_content ? 1 : 0);
  PutField(record, fields.has_checkpoint, container.in_file_before ? 1 : 0);
  PutField(record, fields.variable_offset, static_cast<std::int64_t>(container.variable_offset));
  PutField(record, fields.file_offset, static_cast<std::int64_t>(container.file_offset));
  PutField(record, fields.chunk_bytes, static_cast<std::int64_t>(container.chunk_bytes));
  PutField(record, fields.container_bytes, static_cast<std::int64_t>(container.container_bytes));
  std::memcpy(record.data() + fields.hash_offset, hash.data(), hash.size());
}

void PutTrailer(const RecordTable& table, const FileHeader& header, const std::string& checksum,
                std::uint64_t data_bytes, std::uint64_t meta_bytes, std::span<std::byte> record) {
  CAIRN_CHECK(checksum.size() + 1 == kChecksumBytes);
  std::memcpy(record.data(), checksum.c_str(), kChecksumBytes);
  const auto file_bytes = static_cast<std::int64_t>(data_bytes + meta_bytes);
  PutField(record, table.checkpoint_id, header.checkpoint_id);
  PutField(record, table.file_bytes, file_bytes);
  PutField(record, table.meta_bytes, static_cast<std::int64_t>(meta_bytes));
  PutField(record, table.data_bytes, static_cast<std::int64_t>(data_bytes));
  PutField(record, table.fs, file_bytes);
  PutField(record, table.max_fs, header.file_bytes_max);
  PutField(record, table.partner_fs, header.partner_bytes);
  PutField(record, table.timestamp, static_cast<std::int64_t>(header.timestamp_ns));
  const Md5Digest hash = MetadataHash(table, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
}

}  // namespace

std::vector<std::byte> EncodeMetadata(const FileLayout& layout, std::span<const Md5Digest> chunk_hashes,
                                      const FileHeader& header) {
  const RecordTable& table = kLayoutF;
  CAIRN_CHECK(chunk_hashes.size() == layout.containers.size());
  CAIRN_CHECK(layout.file_bytes(Letter::kF) <= std::numeric_limits<std::int64_t>::max());
  std::vector<std::byte> bytes(layout.meta_bytes(Letter::kF));
  std::span<std::byte> rest = bytes;
  const auto take = [&rest](std::size_t count) {
    const std::span<std::byte> record = rest.first(count);
    rest = rest.subspan(count);
    return record;
  };
  std::size_t next = 0;
  for (const std::uint32_t chunks : layout.block_containers) {
    const std::span<std::byte> block = take(table.block_record_bytes);
    std::uint64_t block_bytes = 0;
    CAIRN_CHECK(chunks <= layout.containers.size() - next);
    for (const std::size_t end = next + chunks; next < end; ++next) {
      PutChunk(table, layout.containers[next], chunk_hashes[next], take(table.chunk_record_bytes));
      block_bytes += layout.containers[next].container_bytes;
    }
    PutField(block, table.block_chunks, chunks);
    PutField(block, table.block_bytes, static_cast<std::int64_t>(block_bytes));
  }
  CAIRN_CHECK(next == layout.containers.size() && rest.size() == table.file_record_bytes);
  PutTrailer(table, header, ChecksumOf(layout, chunk_hashes), layout.data_bytes, bytes.size(), rest);
  return bytes;
}

}  // namespace cairn::ftiff
