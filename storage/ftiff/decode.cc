#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>
#include <utility>

#include "storage/base/status.h"
#include "storage/ftiff/codec.h"
#include "storage/ftiff/recognise.h"
#include "storage/ftiff/records.h"

namespace cairn::ftiff {
namespace {

// The metadata area, record after record, through a buffer of bounded size.
class RecordReader {
 public:
  RecordReader(std::uint64_t begin, std::uint64_t end, const ReadAt& read) : at_(begin), end_(end), read_(read) {}

  std::uint64_t at() const { return at_; }
  std::uint64_t rest() const { return end_ - at_; }

  // The next record, good until the next call. REQUIRES: bytes <= rest() and <= kBufferBytes.
  absl::StatusOr<std::span<const std::byte>> Take(std::size_t bytes) {
    CAIRN_CHECK(bytes <= rest() && bytes <= kBufferBytes);
    if (buffer_.size() - used_ < bytes) {
      buffer_.resize(std::min<std::uint64_t>(rest(), kBufferBytes));
      used_ = 0;
      CAIRN_RETURN_IF_ERROR(read_(at_, buffer_));
    }
    const std::span<const std::byte> record = std::span(buffer_).subspan(used_, bytes);
    used_ += bytes;
    at_ += bytes;
    return record;
  }

 private:
  static constexpr std::size_t kBufferBytes = 64 << 10;

  std::uint64_t at_;
  const std::uint64_t end_;
  const ReadAt& read_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
};

// Walks the blocks of a layout with its metadata at the end and does checks 3 to 5.
class Walk {
 public:
  Walk(std::string_view name, const FileRecord& record, std::uint64_t data_bytes, const ReadAt& read)
      : name_(name), table_(*record.table), data_bytes_(data_bytes), records_(data_bytes, record.offset, read) {}

  absl::Status Run(FileMetadata* metadata) {
    FileLayout& layout = metadata->layout;
    while (records_.rest() > 0) {
      CAIRN_RETURN_IF_ERROR(Block(metadata));
    }
    if (layout.data_bytes != data_bytes_) {
      return DataLoss("{}: the containers have {} bytes, expected dataSize {}", name_, layout.data_bytes, data_bytes_);
    }
    return absl::OkStatus();
  }

 private:
  struct VariableState {
    std::uint64_t containers = 0;
    std::uint64_t bytes = 0;  // of all its containers so far
    bool closed = false;      // a container was not full: no content may follow
  };

  absl::Status Wrong(std::uint64_t offset, std::string_view field, std::int64_t found, std::string_view expected) {
    return DataLoss("{}: offset {}: {} is {}, expected {}", name_, offset, field, found, expected);
  }

  absl::Status Block(FileMetadata* metadata) {
    FileLayout& layout = metadata->layout;
    const std::uint64_t at = records_.at();
    if (records_.rest() < table_.block_record_bytes) {
      return DataLoss("{}: offset {}: {} bytes before the trailer, expected a block record of {}", name_, at,
                      records_.rest(), table_.block_record_bytes);
    }
    CAIRN_ASSIGN_OR_RETURN(const auto block, records_.Take(table_.block_record_bytes));
    const std::int64_t chunks = GetField(block, table_.block_chunks);
    const std::int64_t block_bytes = GetField(block, table_.block_bytes);
    const std::uint64_t chunks_max = records_.rest() / table_.chunk_record_bytes;
    if (chunks < 1 || static_cast<std::uint64_t>(chunks) > chunks_max) {
      return Wrong(at + table_.block_chunks.offset, "numvars", chunks, fmt::format("1 to {}", chunks_max));
    }
    const std::uint64_t block_begin = layout.data_bytes;
    for (std::int64_t i = 0; i < chunks; ++i) {
      CAIRN_RETURN_IF_ERROR(Chunk(metadata));
    }
    if (std::cmp_not_equal(block_bytes, layout.data_bytes - block_begin)) {
      return Wrong(at + table_.block_bytes.offset, "dbsize", block_bytes,
                   fmt::format("the sum of its containers, {}", layout.data_bytes - block_begin));
    }
    layout.block_containers.push_back(static_cast<std::uint32_t>(chunks));
    return absl::OkStatus();
  }

