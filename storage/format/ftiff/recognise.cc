#include "storage/format/ftiff/recognise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "storage/format/ftiff/record_reader.h"

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
  if (MetadataHash(*record.table, record.bytes) != record.hash()) return std::nullopt;
  const std::int64_t fs = record.Get(record.table->fs);
  // Layouts with their metadata in front have a record at the end in code files only.
  record.encoded =
      !candidate.at_front &&
      (record.table->metadata_first || (fs == record.Get(record.table->max_fs) && std::cmp_equal(fs, record.offset)));
  return record;
}

// Does it say of the file's length what is so? Its hash alone proves little: data may hold whole files of FTI-FF.
bool SizesFit(const FileRecord& record, std::uint64_t file_bytes) {
  const std::int64_t fs = record.Get(record.table->fs);
  if (record.encoded) return std::cmp_equal(fs, record.offset);
  const bool may_be_short = record.table->letter == Letter::kB;
  return std::cmp_equal(fs, file_bytes) || (may_be_short && std::cmp_greater(fs, file_bytes));
}

// Does a walk over the block records, with this table's chunk records, end exactly at the trailer?
absl::StatusOr<bool> WalkFits(const RecordTable& table, std::uint64_t begin, std::uint64_t end, const ReadAt& read) {
  RecordReader records(read);
  records.Begin(begin, end);
  while (records.rest() > 0) {
    if (records.rest() < table.block_record_bytes) return false;
    CAIRN_ASSIGN_OR_RETURN(const auto block, records.Take(table.block_record_bytes));
    const std::int64_t chunks = GetField(block, table.block_chunks);
    if (chunks < 1 || static_cast<std::uint64_t>(chunks) > records.rest() / table.chunk_record_bytes) return false;
    records.Skip(static_cast<std::uint64_t>(chunks) * table.chunk_record_bytes);
  }
  return true;
}

// By the walk. It fits both if there is no block, and may by chance: then C is tried first.
absl::Status ChooseCOrD(std::string_view name, const ReadAt& read, FileRecord* record) {
  const std::int64_t data_bytes = record->Get(record->table->data_bytes);
  if (data_bytes < 0 || static_cast<std::uint64_t>(data_bytes) > record->offset) {
    return WrongField(name, *record, record->table->data_bytes, "dataSize", fmt::format("0 to {}", record->offset));
  }
  const auto begin = static_cast<std::uint64_t>(data_bytes);
  CAIRN_ASSIGN_OR_RETURN(const bool fits_c, WalkFits(kLayoutC, begin, record->offset, read));
  CAIRN_ASSIGN_OR_RETURN(const bool fits_d, WalkFits(kLayoutD, begin, record->offset, read));
  if (!fits_c && !fits_d) {
    return DataLoss("{}: offset {}: the block records fit neither of the layouts C and D", name, data_bytes);
  }
  record->table = fits_c ? &kLayoutC : &kLayoutD;
  record->other_table = fits_c && fits_d ? &kLayoutD : nullptr;
  return absl::OkStatus();
}

absl::Status CheckChecksumText(std::string_view name, const FileRecord& record) {
  const std::string text = record.checksum_hex();
  const bool is_hex =
      std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
  if (is_hex && record.bytes[kChecksumBytes - 1] == std::byte{0}) return absl::OkStatus();
  return WrongField(name, record.offset, "checksum", HexOf(std::span(record.bytes).first(kChecksumBytes)),
                    "32 lower-case hexadecimal digits and a zero");
}

// What the hash does not tell.
absl::Status Complete(std::string_view name, const ReadAt& read, FileRecord* record) {
  CAIRN_RETURN_IF_ERROR(CheckChecksumText(name, *record));
  if (record->table != &kLayoutC || record->encoded) return absl::OkStatus();
  return ChooseCOrD(name, read, record);
}

}  // namespace

Md5Digest FileRecord::hash() const {
  Md5Digest hash;
  std::memcpy(hash.data(), bytes.data() + kMetadataHashOffset, hash.size());
  return hash;
}

absl::StatusOr<FileRecord> Recognise(std::string_view name, std::uint64_t file_bytes, const ReadAt& read) {
  if (file_bytes > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    return DataLoss("{}: {} bytes are more than a file can have", name, file_bytes);
  }
  std::optional<FileRecord> first;  // of those whose sizes do not fit: what is wrong with it, if there is no better one
  for (const Candidate& candidate : kCandidates) {
    CAIRN_ASSIGN_OR_RETURN(std::optional<FileRecord> record, Try(candidate, file_bytes, read));
    if (!record.has_value()) continue;
    if (SizesFit(*record, file_bytes)) {
      CAIRN_RETURN_IF_ERROR(Complete(name, read, &*record));
      return *std::move(record);
    }
    if (!first.has_value()) first = std::move(record);
  }
  if (first.has_value()) {
    CAIRN_RETURN_IF_ERROR(Complete(name, read, &*first));
    return *std::move(first);
  }
  return DataLoss("{}: {} bytes, but no file record of FTI-FF whose hash is right at the front or at the end", name,
                  file_bytes);
}

absl::Status WrongField(std::string_view name, const FileRecord& record, FieldPlace place, std::string_view field,
                        std::string_view expected) {
  return WrongField(name, record.offset + place.offset, field, record.Get(place), expected);
}

}  // namespace cairn::ftiff
