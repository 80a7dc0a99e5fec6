#include <string>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/recognise.h"
#include "storage/format/ftiff/records.h"
#include "storage/format/ftiff/walk.h"

namespace cairn::ftiff {
namespace {

// Check 2. Where the file lies short of fs, as in B, the walk finds whether all that is needed is there.
absl::StatusOr<Areas> CheckFileSizes(std::string_view name, const FileRecord& record, std::uint64_t file_bytes) {
  const RecordTable& table = *record.table;
  const std::int64_t fs = record.Get(table.fs);
  const bool may_be_short = table.letter == Letter::kB;
  if (may_be_short ? std::cmp_less(fs, file_bytes) : std::cmp_not_equal(fs, file_bytes)) {
    return WrongField(name, record, table.fs, "fs",
                      fmt::format("the file's length {}{}", file_bytes, may_be_short ? " or more" : ""));
  }
  if (record.Get(table.file_bytes) != fs) {
    return WrongField(name, record, table.file_bytes, "ckptSize", fmt::format("fs {}", fs));
  }
  if (table.metadata_first) {
    return Areas{.data_end = static_cast<std::uint64_t>(fs), .records_end = file_bytes, .file_bytes = file_bytes};
  }
  const std::int64_t data_bytes = record.Get(table.data_bytes);
  if (data_bytes < 0 || static_cast<std::uint64_t>(data_bytes) > record.offset) {
    return WrongField(name, record, table.data_bytes, "dataSize", fmt::format("0 to {}", record.offset));
  }
  if (record.Get(table.meta_bytes) != fs - data_bytes) {
    return WrongField(name, record, table.meta_bytes, "metaSize", fmt::format("{}", fs - data_bytes));
  }
  return Areas{
      .data_end = static_cast<std::uint64_t>(data_bytes), .records_end = record.offset, .file_bytes = file_bytes};
}

// The file checksum against the stored chunk hashes, by either rule of 3.5.
absl::Status CheckChecksum(std::string_view name, const FileRecord& record, const FileMetadata& metadata) {
  const std::vector<Md5Digest>& hashes = metadata.chunk_hashes;
  std::vector<Md5Digest> with_content;
  with_content.reserve(hashes.size());
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    if (metadata.layout.containers[i].has_content) with_content.push_back(hashes[i]);
  }
  const std::string by_reader = HexOf(Md5(std::as_bytes(std::span(with_content))));
  if (metadata.checksum_hex == by_reader) return absl::OkStatus();
  if (with_content.size() < hashes.size()) {
    const std::string by_writer = HexOf(Md5(std::as_bytes(std::span(hashes))));
    if (metadata.checksum_hex == by_writer) return absl::OkStatus();
  }
  return WrongField(name, record.offset, "checksum", metadata.checksum_hex,
                    fmt::format("{}, which fits the chunk hashes", by_reader));
}

FileHeader HeaderOf(const FileRecord& record) {
  const RecordTable& table = *record.table;
  return {.checkpoint_id = static_cast<std::int32_t>(record.Get(table.checkpoint_id)),
          .timestamp_ns = static_cast<std::uint64_t>(record.Get(table.timestamp)),
          .file_bytes_max = record.Get(table.max_fs),
          .partner_bytes = record.Get(table.partner_fs)};
}

absl::StatusOr<FileMetadata> DecodeBlocks(std::string_view name, const FileRecord& record, const RecordTable& table,
                                          const Areas& areas, const ReadAt& read) {
  FileMetadata metadata;
  metadata.letter = table.letter;
  metadata.header = HeaderOf(record);
  metadata.checksum_hex = record.checksum_hex();
  metadata.record_hash = record.hash();
  metadata.file_bytes = static_cast<std::uint64_t>(record.Get(table.fs));
  CAIRN_RETURN_IF_ERROR(Walk(name, table, areas, read).Run(&metadata));
  if (!table.metadata_first) {
    CAIRN_RETURN_IF_ERROR(CheckChecksum(name, record, metadata));
  }
  return metadata;
}

}  // namespace

absl::StatusOr<FileMetadata> DecodeMetadata(std::string_view name, std::uint64_t file_bytes, const ReadAt& read) {
  CAIRN_ASSIGN_OR_RETURN(const FileRecord record, Recognise(name, file_bytes, read));
  if (record.encoded) {
    return FailedPrecondition("{}: a level 3 code file of FTI-FF layout {}, not a checkpoint file", name,
                              static_cast<char>(record.table->letter));
  }
  CAIRN_ASSIGN_OR_RETURN(const Areas areas, CheckFileSizes(name, record, file_bytes));
  absl::StatusOr<FileMetadata> metadata = DecodeBlocks(name, record, *record.table, areas, read);
  if (record.other_table == nullptr || metadata.ok()) return metadata;
  absl::StatusOr<FileMetadata> other = DecodeBlocks(name, record, *record.other_table, areas, read);
  return other.ok() ? std::move(other) : std::move(metadata);
}

}  // namespace cairn::ftiff
