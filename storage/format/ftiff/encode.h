// File records of the layouts that are written.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_ENCODE_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_ENCODE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "storage/format/ftiff/records.h"

namespace cairn::ftiff {

// What a file record holds besides its hash; what the layout does not have is left out.
struct FileFields {
  std::int32_t checkpoint_id = 0;
  std::uint64_t file_bytes = 0;  // ckptSize
  std::uint64_t meta_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t fs = 0;
  std::int64_t max_fs = -1;
  std::int64_t partner_fs = -1;
  std::uint64_t timestamp_ns = 0;
};

// REQUIRES: `checksum_hex` has 32 characters; sizes fit 63 bits. Unused bytes are zero.
std::vector<std::byte> EncodeFileRecord(const RecordTable& table, std::string_view checksum_hex,
                                        const FileFields& fields);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_ENCODE_H_
