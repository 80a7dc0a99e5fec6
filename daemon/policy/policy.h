// What is flushed, dropped, evicted and removed: decisions only, over facts that the core states. No I/O, no state.
//
// A checkpoint is *superseded* when a newer one of the run is safe. One that waits for its flush is only dropped for a
// newer one that is itself going to the prefix: else a rhythm of `every` = 10 with slow flushes would flush nothing.
#ifndef CAIRN_DAEMON_POLICY_POLICY_H_
#define CAIRN_DAEMON_POLICY_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "daemon/config/config.h"
#include "storage/base/ids.h"

namespace cairn {

// One dataset of a run, as the policy sees it. Newer means: of a later line, or of the same one with a higher id.
struct DatasetFacts {
  DatasetId id = 0;
  std::uint64_t line = 0;  // of the launch that made it, or of its own among the run's datasets: a later one is newer
  std::uint64_t step = 0;
  std::uint64_t ordinal = 0;  // of a checkpoint: its number in its launch, from 1
  bool checkpoint = false;
  bool output = false;     // may be both
  bool own_files = false;  // the application's
  bool whole = false;      // `local`
  bool safe = false;       // whole, at the configured level: `local`, or `redundant` where that is configured
  bool redundant = false;  // or about to be: counts by flush.every_redundant
  bool in_cache = false;
  bool in_prefix = false;  // committed there
  bool in_folder = false;  // whole in the folder that is redundant itself
  bool flushing = false;   // a flush of it has begun
  bool dropped = false;    // its flush was dropped
  bool pinned = false;     // by `cairn pin`
  bool set_back = false;   // the user has set CURRENT back behind it: not of the line that was chosen
  bool held = false;       // by cairn_latest or a restore under way
  bool unwanted = false;   // no restart chooses it
  bool followed = false;   // another node's daemon decides when it leaves, unless its room is needed
  bool kept = false;       // that daemon has not let it go yet, not even for room
  bool will_go = false;    // but will, when its flush has ended
  bool gave_way = false;   // never goes to the prefix again: removed there, or a newer one's files have its names
  bool asked = false;      // someone asked for `prefix`: cairn_wait, `cairn flush`
  std::uint64_t cache_bytes = 0;

  bool NewerThan(const DatasetFacts& other) const { return line != other.line ? line > other.line : id > other.id; }
};

struct FlushPlan {
  struct Dropped {
    DatasetId id = 0;
    DatasetId successor = 0;
  };
  std::vector<DatasetId> start;  // in this order
  std::vector<Dropped> drop;
};

// Goes to the prefix at some time, unless dropped: an output, what was asked for or pinned, every so many-th
// checkpoint. One that is to become redundant and cannot then goes by flush.every.
bool WantsPrefix(const DatasetFacts& dataset, const Config::Flush& policy);
// Its flush is under way or to come.
bool ComesToPrefix(const DatasetFacts& dataset, const Config::Flush& policy);

// `slots`: flushes that may start now. Oldest first; outputs and what was asked for before the rest.
FlushPlan PlanFlushes(std::span<const DatasetFacts> run, const Config::Flush& policy, std::uint32_t slots);

// The run's newest checkpoint that a restart would use from the cache, if any: never evicted.
std::optional<DatasetId> NewestRestartable(std::span<const DatasetFacts> run);

// Which datasets could leave the cache, in the order in which they do: oldest first those on the prefix or in the
// folder that is redundant itself, and those that no restart chooses, then superseded checkpoints, flushed or not.
// Never: the newest restartable one (of those in the cache, unless a newer one is on the prefix), a pinned, held or
// kept one, one being flushed, an output that is not on the prefix (unless it gave way there), one not yet safe.
std::vector<DatasetId> EvictionOrder(std::span<const DatasetFacts> run);

// For room: the first ones of EvictionOrder that free `bytes`; all of them if that is not enough.
std::vector<DatasetId> EvictForRoom(std::span<const DatasetFacts> run, std::uint64_t bytes);

// What a run gives besides, when no run has anything else to give: its newest restartable one, if it is on the prefix,
// to be restarted from there. Not a pinned, held or kept one, nor one being flushed.
std::optional<DatasetId> EvictNewest(std::span<const DatasetFacts> run);

// Without need for room: whole checkpoints beyond the newest restartable one and the `keep` that follow it. One whose
// flush is still to come stays until it is done or dropped. `spares`: so many of memory stay beyond these, for
// ChooseSpare.
std::vector<DatasetId> EvictBeyondKeep(std::span<const DatasetFacts> run, std::uint32_t keep,
                                       const Config::Flush& policy, std::size_t spares = 0);

// Which dataset gives its files to the next checkpoint of memory, to be written over; none: the next one gets new
// files. Of memory itself, it could leave the cache now (EvictionOrder), and it would leave it by `keep` (0 counts as
// 1) once the next one is whole, or is in the way of it now, which wants `missing` bytes of room, and gets them so. One
// that waits for its flush is none. Of several the newest, since the least has changed since, but first of those that
// are beyond `keep` already.
std::optional<DatasetId> ChooseSpare(std::span<const DatasetFacts> run, std::uint32_t keep, const Config::Flush& policy,
                                     std::uint64_t missing);

// A run without sessions since `idle_ms`: everything on the prefix goes once linger_ms is over, the newest restartable
// one too. linger_ms 0: nothing.
std::vector<DatasetId> EvictLingering(std::span<const DatasetFacts> run, std::uint64_t idle_ms,
                                      std::uint64_t linger_ms);

// Is the dataset to be in the folder that is redundant itself? Until it is on the prefix, or a newer checkpoint that is
// there or redundant has superseded it; but while it is pinned or held, or is to be flushed from there, it stays.
bool BelongsInFolder(const DatasetFacts& dataset, std::span<const DatasetFacts> run, const Config::Flush& policy);

// Which committed checkpoints leave the prefix, oldest first. Stay: the newest keep_last (0: all) of the line that the
// user has chosen, what is newer than the oldest of these, steps that are multiples of keep_every, outputs, pinned and
// held ones. `run` holds only what Cairn itself committed.
std::vector<DatasetId> PrefixRemovals(std::span<const DatasetFacts> run, const Config::PrefixPolicy& policy);

}  // namespace cairn

#endif  // CAIRN_DAEMON_POLICY_POLICY_H_