  absl::Status Chunk(FileMetadata* metadata) {
    const std::uint64_t at = records_.at();
    CAIRN_ASSIGN_OR_RETURN(const auto record, records_.Take(table_.chunk_record_bytes));
    CAIRN_ASSIGN_OR_RETURN(const Container container, CheckSizes(at, record, metadata->layout.data_bytes));
    CAIRN_RETURN_IF_ERROR(CheckPlaceInVariable(at, container));
    Md5Digest hash;
    std::memcpy(hash.data(), record.data() + table_.chunk->hash_offset, hash.size());
    metadata->layout.data_bytes += container.container_bytes;
    metadata->layout.containers.push_back(container);
    metadata->chunk_hashes.push_back(hash);
    return absl::OkStatus();
  }

  // Check 4. `expected_offset`: the end of the container before it. Unsigned fields are read as signed ones: what does
  // not fit is negative and refused.
  absl::StatusOr<Container> CheckSizes(std::uint64_t at, std::span<const std::byte> record,
                                       std::uint64_t expected_offset) {
    const ChunkFields& fields = *table_.chunk;
    const std::int64_t id = GetField(record, fields.id);
    const std::int64_t has_content = GetField(record, fields.has_content);
    const std::int64_t file_offset = GetField(record, fields.file_offset);
    const std::int64_t chunk_bytes = GetField(record, fields.chunk_bytes);
    const std::int64_t container_bytes = GetField(record, fields.container_bytes);
    if (id < 0) return Wrong(at + fields.id.offset, "id", id, "0 or more");
    if (has_content != 0 && has_content != 1) {
      return Wrong(at + fields.has_content.offset, "hascontent", has_content, "0 or 1");
    }
    if (std::cmp_not_equal(file_offset, expected_offset)) {
      return Wrong(at + fields.file_offset.offset, "fptr", file_offset, fmt::format("{}", expected_offset));
    }
    const std::uint64_t room = data_bytes_ - expected_offset;
    if (container_bytes < 0 || static_cast<std::uint64_t>(container_bytes) > room) {
      return Wrong(at + fields.container_bytes.offset, "containersize", container_bytes, fmt::format("0 to {}", room));
    }
    const std::int64_t chunk_bytes_max = has_content == 1 ? container_bytes : 0;
    if (chunk_bytes < 0 || chunk_bytes > chunk_bytes_max) {
      return Wrong(at + fields.chunk_bytes.offset, "chunksize", chunk_bytes, fmt::format("0 to {}", chunk_bytes_max));
    }
    return Container{.id = static_cast<std::int32_t>(id),
                     .index = static_cast<std::int32_t>(GetField(record, fields.container_id)),
                     .has_content = has_content == 1,
                     .in_file_before = GetField(record, fields.has_checkpoint) != 0,
                     .variable_offset = static_cast<std::uint64_t>(GetField(record, fields.variable_offset)),
                     .file_offset = expected_offset,
                     .chunk_bytes = static_cast<std::uint64_t>(chunk_bytes),
                     .container_bytes = static_cast<std::uint64_t>(container_bytes)};
  }

  // Check 5.
  absl::Status CheckPlaceInVariable(std::uint64_t at, const Container& container) {
    VariableState& variable = variables_[container.id];
    const ChunkFields& fields = *table_.chunk;
    if (std::cmp_not_equal(container.index, variable.containers)) {
      return Wrong(at + fields.container_id.offset, "containerid", container.index,
                   fmt::format("{} for variable {}", variable.containers, container.id));
    }
    if (container.variable_offset != variable.bytes) {
      return Wrong(at + fields.variable_offset.offset, "dptr", static_cast<std::int64_t>(container.variable_offset),
                   fmt::format("{}, the end of the containers before", variable.bytes));
    }
    if (container.has_content && variable.closed) {
      return Wrong(at + fields.has_content.offset, "hascontent", 1,
                   fmt::format("0: an earlier container of variable {} is not full", container.id));
    }
    variable.containers += 1;
    variable.bytes += container.container_bytes;
    variable.closed |= !container.has_content || container.chunk_bytes < container.container_bytes;
    return absl::OkStatus();
  }

