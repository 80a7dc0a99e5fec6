// The records of the six layouts of FTI-FF as tables: which field is where and how wide.
// Source: FTI-FF specification, section 2 (fields) and 3 (hashes).
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_RECORDS_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_RECORDS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/format/ftiff/letter.h"

namespace cairn::ftiff {

static_assert(std::endian::native == std::endian::little, "records are little-endian and copied as they are");

// A number inside a record. bytes == 0: the layout has no such field.
struct FieldPlace {
  std::uint16_t offset = 0;
  std::uint8_t bytes = 0;
  bool is_signed = false;
};

inline constexpr std::size_t kChecksumBytes = 33;       // 32 hexadecimal digits and a zero, at 0 in all layouts
inline constexpr std::size_t kMetadataHashOffset = 33;  // 16 bytes, in all layouts

// `index`: idx, the variable's place in the order of registration of the run that wrote. FTI up to 1.3 finds variables
// by it; here they are told by their ids, and it gives their order only.
struct ChunkFields {
  FieldPlace id, index, container_id, has_content, has_checkpoint;
  FieldPlace variable_offset, file_offset, chunk_bytes, container_bytes;
  std::uint16_t hash_offset = 0;
};

struct RecordTable {
  Letter letter = Letter::kF;
  bool metadata_first = false;  // the file record at 0, each block's records in front of its containers
  std::uint16_t file_record_bytes = 0;
  std::uint16_t block_record_bytes = 0;
  std::uint16_t chunk_record_bytes = 0;
  FieldPlace checkpoint_id, file_bytes, meta_bytes, data_bytes, fs, max_fs, partner_fs, timestamp;  // file record
  FieldPlace block_chunks, block_bytes;                                                             // block record
  ChunkFields chunk;

