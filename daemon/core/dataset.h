// One dataset: what it is, where it is, and what is to become of it. The ledger (ledger.h) makes and changes datasets;
// everybody else has them as `const`.
#ifndef CAIRN_DAEMON_CORE_DATASET_H_
#define CAIRN_DAEMON_CORE_DATASET_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/core/variables.h"
#include "proto/catalogue.pb.h"
#include "proto/local.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/base/number_ranges.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/place/age.h"

namespace cairn {

// One rank's part of a dataset. It only goes forward:
//
//   kAbsent -> kBegun -> kCaptured -> kStored
struct Part {
  enum class State : std::uint8_t {
    kAbsent,    // the rank has not begun it
    kBegun,     //
    kCaptured,  // its bytes are in the daemon's hands
    kStored,    // its files and its catalogue are
  };
  State state = State::kAbsent;
  std::uint64_t bytes = 0;  // of its files, as planned, then as written
  catalogue::Catalogue catalogue;
  // Of a launch over nodes: in the hands, then in the cache, of another node's daemon. Whose, if that is known here:
  // the launch's home knows, and has the catalogue once it is stored; the other nodes know only their own parts.
  bool elsewhere = false;
  std::string node = {};
  bool described = true;  // the catalogue is here, if it is stored
  // The set in whose other members' favour something is kept where it is, with it; null: in none.
  std::shared_ptr<const kept::Set> keeps = {};
  // Of a part that is here: sets from before that, for which something is still kept, too; the newest first.
  std::vector<std::shared_ptr<const kept::Set>> kept_before = {};
  bool rebuilt = false;  // made of those in this daemon's life, as no node had it any more

  bool stored() const { return state >= State::kStored; }
  bool captured() const { return state >= State::kCaptured; }
  bool known() const { return !elsewhere || !node.empty(); }
};

// Where a dataset is, in the cache or on the prefix.
enum class Place : std::uint8_t {
  kAbsent,
  kArriving,  // being written there; nobody reads it
  kWhole,     // with its record: it counts
  kLeaving,   // nobody counts on it any more; its bytes may still be there
  kDamaged,   // found to be damaged, set aside, not used again
};
std::string_view NameOf(Place place);

// What is to become of a dataset besides. Each is left only as the table in ledger.h says.
enum class Standing : std::uint8_t {
  kCurrent,     // may be chosen, and may go to the prefix
  kDoubted,     // the same; a newer one's files were about to replace its own on the prefix when a daemon ended
  kSuperseded,  // its flush was dropped for a newer one, or it was removed from the prefix: not flushed unless asked
                // for
  kGaveWay,     // a newer one's files have its names on the prefix: never goes there again
  kFenced,      // a newer launch was made elsewhere before it counted on the prefix: chosen only by its number
  kAnothers,    // not of this prefix: made under a launch that is not there, or has another secret. Never restored
  kTakenOut,    // someone took it out of the prefix' index, or the application has rejected it: never goes there
                // again, and is chosen only by its number
  kIdTaken,     // SCR has given its id to another dataset: stays in the cache
  kHistory,     // the same, and what it holds was removed on the prefix, or rejected: chosen only by its number
};
std::string_view NameOf(Standing standing);

struct Dataset {
  // What it is: set when it is made or adopted.
  struct Kind {
    bool files = false;       // the application's own
    bool checkpoint = true;   // meant for restart
    bool output = false;      // may be both
    bool past_cache = false;  // written straight to the prefix
  };
  DatasetId id = 0;
  LaunchId launch = 0;
  std::string mark;  // of the launch's secret (storage/base/launch_mark.h); empty: release 0.1.0, or no launch's
  std::uint64_t step = 0;
  std::uint32_t attempt = 0;
  std::uint32_t nranks = 0;
  Kind kind;
  bool outdated = false;      // has a higher id than newer ones: chosen only by name, and supersedes nothing
  std::uint64_t ordinal = 0;  // of a checkpoint: its number in its launch, from 1
  std::int64_t created_us = 0;
  std::uint64_t unverified_files = 0;  // adopted as they were found
  std::string user, job;  // as SCR's records have them: whose, and of which job (the cache folder's scr.<job>)
  std::string name;       // in SCR's records, as SCR or the application has given it; empty: ckpt.<id>
  // As the application has asked for at its begin; of one that was made in another life of the daemon its catalogues
  // say it, as soon as one is here.
  AskedScheme scheme = {};

  // What has become of it: changed by the ledger, event by event.
  // By rank. Of what is only on the prefix there are none until someone asks for its catalogues: a long run has many
  // more datasets there than in the cache, and all their ranks are stored.
  std::vector<Part> parts;
  bool outdated_parts =
      false;  // the catalogues have changed since they were read: a read under way still looks at them
  std::uint64_t bytes_there = 0;  // of all parts, while there are none
  std::uint32_t captured = 0;     // parts at kCaptured or beyond
  std::uint32_t stored = 0;       // parts at kStored
  std::uint32_t unknown = 0;      // parts that are elsewhere, nobody here knows where
  std::uint32_t undescribed = 0;  // parts whose catalogue is not here
  // Its launch has its home on another node: what becomes of it is decided there, and told.
  bool followed = false;
  // Followed: a rank here has begun it with the number that the home has said ahead; that the home has begun it, too,
  // is not known yet. What is set when a dataset is made is known with that.
  bool foretold = false;
  bool recorded = false;  // followed: this cache has noted, durably, that the parts that are here are whole
  bool let_go = false;    // followed: it may leave the cache when its room is needed
  bool will_go = false;   // followed: it will be let go when its flush, which is under way or to come, has ended
  // Redundancy: what parts that are here keep for others takes so many bytes of this cache; so many parts, wherever
  // they are, keep something; all do, and of each set all members say the same; it is still to come, as far as the
  // daemon that decides about the dataset can see.
  std::uint64_t kept_bytes = 0;
  std::uint32_t keeping = 0;
  std::uint32_t keeping_before = 0;  // so many parts here keep something for older sets
  bool redundant = false;
  bool awaits_redundancy = false;
  // Parts that were found to be damaged where they are, on other nodes: what these say of them is not believed.
  std::set<std::pair<Rank, std::string>> bad_parts;
  Place cache = Place::kAbsent;
  Place prefix = Place::kAbsent;
  Place folder = Place::kAbsent;  // the one that is redundant itself (redundant_tier.h)
  Standing standing = Standing::kCurrent;
  bool foreign = false;       // SCR's own on the prefix: nothing of it there is ever changed
  bool pinned = false;        // by the user
  bool asked = false;         // someone waits for `prefix`, or asked for the flush by name
  std::string why_damaged;    // if it is known
  std::string taken_by;       // the name of the dataset to which its id was given; empty: not, or not known
  std::uint32_t readers = 0;  // restores under way, and copies
  std::uint32_t copies = 0;   // followed: of its parts here to the prefix, under way
  Agreement agreement;