  const std::string_view name_;
  const RecordTable& table_;
  const std::uint64_t data_bytes_;
  RecordReader records_;
  std::unordered_map<std::int32_t, VariableState> variables_;
};

// Check 2.
absl::Status CheckFileSizes(std::string_view name, const FileRecord& record, std::uint64_t file_bytes) {
  const RecordTable& table = *record.table;
  const auto wrong = [&](FieldPlace place, std::string_view field, std::string_view expected) {
    return DataLoss("{}: offset {}: {} is {}, expected {}", name, record.offset + place.offset, field,
                    record.Get(place), expected);
  };
  const std::string length = fmt::format("the file's length {}", file_bytes);
  if (std::cmp_not_equal(record.Get(table.fs), file_bytes)) return wrong(table.fs, "fs", length);
  if (std::cmp_not_equal(record.Get(table.file_bytes), file_bytes)) return wrong(table.file_bytes, "ckptSize", length);
  const std::int64_t data_bytes = record.Get(table.data_bytes);
  if (data_bytes < 0 || static_cast<std::uint64_t>(data_bytes) > record.offset) {
    return wrong(table.data_bytes, "dataSize", fmt::format("0 to {}", record.offset));
  }
  const std::uint64_t meta_bytes = file_bytes - static_cast<std::uint64_t>(data_bytes);
  if (std::cmp_not_equal(record.Get(table.meta_bytes), meta_bytes)) {
    return wrong(table.meta_bytes, "metaSize", fmt::format("{}", meta_bytes));
  }
  return absl::OkStatus();
}

// The file checksum against the stored chunk hashes, by either rule of 3.5.
absl::Status CheckChecksum(std::string_view name, const FileRecord& record, const FileMetadata& metadata) {
  const std::vector<Md5Digest>& hashes = metadata.chunk_hashes;
  std::vector<Md5Digest> with_content;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (metadata.layout.containers[i].has_content) with_content.push_back(hashes[i]);
  }
  const std::string by_reader = HexOf(Md5(std::as_bytes(std::span(with_content))));
  if (metadata.checksum_hex == by_reader) return absl::OkStatus();
  if (metadata.checksum_hex == HexOf(Md5(std::as_bytes(std::span(hashes))))) return absl::OkStatus();
  return DataLoss("{}: offset {}: the file checksum does not fit the chunk hashes, expected {}", name, record.offset,
                  by_reader);
}

absl::Status CheckReadable(std::string_view name, const FileRecord& record) {
  if (record.encoded) {
    return FailedPrecondition("{}: a level 3 code file of FTI-FF layout {}, not a checkpoint file", name,
                              record.table->letter);
  }
  if (record.table->chunk == nullptr) {
    return FailedPrecondition("{}: FTI-FF layout {}, which is not read; layout F is", name, record.table->letter);
  }
  return absl::OkStatus();
}

FileHeader HeaderOf(const FileRecord& record) {
  const RecordTable& table = *record.table;
  return {.checkpoint_id = static_cast<std::int32_t>(record.Get(table.checkpoint_id)),
          .timestamp_ns = static_cast<std::uint64_t>(record.Get(table.timestamp)),
          .file_bytes_max = record.Get(table.max_fs),
          .partner_bytes = record.Get(table.partner_fs)};
}

}  // namespace

absl::StatusOr<FileMetadata> DecodeMetadata(std::string_view name, std::uint64_t file_bytes, const ReadAt& read) {
  if (file_bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return DataLoss("{}: {} bytes are more than a file can have", name, file_bytes);
  }
  CAIRN_ASSIGN_OR_RETURN(const FileRecord record, Recognise(name, file_bytes, read));
  CAIRN_RETURN_IF_ERROR(CheckReadable(name, record));
  CAIRN_RETURN_IF_ERROR(CheckFileSizes(name, record, file_bytes));
  FileMetadata metadata;
  metadata.header = HeaderOf(record);
  metadata.file_bytes = file_bytes;
  const auto* checksum = reinterpret_cast<const char*>(record.bytes.data());
  metadata.checksum_hex.assign(checksum, kChecksumBytes - 1);
  std::memcpy(metadata.record_hash.data(), record.bytes.data() + kMetadataHashOffset, metadata.record_hash.size());
  const auto data_bytes = static_cast<std::uint64_t>(record.Get(record.table->data_bytes));
  CAIRN_RETURN_IF_ERROR(Walk(name, record, data_bytes, read).Run(&metadata));
  CAIRN_RETURN_IF_ERROR(CheckChecksum(name, record, metadata));
  return metadata;
}

}  // namespace cairn::ftiff
