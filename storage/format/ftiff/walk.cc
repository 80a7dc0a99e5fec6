#include "storage/format/ftiff/walk.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/ftiff/recognise.h"

namespace cairn::ftiff {

absl::Status Walk::Run(FileMetadata* metadata) {
  CAIRN_RETURN_IF_ERROR(Blocks(metadata));
  std::stable_sort(registered_.begin(), registered_.end(),
                   [](const auto& one, const auto& other) { return one.first < other.first; });
  metadata->registered.reserve(registered_.size());
  for (const auto& [index, id] : registered_) metadata->registered.push_back(id);
  return absl::OkStatus();
}

absl::Status Walk::Blocks(FileMetadata* metadata) {
  if (table_.metadata_first) {
    data_at_ = table_.file_record_bytes;
    while (data_at_ < areas_.data_end) {
      CAIRN_RETURN_IF_ERROR(Block(metadata));
    }
    return absl::OkStatus();  // containers are bounded by data_end, so that this is where the last one ends
  }
  records_.Begin(areas_.data_end, areas_.records_end);
  while (records_.rest() > 0) {
    CAIRN_RETURN_IF_ERROR(Block(metadata));
  }
  if (data_at_ != areas_.data_end) {
    return DataLoss("{}: the containers have {} bytes, expected dataSize {}", name_, data_at_, areas_.data_end);
  }
  return absl::OkStatus();
}

absl::Status Walk::Block(FileMetadata* metadata) {
  FileLayout& layout = metadata->layout;
  const std::uint64_t at = table_.metadata_first ? data_at_ : records_.at();
  // There is no block without a chunk, and both records are read at once: where metadata is in front of each block, a
  // file of many small blocks costs one read for each.
  const std::uint64_t bytes_min = table_.block_record_bytes + table_.chunk_record_bytes;
  const std::uint64_t rest = areas_.records_end < at ? 0 : areas_.records_end - at;
  if (rest < bytes_min) {
    return DataLoss("{}: offset {}: {} bytes are left, expected a block record and a chunk record of {}", name_, at,
                    rest, bytes_min);
  }
  if (table_.metadata_first) records_.Begin(at, at + bytes_min);
  CAIRN_ASSIGN_OR_RETURN(const auto block, records_.Take(table_.block_record_bytes));
  const std::int64_t block_bytes = GetField(block, table_.block_bytes);
  CAIRN_ASSIGN_OR_RETURN(const std::uint32_t chunks, ChunksOf(at, block));
  if (table_.metadata_first) {
    data_at_ = at + table_.block_record_bytes + std::uint64_t{chunks} * table_.chunk_record_bytes;
    records_.Extend(data_at_);
  }
  const std::uint64_t block_begin = table_.metadata_first ? at : data_at_;
  for (std::uint32_t i = 0; i < chunks; ++i) {
    CAIRN_RETURN_IF_ERROR(Chunk(metadata));
  }
  if (std::cmp_not_equal(block_bytes, data_at_ - block_begin)) {
    return WrongField(name_, at + table_.block_bytes.offset, "dbsize", block_bytes,
                      fmt::format("the sum of its containers{}, {}", table_.metadata_first ? " and records" : "",
                                  data_at_ - block_begin));
  }
  layout.block_containers.push_back(chunks);
  return absl::OkStatus();
}

absl::StatusOr<std::uint32_t> Walk::ChunksOf(std::uint64_t at, std::span<const std::byte> block) const {
  const std::int64_t chunks = GetField(block, table_.block_chunks);
  const std::uint64_t chunks_max = (areas_.records_end - at - table_.block_record_bytes) / table_.chunk_record_bytes;
  if (chunks < 1 || static_cast<std::uint64_t>(chunks) > chunks_max) {
    return WrongField(name_, at + table_.block_chunks.offset, "numvars", chunks, fmt::format("1 to {}", chunks_max));
  }
  return static_cast<std::uint32_t>(chunks);
}

absl::Status Walk::Chunk(FileMetadata* metadata) {
  const std::uint64_t at = records_.at();
  CAIRN_ASSIGN_OR_RETURN(const auto record, records_.Take(table_.chunk_record_bytes));
  CAIRN_ASSIGN_OR_RETURN(const Container container, CheckSizes(at, record));
  CAIRN_RETURN_IF_ERROR(CheckPlaceInVariable(at, container));
  const auto index = static_cast<std::int32_t>(GetField(record, table_.chunk.index));
  if (container.index == 0) registered_.emplace_back(index, container.id);
  if (table_.chunk.index.bytes != 0) metadata->chunk_indexes.push_back(index);
  Md5Digest hash;
  std::memcpy(hash.data(), record.data() + table_.chunk.hash_offset, hash.size());
  data_at_ += container.container_bytes;
  metadata->layout.data_bytes += container.container_bytes;
  metadata->layout.containers.push_back(container);
  metadata->chunk_hashes.push_back(hash);
  return absl::OkStatus();
}

absl::StatusOr<Container> Walk::CheckSizes(std::uint64_t at, std::span<const std::byte> record) const {
  const ChunkFields& fields = table_.chunk;
  const auto wrong = [&](FieldPlace place, std::string_view field, std::string_view expected) {
    return WrongField(name_, at + place.offset, field, GetField(record, place), expected);
  };
  // Unsigned fields are read as signed ones: what does not fit is negative and refused.
  const std::int64_t id = GetField(record, fields.id);
  if (id < 0) return wrong(fields.id, "id", "0 or more");
  const std::int64_t has_content = GetField(record, fields.has_content);
  if (has_content != 0 && has_content != 1) return wrong(fields.has_content, "hascontent", "0 or 1");
  if (std::cmp_not_equal(GetField(record, fields.file_offset), data_at_)) {
    return wrong(fields.file_offset, "fptr", fmt::format("{}, the end of what is before", data_at_));
  }
  const std::uint64_t room = areas_.data_end - data_at_;
  const std::int64_t container_bytes = GetField(record, fields.container_bytes);
  if (container_bytes < 0 || static_cast<std::uint64_t>(container_bytes) > room) {
    return wrong(fields.container_bytes, "containersize", fmt::format("0 to {}", room));
  }
  const std::int64_t chunk_bytes_max = has_content == 1 ? container_bytes : 0;
  const std::int64_t chunk_bytes = GetField(record, fields.chunk_bytes);
  if (chunk_bytes < 0 || chunk_bytes > chunk_bytes_max) {
    return wrong(fields.chunk_bytes, "chunksize", fmt::format("0 to {}", chunk_bytes_max));
  }
  if (chunk_bytes > 0 && data_at_ + static_cast<std::uint64_t>(chunk_bytes) > areas_.file_bytes) {
    return wrong(fields.chunk_bytes, "chunksize", fmt::format("an end inside the file of {} bytes", areas_.file_bytes));
  }
  return Container{.id = static_cast<std::int32_t>(id),
                   .index = static_cast<std::int32_t>(GetField(record, fields.container_id)),
                   .has_content = has_content == 1,
                   .in_file_before = GetField(record, fields.has_checkpoint) != 0,
                   .variable_offset = static_cast<std::uint64_t>(GetField(record, fields.variable_offset)),
                   .file_offset = data_at_,
                   .chunk_bytes = static_cast<std::uint64_t>(chunk_bytes),
                   .container_bytes = static_cast<std::uint64_t>(container_bytes)};
}

absl::Status Walk::CheckPlaceInVariable(std::uint64_t at, const Container& container) {
  VariableState& variable = variables_[container.id];
  const ChunkFields& fields = table_.chunk;
  if (std::cmp_not_equal(container.index, variable.containers)) {
    return WrongField(name_, at + fields.container_id.offset, "containerid", container.index,
                      fmt::format("{} for variable {}", variable.containers, container.id));
  }
  if (container.variable_offset != variable.bytes) {
    return WrongField(name_, at + fields.variable_offset.offset, "dptr",
                      static_cast<std::int64_t>(container.variable_offset),
                      fmt::format("{}, the end of the containers before", variable.bytes));
  }
  if (container.has_content && variable.closed) {
    return WrongField(name_, at + fields.has_content.offset, "hascontent", 1,
                      fmt::format("0: an earlier container of variable {} is not full", container.id));
  }
  variable.containers += 1;
  variable.bytes += container.container_bytes;
  variable.closed |= !container.has_content || container.chunk_bytes < container.container_bytes;
  return absl::OkStatus();
}

}  // namespace cairn::ftiff