  std::uint64_t bytes() const;
  // Of those parts that are not elsewhere, with what they keep for others: what the dataset takes of this cache.
  std::uint64_t bytes_here() const;
  Level level() const;
  bool in_cache() const { return cache == Place::kWhole; }
  bool in_prefix() const { return prefix == Place::kWhole; }
  bool in_folder() const { return folder == Place::kWhole; }
  bool whole() const { return in_cache() || in_folder() || in_prefix(); }
  bool over_nodes() const { return std::ranges::any_of(parts, &Part::elsewhere); }
  // A restart could use it: what the cache has counts if it is known who has the rest.
  bool can_be_read() const { return in_prefix() || in_folder() || (in_cache() && unknown == 0); }
  // Nobody needs to have anything older. What is followed is whole when its home says so.
  bool safe() const { return in_prefix() || in_folder() || (in_cache() && (unknown == 0 || followed)); }
  // It outlives the loss of nodes.
  bool is_redundant() const { return redundant || in_folder(); }
  bool all_begun() const {
    return std::ranges::none_of(parts, [](const Part& part) { return part.state == Part::State::kAbsent; });
  }
  // Followed: its launch's home has begun it, and this rank's part is still to come.
  bool expects(Rank rank) const {
    return followed && cache == Place::kArriving && !recorded && rank < parts.size() &&
           parts[rank].state == Part::State::kAbsent;
  }
  bool all_captured() const { return captured == nranks; }
  bool all_stored() const { return stored == nranks; }
  // Whole on the prefix and nowhere else, and nobody wants anything of it: what happens to others is no matter to it.
  bool at_rest() const {
    return cache == Place::kAbsent && prefix == Place::kWhole && folder == Place::kAbsent && !pinned && !asked &&
           readers == 0;
  }
  // The parts are here, with their catalogues as far as they are stored.
  bool described() const { return !parts.empty() && !outdated_parts && undescribed == 0; }
  bool has_captured(Rank rank) const { return rank < nranks && (parts.empty() || parts[rank].captured()); }
  // No tier could give it back.
  bool damaged() const {
    return !whole() && (cache == Place::kDamaged || prefix == Place::kDamaged || folder == Place::kDamaged);
  }
  bool restorable() const { return kind.checkpoint && can_be_read() && standing != Standing::kAnothers; }
  bool dropped() const { return standing == Standing::kTakenOut || standing == Standing::kHistory; }
  bool id_taken() const { return standing == Standing::kIdTaken || standing == Standing::kHistory; }
  // It will not go to the prefix, whoever asks.
  bool gave_way() const { return foreign || (standing >= Standing::kGaveWay); }
  // It is not flushed by itself.
  bool flush_dropped() const { return standing >= Standing::kSuperseded && standing <= Standing::kTakenOut; }
  bool of_no_line() const { return standing == Standing::kFenced || standing == Standing::kAnothers; }
  // Counts when the newest is looked for.
  bool superseding() const { return kind.checkpoint && !outdated && !dropped() && !of_no_line(); }
};
using DatasetPtr = std::shared_ptr<const Dataset>;

Age AgeOf(const Dataset& dataset);

std::uint64_t FileBytes(const catalogue::Catalogue& catalogue);  // of all its files

// Ranks on several nodes have kept something for each other, and it is in these caches only: what one of them has lost
// may be made anew. Of what this daemon decides about.
inline bool MayBeMadeAnew(const Dataset& dataset) {
  return !dataset.followed && dataset.in_cache() && !dataset.in_prefix() && !dataset.in_folder() &&
         dataset.keeping > 0 && dataset.over_nodes();
}
// For which parts that are here keep something, each once, and which ranks do; of a rank the newest first.
struct SetHere {
  kept::Set set;
  NumberRanges keepers;
};
std::vector<SetHere> SetsHere(const Dataset& dataset);
// For which the parts at `node` (empty: here) keep something since the last order, each once.
std::vector<kept::Set> SetsAt(const Dataset& dataset, const std::string& node);

// Takes the scheme from the catalogue of one of its parts, unless it is known already.
void LearnScheme(Dataset& dataset, const catalogue::Catalogue& catalogue);

// So many ranks, all of whose parts are stored. `catalogues`: by rank.
void PutParts(Dataset& dataset, std::vector<catalogue::Catalogue> catalogues);
// Of `nranks` ranks these are here, and stored; the rest is stored elsewhere, nobody knows where.
void PutPartsHere(Dataset& dataset, std::uint32_t nranks, std::vector<catalogue::Catalogue> catalogues);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DATASET_H_
