#include <cstring>
#include <limits>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/encode.h"
#include "storage/format/ftiff/recognise.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {

absl::StatusOr<EncodedFile> DecodeEncoded(std::string_view name, std::uint64_t file_bytes, const ReadAt& read) {
  CAIRN_ASSIGN_OR_RETURN(const FileRecord record, Recognise(name, file_bytes, read));
  const RecordTable& table = *record.table;
  if (!record.encoded && (table.metadata_first || record.Get(table.fs) == record.Get(table.file_bytes))) {
    return FailedPrecondition("{}: a checkpoint file of FTI-FF layout {}, not a level 3 code file", name,
                              static_cast<char>(table.letter));
  }
  const std::string code_bytes = fmt::format("{}, the bytes in front of the record", record.offset);
  if (std::cmp_not_equal(record.Get(table.fs), record.offset)) {
    return WrongField(name, record, table.fs, "fs", code_bytes);
  }
  if (std::cmp_not_equal(record.Get(table.max_fs), record.offset)) {
    return WrongField(name, record, table.max_fs, "maxFs", code_bytes);
  }
  const std::int64_t checkpoint_bytes = record.Get(table.file_bytes);
  if (checkpoint_bytes < table.file_record_bytes || std::cmp_greater(checkpoint_bytes, record.offset)) {
    return WrongField(name, record, table.file_bytes, "ckptSize",
                      fmt::format("{} to {}", table.file_record_bytes, record.offset));
  }
  return EncodedFile{.letter = table.letter,
                     .checkpoint_id = static_cast<std::int32_t>(record.Get(table.checkpoint_id)),
                     .timestamp_ns = static_cast<std::uint64_t>(record.Get(table.timestamp)),
                     .code_bytes = record.offset,
                     .checkpoint_bytes = static_cast<std::uint64_t>(checkpoint_bytes),
                     .checksum_hex = record.checksum_hex(),
                     .record_hash = record.hash()};
}

std::vector<std::byte> EncodeEncodedRecord(const EncodedFile& encoded) {
  CAIRN_CHECK(encoded.letter == Letter::kA || encoded.letter == Letter::kF);
  const RecordTable& table = TableOf(encoded.letter);
  return EncodeFileRecord(table, encoded.checksum_hex,
                          {.checkpoint_id = encoded.checkpoint_id,
                           .file_bytes = encoded.checkpoint_bytes,
                           .fs = encoded.code_bytes,
                           .max_fs = static_cast<std::int64_t>(encoded.code_bytes),
                           .timestamp_ns = encoded.timestamp_ns});
}

}  // namespace cairn::ftiff
