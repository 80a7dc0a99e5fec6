// The catalogue of one rank and dataset as a file: proto/catalogue.proto, framed (storage/format/framed/framed.h) with
// the magic "CAIRNCAT" and version 1.
#ifndef CAIRN_STORAGE_FORMAT_CATALOGUE_CATALOGUE_H_
#define CAIRN_STORAGE_FORMAT_CATALOGUE_CATALOGUE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"

namespace cairn {

inline constexpr std::uint64_t kCatalogueBytesMax = 1u << 30;
inline constexpr std::uint64_t kCatalogueFilesMax = 1u << 20;  // of one rank

// Is it sound? kInvalidArgument naming the field: sizes against the number of CRCs, names (normalized as by
// NormalizeFileName, each once), dimensions and boxes, placements, ids, rank < nranks. A variable of type 0 (unknown:
// adopted from another system) is plain, without a name, and counts bytes. Launch 0: of none of the run's, for the same
// reason. A writer asks before it writes, since DecodeCatalogue refuses what is not.
absl::Status ValidateCatalogue(const catalogue::Catalogue& catalogue);

std::string EncodeCatalogue(const catalogue::Catalogue& catalogue);
std::uint64_t CatalogueFileBytes(const catalogue::Catalogue& catalogue);  // how long that is
// kDataLoss naming `name`, field and offset, also if the message is not sound; kFailedPrecondition for a newer version.
// Memory is bounded by a small multiple of the file's size: variables and files are counted before they are parsed.
absl::StatusOr<catalogue::Catalogue> DecodeCatalogue(std::string_view name, std::string_view file);

std::string CatalogueName(Rank rank);                     // rank_<r>.cat
bool IsCatalogueName(std::string_view name);              // also if no rank is written so (rank_007.cat)
std::string CheckpointFileName(DatasetId id, Rank rank);  // Ckpt<id>-Rank<r>.fti

// A file name of the application below the prefix, normalized: relative, no ".", "..", "//", no control characters.
// Symbolic links are not looked at: ".." takes away the part before it.
//   kInvalidArgument   absolute outside `prefix`, leaves the prefix, empty, a directory (ends in "/"), longer than
//   4096,
//                      a part longer than 255, a control character, not UTF-8, under .scr or .cairn, the name of a
//                      catalogue at the top, or a work name
absl::StatusOr<std::string> NormalizeFileName(std::string_view prefix, std::string_view file);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FORMAT_CATALOGUE_CATALOGUE_H_
