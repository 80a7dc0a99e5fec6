#include "storage/ftiff/recognise.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "storage/base/status.h"

namespace cairn::ftiff {
namespace {

struct Candidate {
  const RecordTable* table;
  bool at_front;
};

// A and B stand in front, but behind the code bytes of an encoded file. D shares its record with C.
constexpr std::array<Candidate, 7> kCandidates = {{{&kLayoutF, false},
                                                   {&kLayoutE, false},
                                                   {&kLayoutC, false},
                                                   {&kLayoutA, true},
                                                   {&kLayoutB, true},
                                                   {&kLayoutA, false},
                                                   {&kLayoutB, false}}};

absl::StatusOr<std::optional<FileRecord>> Try(const Candidate& candidate, std::uint64_t file_bytes,
                                              const ReadAt& read) {
  const std::size_t record_bytes = candidate.table->file_record_bytes;
  if (file_bytes < record_bytes) return std::nullopt;
  FileRecord record{.table = candidate.table,
                    .offset = candidate.at_front ? 0 : file_bytes - record_bytes,
                    .bytes = std::vector<std::byte>(record_bytes)};
  CAIRN_RETURN_IF_ERROR(read(record.offset, record.bytes));
  const Md5Digest hash = MetadataHash(*record.table, record.bytes);
  if (!std::equal(hash.begin(), hash.end(), record.bytes.begin() + kMetadataHashOffset)) return std::nullopt;
  const std::int64_t fs = record.Get(record.table->fs);
  record.encoded = fs >= 0 && fs == record.Get(record.table->max_fs) && std::cmp_equal(fs, file_bytes - record_bytes);
  return record;
}

// Does a walk over the block records, with this table's chunk records, end exactly at the trailer?
absl::StatusOr<bool> WalkFits(const RecordTable& table, std::uint64_t begin, std::uint64_t end, const ReadAt& read) {
  std::uint64_t at = begin;
  while (at < end) {
    if (end - at < table.block_record_bytes) return false;
    std::vector<std::byte> block(table.block_record_bytes);
    CAIRN_RETURN_IF_ERROR(read(at, block));
    at += table.block_record_bytes;
    const std::int64_t chunks = GetField(block, table.block_chunks);
    if (chunks < 1 || static_cast<std::uint64_t>(chunks) > (end - at) / table.chunk_record_bytes) return false;
    at += static_cast<std::uint64_t>(chunks) * table.chunk_record_bytes;
  }
  return true;
}

absl::StatusOr<const RecordTable*> ChooseCOrD(std::string_view name, const FileRecord& record, const ReadAt& read) {
  const std::int64_t data_bytes = record.Get(record.table->data_bytes);
  if (data_bytes < 0 || static_cast<std::uint64_t>(data_bytes) > record.offset) {
    return DataLoss("{}: offset {}: dataSize is {}, expected 0 to {}", name,
                    record.offset + record.table->data_bytes.offset, data_bytes, record.offset);
  }
  const auto begin = static_cast<std::uint64_t>(data_bytes);
  CAIRN_ASSIGN_OR_RETURN(const bool fits_c, WalkFits(kLayoutC, begin, record.offset, read));
  CAIRN_ASSIGN_OR_RETURN(const bool fits_d, WalkFits(kLayoutD, begin, record.offset, read));
  if (fits_c == fits_d) {
    return DataLoss("{}: offset {}: the block records fit {} of the layouts C and D", name, data_bytes,
                    fits_c ? "both" : "neither");
  }
  return fits_c ? &kLayoutC : &kLayoutD;
}

}  // namespace

absl::StatusOr<FileRecord> Recognise(std::string_view name, std::uint64_t file_bytes, const ReadAt& read) {
  for (const Candidate& candidate : kCandidates) {
    CAIRN_ASSIGN_OR_RETURN(std::optional<FileRecord> record, Try(candidate, file_bytes, read));
    if (!record.has_value()) continue;
    if (record->table == &kLayoutC && !record->encoded) {
      CAIRN_ASSIGN_OR_RETURN(record->table, ChooseCOrD(name, *record, read));
    }
    return *std::move(record);
  }
  return DataLoss("{}: {} bytes, but no file record of FTI-FF whose hash is right at the front or at the end", name,
                  file_bytes);
}

}  // namespace cairn::ftiff
