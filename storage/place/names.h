// How datasets are named where they lie, in caches and prefixes (design, "Where things lie"). Pure.
#ifndef CAIRN_STORAGE_PLACE_NAMES_H_
#define CAIRN_STORAGE_PLACE_NAMES_H_

#include <absl/status/status.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "storage/base/ids.h"

namespace cairn {

// ckpt.<id>: a dataset's name for SCR, and the prefix's folder with its bytes.
std::string DatasetName(DatasetId id);
std::optional<DatasetId> DatasetOfName(std::string_view name);
// May an application call its dataset so? SCR's tools and `cairn index` take such a name, or a number, and SCR's users
// make folders of it. kInvalidArgument, with the reason: not 1 to kDatasetNameBytesMax bytes, no name of a file, a
// number, or a name of those that datasets without one have (ckpt.<number>, scr.dataset.<number>).
inline constexpr std::size_t kDatasetNameBytesMax = 255;
absl::Status CheckDatasetName(std::string_view name);
// What Cairn itself puts in there, as named below the prefix.
std::string CheckpointPrefixName(DatasetId id, Rank rank);  // ckpt.<id>/Ckpt<id>-Rank<r>.fti
std::string CataloguePrefixName(DatasetId id, Rank rank);   // ckpt.<id>/rank_<r>.cat

// Where files of the application's wait, below the prefix, until their dataset is whole.
std::string RoutedFolder(DatasetId id);   // past the cache: under their own names
std::string AdoptedFolder(DatasetId id);  // adopted: by rank and number
std::string AdoptedName(DatasetId id, Rank rank, int file);

// ckpt.<id>.bp: its view.
std::string ViewFolderName(DatasetId id);
std::optional<DatasetId> DatasetOfView(std::string_view name);

// What Cairn puts into ckpt.<id>, also while it is being written: checkpoint files, catalogues. Besides there are the
// folders of RoutedFolder and AdoptedFolder. Whatever else is in ckpt.<id> is the application's.
bool IsDatasetFile(std::string_view name, DatasetId id);

// Whether a place below the prefix (a normalized name) is kept for Cairn, with all below it: .scr, .cairn, the views,
// and in folders ckpt.<number> what Cairn puts there; also if no id is written so (ckpt.007).
bool IsCairnsPlace(std::string_view name);
// May the application call a file, or a directory that it writes into, so (a normalized name)? kInvalidArgument: it is
// Cairn's place, or such a folder itself; or its first part is a catalogue's name, which the cache has there.
absl::Status CheckApplicationsName(std::string_view name);

// scr.dataset.<id>: the folder of its records in .scr of the prefix; in a cache, of all of it.
std::string RecordsFolderName(DatasetId id);
std::optional<DatasetId> DatasetOfRecords(std::string_view name);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_NAMES_H_
