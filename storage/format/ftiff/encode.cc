#include "storage/format/ftiff/encode.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "storage/base/check.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/id_hash.h"

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

// `index`: idx, where the layout has it.
void PutChunk(const RecordTable& table, const Container& container, std::int32_t index, const Md5Digest& hash,
              std::span<std::byte> record) {
  const ChunkFields& fields = table.chunk;
  PutField(record, fields.id, container.id);
  PutField(record, fields.index, index);
  PutField(record, fields.container_id, container.index);
  PutField(record, fields.has_content, container.has_content ? 1 : 0);
  PutField(record, fields.has_checkpoint, container.in_file_before ? 1 : 0);
  PutField(record, fields.variable_offset, static_cast<std::int64_t>(container.variable_offset));
  PutField(record, fields.file_offset, static_cast<std::int64_t>(container.file_offset));
  PutField(record, fields.chunk_bytes, static_cast<std::int64_t>(container.chunk_bytes));
  PutField(record, fields.container_bytes, static_cast<std::int64_t>(container.container_bytes));
  std::memcpy(record.data() + fields.hash_offset, hash.data(), hash.size());
}

FileFields FieldsOf(const FileLayout& layout, Letter letter, const FileHeader& header) {
  const std::uint64_t file_bytes = layout.file_bytes(letter);
  return {.checkpoint_id = header.checkpoint_id,
          .file_bytes = file_bytes,
          .meta_bytes = layout.meta_bytes(letter),
          .data_bytes = layout.data_bytes,
          .fs = file_bytes,
          .max_fs = header.file_bytes_max,
          .partner_fs = header.partner_bytes,
          .timestamp_ns = header.timestamp_ns};
}

}  // namespace

std::vector<std::byte> EncodeFileRecord(const RecordTable& table, std::string_view checksum_hex,
                                        const FileFields& fields) {
  constexpr std::uint64_t kSizeMax = std::numeric_limits<std::int64_t>::max();
  CAIRN_CHECK(checksum_hex.size() + 1 == kChecksumBytes);
  CAIRN_CHECK(fields.file_bytes <= kSizeMax && fields.fs <= kSizeMax);
  std::vector<std::byte> record(table.file_record_bytes);
  std::memcpy(record.data(), checksum_hex.data(), checksum_hex.size());
  PutField(record, table.checkpoint_id, fields.checkpoint_id);
  PutField(record, table.file_bytes, static_cast<std::int64_t>(fields.file_bytes));
  PutField(record, table.meta_bytes, static_cast<std::int64_t>(fields.meta_bytes));
  PutField(record, table.data_bytes, static_cast<std::int64_t>(fields.data_bytes));
  PutField(record, table.fs, static_cast<std::int64_t>(fields.fs));
  PutField(record, table.max_fs, fields.max_fs);
  PutField(record, table.partner_fs, fields.partner_fs);
  PutField(record, table.timestamp, static_cast<std::int64_t>(fields.timestamp_ns));
  const Md5Digest hash = MetadataHash(table, record);
  std::memcpy(record.data() + kMetadataHashOffset, hash.data(), hash.size());
  return record;
}

std::vector<std::byte> EncodeMetadata(const FileLayout& layout, std::span<const Md5Digest> chunk_hashes,
                                      const FileHeader& header) {
  const RecordTable& table = kLayoutF;
  CAIRN_CHECK(chunk_hashes.size() == layout.containers.size());
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
      PutChunk(table, layout.containers[next], 0, chunk_hashes[next], take(table.chunk_record_bytes));
      block_bytes += layout.containers[next].container_bytes;
    }
    PutField(block, table.block_chunks, chunks);
    PutField(block, table.block_bytes, static_cast<std::int64_t>(block_bytes));
  }
  CAIRN_CHECK(next == layout.containers.size() && rest.size() == table.file_record_bytes);
  const std::vector<std::byte> trailer =
      EncodeFileRecord(table, ChecksumOf(layout, chunk_hashes), FieldsOf(layout, Letter::kF, header));
  std::copy(trailer.begin(), trailer.end(), rest.begin());
  return bytes;
}

std::vector<std::vector<std::byte>> EncodeBlocksA(const FileLayout& placed, std::span<const std::int32_t> registered,
                                                  std::span<const Md5Digest> chunk_hashes) {
  const RecordTable& table = kLayoutA;
  CAIRN_CHECK(chunk_hashes.size() == placed.containers.size());
  const Md5Digest hash_of_nothing = Md5({});
  IdMap<std::int32_t> indexes;
  for (const std::int32_t id : registered) indexes.emplace(id, static_cast<std::int32_t>(indexes.size()));
  std::vector<std::vector<std::byte>> blocks;
  blocks.reserve(placed.block_containers.size());
  std::size_t next = 0;
  for (const std::uint32_t chunks : placed.block_containers) {
    CAIRN_CHECK(chunks <= placed.containers.size() - next);
    std::vector<std::byte> bytes(table.block_record_bytes + std::size_t{chunks} * table.chunk_record_bytes);
    std::uint64_t block_bytes = bytes.size();
    std::span<std::byte> rest = std::span(bytes).subspan(table.block_record_bytes);
    for (const std::size_t end = next + chunks; next < end; ++next) {
      const Container& container = placed.containers[next];
      const std::int32_t index = indexes.emplace(container.id, static_cast<std::int32_t>(indexes.size())).first->second;
      PutChunk(table, container, index, container.has_content ? chunk_hashes[next] : hash_of_nothing,
               rest.first(table.chunk_record_bytes));
      rest = rest.subspan(table.chunk_record_bytes);
      block_bytes += container.container_bytes;
    }
    PutField(bytes, table.block_chunks, chunks);
    PutField(bytes, table.block_bytes, static_cast<std::int64_t>(block_bytes));
    blocks.push_back(std::move(bytes));
  }
  CAIRN_CHECK(registered.empty() || indexes.size() == registered.size());
  return blocks;
}

std::vector<std::byte> EncodeFileRecordA(const FileLayout& layout, const FileHeader& header,
                                         const Md5Digest& checksum) {
  static_assert(kFileRecordBytesA == kLayoutA.file_record_bytes);
  return EncodeFileRecord(kLayoutA, HexOf(checksum), FieldsOf(layout, Letter::kA, header));
}

}  // namespace cairn::ftiff
