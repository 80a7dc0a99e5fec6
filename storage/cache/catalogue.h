// The catalogue of one rank and dataset as a file: header, serialized proto/catalogue.proto, CRC32C over both.
//
//   0   8   magic "CAIRNCAT"
//   8   4   version, 1 (little-endian, as all numbers here)
//   12  4   reserved, zero
//   16  8   bytes of the message
//   24  n   message
//   24+n 4  CRC32C of all bytes before
#ifndef CAIRN_STORAGE_CACHE_CATALOGUE_H_
#define CAIRN_STORAGE_CACHE_CATALOGUE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"

namespace cairn {

inline constexpr std::uint64_t kCatalogueBytesMax = 1u << 30;

std::string EncodeCatalogue(const catalogue::Catalogue& catalogue);
// kDataLoss naming `name`, field and offset; kFailedPrecondition for a newer version. Also validated: sizes against the
// number of CRCs, names (relative, no "..", no empty parts), dimensions, ids, rank < nranks.
absl::StatusOr<catalogue::Catalogue> DecodeCatalogue(std::string_view name, std::string_view file);

std::string CatalogueName(Rank rank);                       // rank_<r>.cat
std::string CheckpointFileName(DatasetId id, Rank rank);    // Ckpt<id>-Rank<r>.fti

// A file name of the application below the prefix, normalized: relative, no ".", "..", "//", no control characters.
//   kInvalidArgument   absolute outside `prefix`, leaves the prefix, empty, longer than 4096, or under .scr or .cairn
absl::StatusOr<std::string> NormalizeFileName(std::string_view prefix, std::string_view file);

}  // namespace cairn

#endif  // CAIRN_STORAGE_CACHE_CATALOGUE_H_
