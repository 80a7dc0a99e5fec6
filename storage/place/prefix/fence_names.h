// Names of the records that launches fence: commits in .scr/scr.dataset.<id>, marks in .scr. Pure.
//
//   commit.cairn         the first commit; it names its committer, if it has one
//   commit.<n>.cairn     made beside it under launch n, after the first had been fenced
//   removed.cairn        beats them all
//   remove.<id>.<n>.cairn  (.scr) a removal by policy begins under launch n. Together in one folder, so that a base
//                        needs not look into the folders of all datasets that count
//   place.<id>.cairn     (.scr) files of the dataset wait, whose places others have or had (placing.h)
#ifndef CAIRN_STORAGE_PLACE_PREFIX_FENCE_NAMES_H_
#define CAIRN_STORAGE_PLACE_PREFIX_FENCE_NAMES_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "storage/base/ids.h"

namespace cairn::fence_names {

inline constexpr std::string_view kCommit = "commit.cairn";
inline constexpr std::string_view kRemoved = "removed.cairn";
inline constexpr std::string_view kCommitterKey = "COMMITTER";  // in a commit: the launch

std::string CommitOf(LaunchId committer);                    // commit.<n>.cairn
std::optional<LaunchId> CommitterOf(std::string_view name);  // of commit.<n>.cairn
std::string RemovalMark(DatasetId id, LaunchId committer);
std::optional<std::pair<DatasetId, LaunchId>> ParseRemovalMark(std::string_view name);
std::string PlacingMark(DatasetId id);
std::optional<DatasetId> ParsePlacingMark(std::string_view name);

}  // namespace cairn::fence_names

#endif  // CAIRN_STORAGE_PLACE_PREFIX_FENCE_NAMES_H_
