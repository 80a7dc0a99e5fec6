// Which of the six layouts is this file? There is no magic number: a layout is found by its file record's own hash. Of
// several records whose hashes are right the one is meant whose sizes fit the file's length: data may end like a file.
// Source: FTI-FF specification, section 4.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_RECOGNISE_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_RECOGNISE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"
#include "storage/format/ftiff/codec.h"
#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {

struct FileRecord {
  const RecordTable* table = nullptr;
  const RecordTable* other_table = nullptr;  // D, if the block records of a file of C fit it as well
  std::uint64_t offset = 0;                  // in the file
  std::vector<std::byte> bytes;              // its hash is right
  bool encoded = false;                      // a level 3 code file (7.3): the record stands behind code bytes

  std::int64_t Get(FieldPlace place) const { return GetField(bytes, place); }
  std::string checksum_hex() const {
    return std::string(reinterpret_cast<const char*>(bytes.data()), kChecksumBytes - 1);
  }
  Md5Digest hash() const;
};

//   kDataLoss   no layout's file record is there, or its block records fit neither C nor D, or its checksum is not one
// Errors of `read` pass through.
absl::StatusOr<FileRecord> Recognise(std::string_view name, std::uint64_t file_bytes, const ReadAt& read);

// "<name>: offset <offset>: <field> is <found>, expected <expected>", kDataLoss.
template <typename Found>
absl::Status WrongField(std::string_view name, std::uint64_t offset, std::string_view field, const Found& found,
                        std::string_view expected) {
  return DataLoss("{}: offset {}: {} is {}, expected {}", name, offset, field, found, expected);
}
// Of a field of the file record.
absl::Status WrongField(std::string_view name, const FileRecord& record, FieldPlace place, std::string_view field,
                        std::string_view expected);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_RECOGNISE_H_
