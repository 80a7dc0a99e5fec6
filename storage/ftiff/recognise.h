// Which of the six layouts is this file? There is no magic number: a layout is found by its file record's own hash.
// Source: FTI-FF specification, section 4.
#ifndef CAIRN_STORAGE_FTIFF_RECOGNISE_H_
#define CAIRN_STORAGE_FTIFF_RECOGNISE_H_

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "storage/ftiff/codec.h"
#include "storage/ftiff/records.h"

namespace cairn::ftiff {

struct FileRecord {
  const RecordTable* table = nullptr;
  std::uint64_t offset = 0;      // in the file
  std::vector<std::byte> bytes;  // its hash is right
  bool encoded = false;          // a level 3 code file (7.3): the record stands behind code bytes

  std::int64_t Get(FieldPlace place) const { return GetField(bytes, place); }
};

//   kDataLoss   no layout's file record is there, or it fits both C and D or neither. Errors of `read` pass through.
absl::StatusOr<FileRecord> Recognise(std::string_view name, std::uint64_t file_bytes, const ReadAt& read);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FTIFF_RECOGNISE_H_
