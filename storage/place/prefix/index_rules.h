// What CURRENT means: which checkpoint SCR restarts from first, and how far a restart of Cairn's may go. Pure.
//
// CURRENT follows the commits upwards. Set back to an older checkpoint, by whomever, it bounds restarts until the next
// checkpoint is committed. `cairn index current` notes besides, under CAIRN_CURRENT, which dataset was meant and when,
// so that the bound stays when CURRENT goes because that dataset FAILED, or when it names the newest there is while a
// newer one is on its way. What was passed over so stays noted under CAIRN_SET_BACK when that commit lifts the bound:
// prefix.keep_last counts what was made since, and what it goes on from.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_INDEX_RULES_H_
#define CAIRN_STORAGE_PLACE_PREFIX_INDEX_RULES_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/records.h"
#include "storage/place/age.h"

namespace cairn::index_rules {

Age AgeOf(const scr::Descriptor& descriptor);
// Of two checkpoints, as storage/place/age.h has it.
bool IsNewer(const scr::Descriptor& a, const scr::Descriptor& b);

// A checkpoint that a restart may choose.
bool IsRestartable(const scr::IndexEntry& entry);

// Why a dataset is marked FAILED: its bytes on the prefix are damaged, another copy may be whole; or the application
// could not use it, whichever copy it was, which is what SCR means by it.
enum class Because : std::uint8_t { kDamaged, kRefused };
bool IsRefused(const scr::IndexEntry& entry, const kvtree::Tree& index);
// `time`: as SCR's. `entry`: of `index`, the dataset's. If CURRENT named it, none is current.
void MarkFailed(DatasetId id, const std::string& time, Because why, kvtree::Tree& entry, kvtree::Tree& index);

// One entry, without reading the others; none: it is not there. kDataLoss.
absl::StatusOr<std::optional<scr::IndexEntry>> EntryOf(DatasetId id, const kvtree::Tree& index);

// The dataset of that name, also if the index has no names (SCR specification, section 14); of several the newest.
std::optional<DatasetId> FindDataset(std::string_view name, const kvtree::Tree& index);
// The one that CURRENT names.
std::optional<DatasetId> CurrentOf(const kvtree::Tree& index);

// No restart chooses a newer checkpoint than this one, but for what was made after the bound was set.
struct Bound {
  DatasetId id = 0;         // 0: no bound
  std::int64_t set_us = 0;  // 0: not known
};
// `parsed` is of `index`.
Bound BoundOf(const scr::Index& parsed, const kvtree::Tree& index);

// CURRENT was set back: what was made until then, and is newer than `to`, is not of the line that the user has chosen.
struct SetBack {
  Age to;
  std::int64_t until_us = 0;
};
bool IsSetBack(const Age& checkpoint, std::span<const SetBack> set_backs);
// Those that were noted, and the bound of now, which counts from `now_us` if nobody has noted when it was set.
std::vector<SetBack> SetBacksOf(const scr::Index& parsed, const kvtree::Tree& index, std::int64_t now_us);

// Sets CURRENT to a dataset of the index, and the bound with it.
void Bind(DatasetId id, std::string_view name, std::int64_t now_us, kvtree::Tree& index);
// Moves CURRENT to a checkpoint that was committed if it is newer than the current one and was not made before the
// bound was set; the bound goes, and what it has passed over is noted.
void FollowCommit(const scr::Descriptor& committed, kvtree::Tree& index);
// Takes the entry out; CURRENT moves as SCR's rules are, and the bound with it.
void Erase(DatasetId id, kvtree::Tree& index);

}  // namespace cairn::index_rules

#endif  // CAIRN_STORAGE_PLACE_PREFIX_INDEX_RULES_H_