  // The fields that `myHash` covers after the checksum, in this order (3.3); absent ones add nothing.
  std::array<FieldPlace, 7> hashed() const {
    return {timestamp, file_bytes, meta_bytes, data_bytes, fs, partner_fs, max_fs};
  }
};

// Bytes 13 to 15 are a gap.
inline constexpr ChunkFields kChunkFieldsA{.id = {0, 4, true},
                                           .index = {4, 4, true},
                                           .container_id = {8, 4, true},
                                           .has_content = {12, 1, false},
                                           .has_checkpoint = {},
                                           .variable_offset = {16, 8, true},
                                           .file_offset = {24, 8, true},
                                           .chunk_bytes = {32, 8, true},
                                           .container_bytes = {40, 8, true},
                                           .hash_offset = 48};

inline constexpr ChunkFields kChunkFieldsBC{.id = {0, 4, true},
                                            .index = {4, 4, true},
                                            .container_id = {8, 4, true},
                                            .has_content = {12, 1, false},
                                            .has_checkpoint = {13, 1, false},
                                            .variable_offset = {14, 8, false},
                                            .file_offset = {22, 8, false},
                                            .chunk_bytes = {30, 8, true},
                                            .container_bytes = {38, 8, true},
                                            .hash_offset = 46};

inline constexpr ChunkFields kChunkFieldsDF{.id = {0, 4, true},
                                            .index = {},
                                            .container_id = {4, 4, true},
                                            .has_content = {8, 1, false},
                                            .has_checkpoint = {9, 1, false},
                                            .variable_offset = {10, 8, false},
                                            .file_offset = {18, 8, false},
                                            .chunk_bytes = {26, 8, false},
                                            .container_bytes = {34, 8, false},
                                            .hash_offset = 42};

inline constexpr ChunkFields kChunkFieldsE{.id = {0, 4, true},
                                           .index = {},
                                           .container_id = {4, 4, true},
                                           .has_content = {8, 1, false},
                                           .has_checkpoint = {9, 1, false},
                                           .variable_offset = {10, 8, false},
                                           .file_offset = {18, 8, false},
                                           .chunk_bytes = {26, 4, true},
                                           .container_bytes = {30, 4, true},
                                           .hash_offset = 34};

inline constexpr RecordTable kLayoutA{.letter = Letter::kA,
                                      .metadata_first = true,
                                      .file_record_bytes = 96,
                                      .block_record_bytes = 12,
                                      .chunk_record_bytes = 64,
                                      .checkpoint_id = {},
                                      .file_bytes = {56, 8, true},
                                      .meta_bytes = {},
                                      .data_bytes = {},
                                      .fs = {64, 8, true},
                                      .max_fs = {72, 8, true},
                                      .partner_fs = {80, 8, true},
                                      .timestamp = {88, 8, true},
                                      .block_chunks = {0, 4, true},
                                      .block_bytes = {4, 8, true},
                                      .chunk = kChunkFieldsA};

inline constexpr RecordTable kLayoutB{.letter = Letter::kB,
                                      .metadata_first = true,
                                      .file_record_bytes = 90,
                                      .block_record_bytes = 12,
                                      .chunk_record_bytes = 62,
                                      .checkpoint_id = {},
                                      .file_bytes = {49, 8, true},
                                      .meta_bytes = {},
                                      .data_bytes = {},
                                      .fs = {57, 8, true},
                                      .max_fs = {65, 8, true},
                                      .partner_fs = {73, 8, true},
                                      .timestamp = {81, 8, true},
                                      .block_chunks = {0, 4, true},
                                      .block_bytes = {4, 8, true},
                                      .chunk = kChunkFieldsBC};

inline constexpr RecordTable kLayoutC{.letter = Letter::kC,
                                      .file_record_bytes = 110,
                                      .block_record_bytes = 12,
                                      .chunk_record_bytes = 62,
                                      .checkpoint_id = {49, 4, true},
                                      .file_bytes = {53, 8, true},
                                      .meta_bytes = {61, 8, true},
                                      .data_bytes = {69, 8, true},
                                      .fs = {77, 8, true},
                                      .max_fs = {85, 8, true},
                                      .partner_fs = {93, 8, true},
                                      .timestamp = {101, 8, true},
                                      .block_chunks = {0, 4, true},
                                      .block_bytes = {4, 8, true},
                                      .chunk = kChunkFieldsBC};

// The file record of C, with shorter chunk records.
inline constexpr RecordTable kLayoutD = [] {
  RecordTable table = kLayoutC;
  table.letter = Letter::kD;
  table.chunk_record_bytes = 58;
  table.chunk = kChunkFieldsDF;
  return table;
}();

// The time is 32 bits of a clock that needs 64: their sign tells nothing, so that they are taken as in F.
inline constexpr RecordTable kLayoutE{.letter = Letter::kE,
                                      .file_record_bytes = 82,
                                      .block_record_bytes = 8,
                                      .chunk_record_bytes = 50,
                                      .checkpoint_id = {49, 4, true},
                                      .file_bytes = {53, 4, true},
                                      .meta_bytes = {57, 4, true},
                                      .data_bytes = {61, 4, true},
                                      .fs = {65, 4, true},
                                      .max_fs = {69, 4, true},
                                      .partner_fs = {73, 4, true},
                                      .timestamp = {77, 4, false},
                                      .block_chunks = {0, 4, true},
                                      .block_bytes = {4, 4, true},
                                      .chunk = kChunkFieldsE};

inline constexpr RecordTable kLayoutF{.letter = Letter::kF,
                                      .file_record_bytes = 106,
                                      .block_record_bytes = 12,
                                      .chunk_record_bytes = 58,
                                      .checkpoint_id = {49, 4, true},
                                      .file_bytes = {53, 8, true},
                                      .meta_bytes = {61, 8, true},
                                      .data_bytes = {69, 8, true},
                                      .fs = {77, 8, true},
                                      .max_fs = {85, 8, true},
                                      .partner_fs = {93, 8, true},
                                      .timestamp = {101, 4, false},
                                      .block_chunks = {0, 4, true},
                                      .block_bytes = {4, 8, true},
                                      .chunk = kChunkFieldsDF};

inline constexpr std::size_t kFileRecordBytesMax = 110;

inline const RecordTable& TableOf(Letter letter) {
  static constexpr const RecordTable* kTables[] = {&kLayoutA, &kLayoutB, &kLayoutC, &kLayoutD, &kLayoutE, &kLayoutF};
  return *kTables[static_cast<std::size_t>(letter) - 'A'];
}

// REQUIRES: the record is as long as its table says.
inline std::int64_t GetField(std::span<const std::byte> record, FieldPlace place) {
  CAIRN_CHECK(place.bytes <= 8 && std::size_t{place.offset} + place.bytes <= record.size());
  if (place.bytes == 0) return 0;
  std::uint64_t raw = 0;
  std::memcpy(&raw, record.data() + place.offset, place.bytes);
  const int unused_bits = 64 - 8 * place.bytes;
  if (place.is_signed) return static_cast<std::int64_t>(raw << unused_bits) >> unused_bits;
  return static_cast<std::int64_t>(raw);
}

// Stores the low bytes of `value`.
inline void PutField(std::span<std::byte> record, FieldPlace place, std::int64_t value) {
  CAIRN_CHECK(place.bytes <= 8 && std::size_t{place.offset} + place.bytes <= record.size());
  std::memcpy(record.data() + place.offset, &value, place.bytes);
}

// myHash (3.3) of a file record.
inline Md5Digest MetadataHash(const RecordTable& table, std::span<const std::byte> record) {
  std::array<std::byte, kFileRecordBytesMax> covered;
  CAIRN_CHECK(table.file_record_bytes <= kFileRecordBytesMax && record.size() == table.file_record_bytes);
  std::memcpy(covered.data(), record.data(), kChecksumBytes);
  std::size_t bytes = kChecksumBytes;
  for (const FieldPlace place : table.hashed()) {
    if (place.bytes == 0) continue;
    std::memcpy(covered.data() + bytes, record.data() + place.offset, place.bytes);
    bytes += place.bytes;
  }
  return Md5({covered.data(), bytes});
}

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_RECORDS_H_
