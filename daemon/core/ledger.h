// The ledger of one run: launches, ranks, datasets, where they are and the levels that they have reached. The rules of
// design.md, "Identity" and "The ladder", and nothing else: no I/O, no threads, no clock. It alone changes launches and
// datasets. The components tell it by name what has happened; it answers what that means. Strand only.
//
// Where a dataset is. One event, one row; an event that comes in any other place is our bug, and ends the daemon. Only
// FolderGone, FlushEnded, GaveWay and looks at the index (SeenOnPrefix, NotOnPrefix, CameBack, IdTaken) may come at any
// time: in a place that their row does not name they leave it as it is. Adopt and FoundInCache begin with whole.
//
//   event           tier    from                             to
//   --------------  ------  -------------------------------  --------
//   Create          either  (it is new)                      arriving   in the cache; past the cache: on the prefix
//   Completed       cache   arriving                         whole      past the cache: prefix
//   LeftCache       cache   whole                            leaving    not on the prefix: it is forgotten
//   FolderGone      cache   leaving                          absent
//   CacheDamaged    cache   whole                            damaged
//   RefetchBegan    cache   absent, whole, leaving, damaged  arriving
//   Refetched       cache   arriving                         whole
//   RefetchFailed   cache   arriving                         absent
//   ComesFromNode   cache   (it is new)                      arriving   another node's cache has it; then Refetched,
//   DidNotCome      cache   arriving                         (unknown)  or this
//   IsOnNodes       cache   (it is new)                      whole      in parts in other nodes' caches
//   Follow          cache   (it is new)                      arriving   a launch's home has begun it, or has said its
//                                                                       number ahead
//   HomeCompleted   cache   arriving                         whole      the parts that are here; the rest is elsewhere
//   FlushBegan      prefix  absent, damaged                  arriving
//   FlushEnded      prefix  arriving                         absent     else it was seen there meanwhile: stays
//   Committed       prefix  all but leaving                  whole      the index may have been looked at meanwhile
//   SeenOnPrefix    prefix  all but leaving                  whole      the index offers it
//   CameBack        prefix  all but leaving                  whole      the same, after someone had taken it out
//   NotOnPrefix     prefix  whole                            absent     the index does not offer it any more
//   GaveWay         prefix  whole                            absent     a newer one's files have its names
//   RemovalBegan    prefix  whole                            leaving    not in the cache: it is forgotten
//   Removed         prefix  leaving                          absent
//   RemovalFailed   prefix  leaving                          whole      it is known again
//   PrefixDamaged   prefix  whole                            damaged
//   Fenced          prefix  all but leaving                  whole      it is there, but does not count; or stays
//   InFolder        folder  all                              whole      the folder that is redundant itself
//   FolderLeaves    folder  whole                            leaving    nobody counts on it any more
//   FolderLeft      folder  leaving                          absent     nowhere else: it is forgotten
//   FolderDamaged   folder  whole                            damaged
//   Fail            either  arriving, by its first makers    (forgotten)
//
// What is to become of it (Standing):
//
//   FlushDropped, RemovalBegan,
//   FlushCancelled               current, doubted                       -> superseded
//   FlushOrdered, RemovalFailed  superseded                             -> current
//   GaveWay, CameTooLate         current, doubted, superseded           -> gave way
//   Fenced                       all before it                          -> fenced
//   IsAnothers                   all before it                          -> another's
//   TakenOut                     all before it                          -> taken out    id taken -> history
//   IdTaken                      any                                    -> id taken, or history
//   SeenOnPrefix, ListedOnPrefix doubted -> current    id taken -> gave way    history -> taken out
//   CameBack, CountsAgain        superseded, gave way, taken out        -> current
//   CountsAgain                  fenced, another's                      -> current
#ifndef CAIRN_DAEMON_CORE_LEDGER_H_
#define CAIRN_DAEMON_CORE_LEDGER_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/age_order.h"
#include "daemon/core/dataset.h"
#include "daemon/core/variables.h"
#include "proto/catalogue.pb.h"
#include "proto/local.pb.h"
#include "storage/base/ids.h"

namespace cairn {

// Why a dataset is no more: what test and wait answer.
struct Gone {
  enum class Why : std::uint8_t { kFailed, kSuperseded, kRemoved };
  Why why = Why::kFailed;
  std::string message;
  DatasetId successor = 0;
  std::uint64_t step = 0;
};

// A rank's session within its launch. kUnknown: not here (yet), or a daemon ago.
//
//   kUnknown -> kLive -> kLost -> kLive     kLive -> kClosed
enum class RankState : std::uint8_t { kUnknown, kLive, kLost, kClosed };

struct Launch {
  // kFenced: a newer one has been made; everything that it sends is refused.
  enum class Standing : std::uint8_t { kNewest, kFenced };
  // What cairn_latest has answered. It is made by the first question, and ends when the launch first begins a dataset.
  // Of what older launches have made a rank that asks after that is told the same as the others.
  struct Pin {
    enum class State : std::uint8_t { kNone, kSet, kEnded };
    State state = State::kNone;
    DatasetId dataset = 0;  // of the last answer; 0: nothing to restart from
    bool told = false;      // there was an answer before it ended
  };

  LaunchId id = 0;
  std::string key;
  std::uint32_t nranks = 0;
  std::string secret;
  bool from_record = false;  // made by a daemon before this one: a rank that has not come back may never do
  // Made by a daemon of this cache. Of another's launch nothing is known here but that it fences those before it.
  bool ours = true;
  bool provisional = false;  // it began while the prefix could not be asked, and is not made there yet
  // Another's, and this daemon serves ranks of it: its home (home.h) decides, and `ranks` has only those that are here.
  bool followed = false;
  std::string maker;  // of another's: who, for messages
  std::string mark;   // that its datasets carry; empty: made by release 0.1.0

  Standing standing = Standing::kNewest;
  std::vector<RankState> ranks;
  std::array<std::uint32_t, 4> ranks_in{};  // by RankState
  std::map<std::pair<std::uint64_t, std::uint32_t>, DatasetId>
      attempts;                // (step, attempt) of datasets not begun by all
  std::deque<DatasetId> open;  // datasets that some rank has not begun, oldest first
  Pin pin;
  std::set<DatasetId> passed_over;     // could not be restored in this launch, damaged or not
  std::set<DatasetId> restored_files;  // datasets of files that it has restored and may read
  // Someone has set the prefix' CURRENT back to this dataset: what others have made since is not chosen, until this
  // launch has committed a checkpoint. 0: no bound.
  DatasetId bound = 0;
  std::int64_t bound_set_us = 0;      // what was made after this is not bound; 0: not known
  std::uint64_t checkpoints = 0;      // begun
  std::uint32_t elsewhere = 0;        // ranks that other nodes' daemons serve
  std::map<Rank, std::string> nodes;  // by rank, of those that are there: whose daemon serves it; empty: this one
  std::set<Rank> dirty;               // their protected memory may hold part of a restore that did not succeed

  std::uint32_t count(RankState state) const { return ranks_in[static_cast<std::size_t>(state)]; }
  std::uint32_t live() const { return count(RankState::kLive); }
  bool over() const { return live() == 0; }
  bool lost_any() const { return count(RankState::kLost) > 0; }  // nobody joins any more
  bool all_closed() const { return count(RankState::kClosed) == nranks; }
  bool fenced() const { return standing == Standing::kFenced; }
  bool pin_passed_over() const { return passed_over.contains(pin.dataset); }  // the next question moves it
  bool gone(Rank rank) const { return ranks[rank] == RankState::kLost || ranks[rank] == RankState::kClosed; }
};

// Ranks on several nodes have no cache in common, and no node has all of what several caches have in parts: the files
// of such a dataset are read on the prefix.
inline bool FilesAreReadOnPrefix(const Launch& launch, const Dataset& dataset) {
  return launch.elsewhere > 0 || dataset.over_nodes();
}

class Ledger {
 public:
  // Called once for each dataset that failed, after it was taken out of the ledger's lists.
  using OnFailed = std::function<void(const DatasetPtr& dataset, const std::string& why)>;

  explicit Ledger(OnFailed on_failed) : on_failed_(std::move(on_failed)) {}
  Ledger(const Ledger&) = delete;

  // --- Launches ---
  const Launch* newest() const { return launches_.empty() ? nullptr : &launches_.rbegin()->second; }
  const Launch* Find(LaunchId id) const;
  const std::map<LaunchId, Launch>& launches() const { return launches_; }
  // Of the last 64 that were entered since the daemon was started: does what it has made count, as the prefix says?
  bool KnowsThatCounts(LaunchId id, const std::string& mark) const;
  // No launch, or all ranks of the newest have gone.
  bool over() const { return newest() == nullptr || newest()->over(); }
  // Enters a launch; older ones are fenced and forgotten once they are over. `from_record`: read, not just made.
  const Launch& Enter(LaunchId id, std::string key, std::uint32_t nranks, std::string secret, bool from_record = false);
  // What else is known of one that was entered.
  struct Origin {
    bool ours = true;
    bool provisional = false;
    std::string maker = {}, mark = {};
    bool counts = false;  // what it has made; as the prefix says
  };
  void SetOrigin(const Launch& launch, Origin origin);
  // This daemon serves ranks of it. REQUIRES: it is not ours.
  void Followed(const Launch& launch);
  // A provisional one is made on the prefix now, under its number.
  void Confirmed(const Launch& launch) {
    Own(launch).provisional = false;
    Counts(launch);
  }
  // What of the prefix the launch may choose (Launch::bound).
  void SetBound(const Launch& launch, DatasetId bound, std::int64_t bound_set_us);
  enum class Joining : std::uint8_t { kJoin, kMakeNew, kBusy };
  // May a rank with this key join the newest launch, or is a new one needed? kInvalidArgument: another nranks.
  absl::StatusOr<Joining> Decide(const std::string& key, Rank rank, std::uint32_t nranks, bool takeover) const;
  void SessionLive(const Launch& launch, Rank rank);
  // A rank on another node has come back over a new link. What others have begun without it fails: it may have begun
  // it, too, and its daemon's word of that was lost.
  void CameBack(const Launch& launch, Rank rank);
  // Where the rank is, which is live: whose daemon serves it; empty: this one.
  void RankIsAt(const Launch& launch, Rank rank, const std::string& node) { Own(launch).nodes[rank] = node; }
  // So many ranks of it are served by other nodes' daemons.
  void SetElsewhere(const Launch& launch, std::uint32_t ranks) { Own(launch).elsewhere = ranks; }
  // The session ended. `closed`: by cairn_close. Fails datasets that can never be whole any more.
  void SessionEnded(const Launch& launch, Rank rank, bool closed);

  // --- A dataset is made ---
  struct BeginSpec {
    std::uint64_t step = 0;
    std::uint32_t attempt = 1;
    Dataset::Kind kind = {};
    std::uint64_t bytes = 0;  // this rank's, as planned
    std::int64_t now_us = 0;
    std::string user = {}, job = {};
    std::string name = {};  // Dataset::name
    AskedScheme scheme = {};
  };
  // The dataset that this begin joins, if it is there; null: a new one must be made (Create). An error: the dataset has
  // failed, or the rank has begun this attempt before.
  absl::StatusOr<DatasetPtr> FindForBegin(const Launch& launch, Rank rank, const BeginSpec& spec);
  DatasetPtr Create(const Launch& launch, DatasetId id, const BeginSpec& spec);
  // The rank has begun it; earlier ones that it has not begun fail. kAborted: the dataset itself has just failed
  // (kinds, names or schemes differ, variables disagree, a rank is gone), with why.
  absl::Status Begin(const Launch& launch, const DatasetPtr& dataset, Rank rank, const BeginSpec& spec,
                     const VariableList& variables);
  // The rank's bytes are with another node's daemon. After its begin.
  void IsElsewhere(const Dataset& dataset, Rank rank, const std::string& node);
  // Bytes of files that were not known at the begin.
  void FilesListed(const Dataset& dataset, Rank rank, std::uint64_t bytes);
  void Captured(const Dataset& dataset, Rank rank);
  void Stored(const Dataset& dataset, Rank rank, catalogue::Catalogue catalogue);
  void Completed(const Dataset& dataset);
  void Fail(DatasetId id, const std::string& why);

  // --- A dataset of a launch that has its home on another node: the rules are applied there ---
  struct FollowSpec {
    DatasetId id = 0;
    std::uint64_t ordinal = 0;
    BeginSpec spec;         // but for `bytes`
    bool foretold = false;  // Dataset::foretold; of `spec` step, attempt, name and scheme are known
  };
  DatasetPtr Follow(const Launch& launch, const FollowSpec& spec);
  // What was foretold the home has begun. REQUIRES: step, attempt, name and scheme are these.
  void HomeHasBegun(const Dataset& dataset, const FollowSpec& spec);
  void FollowBegin(const Dataset& dataset, Rank rank, std::uint64_t bytes);  // a rank that is here
  void Recorded(const Dataset& dataset) { Own(dataset).recorded = true; }
  void HomeLetsGo(const Dataset& dataset, bool may_leave, bool will_go);
  void HomeCompleted(const Dataset& dataset);  // all ranks' parts are stored, wherever they are

  // --- A dataset is known from disk ---
  // It is whole in cache or prefix. All its parts are stored; there are none if it is only on the prefix. One that no
  // launch has made, and that is older than a launch's with a lower id, is outdated.
  DatasetPtr Adopt(Dataset dataset);
  // What this node has noted of one that is in its cache (node_record.h).
  struct Noted {
    bool in_prefix = false;
    bool pinned = false;
    bool foreign = false;
    Standing standing = Standing::kCurrent;
    std::uint64_t ordinal = 0;
  };
  void AdoptNoted(const Dataset& dataset, const Noted& noted);
  void FoundInCache(const Dataset& dataset);  // known already, from the prefix
  // Another node's cache has it, whole, and it is being brought into this one. All its parts are stored, with their
  // catalogues. REQUIRES: it is not known.
  DatasetPtr ComesFromNode(Dataset dataset);
  void DidNotCome(const Dataset& dataset);  // nothing is said of it any more: that node may still have it
  // Other nodes' caches have it, in parts, and this one nothing of it. REQUIRES: it is not known.
  DatasetPtr IsOnNodes(Dataset dataset);
  // Another node's cache has this part of it. REQUIRES: it was not known who has it; the catalogue is sound.
  void PartFound(const Dataset& dataset, Rank rank, const std::string& node, catalogue::Catalogue catalogue);
  // That node's cache has nothing of it any more, or does not answer for it.
  void PartsLost(const Dataset& dataset, const std::string& node);
  // Nor has any node this part, which was known to be somewhere.
  void PartLost(const Dataset& dataset, Rank rank);
  // Where it is, which is elsewhere, it is damaged: that node's word for it does not count any more.
  void PartIsBad(const Dataset& dataset, Rank rank);
  void Described(const Dataset& dataset, const std::vector<catalogue::Catalogue>& catalogues);
  void CataloguesChanged(const Dataset& dataset);  // those of the prefix are to be read again
  // What was described, and is neither being read nor in the cache, is described anew if it is asked for.
  void ForgetUnreadParts();

  // --- Redundancy: what ranks keep for others of their sets (keeping.h) ---
  // This daemon is to see to it that the dataset becomes `redundant`, or not any more.
  void AwaitsRedundancy(const Dataset& dataset, bool awaits);
  // So many bytes of the cache are taken for what is made now, those that are kept already among them.
  void KeepBegan(const Dataset& dataset, std::uint64_t bytes);
  // The parts that are here keep what this cache's record says, which is sound.
  void KeptHere(const Dataset& dataset, const kept::Record& record);
  // What the parts here keep for sets older than these is not counted on any more. True: there was any.
  bool OlderSetsGo(const Dataset& dataset, const std::vector<kept::Set>& than);
  // So many sets of a rank here are counted on at most (redundancy_record.h: OneToGo), since one more is to come.
  void SetsHereAtMost(const Dataset& dataset, std::size_t count);
  // Wherever its part is, it keeps something for this set, of which it is a member; null: for none. REQUIRES: stored.
  void Keeps(const Dataset& dataset, Rank rank, std::shared_ptr<const kept::Set> set);
  void AllKeep(const Dataset& dataset, const std::vector<kept::Set>& sets);  // of these: all their members
  void HomeSaysRedundant(const Dataset& dataset);                            // REQUIRES: it is followed
  // This cache has none of its parts any more: some are damaged, but what others keep may be enough to make them anew.
  // REQUIRES: over nodes, in the cache.
  void OwnPartsLost(const Dataset& dataset);
  // No node had this part any more, and it was made anew of what the others keep, in that node's cache, or here
  // (empty). REQUIRES: it was not known who has it; the catalogue is sound.
  void Rebuilt(const Dataset& dataset, Rank rank, const std::string& node, catalogue::Catalogue catalogue);

  // --- It changes its place: the table above ---
  void InFolder(const Dataset& dataset);
  void FolderLeaves(const Dataset& dataset);
  void FolderLeft(const DatasetPtr& dataset);
  void FolderDamaged(const Dataset& dataset);
  void LeftCache(const Dataset& dataset, const std::string& why);
  void FolderGone(DatasetId id);  // nothing if it is not leaving
  void CacheDamaged(const Dataset& dataset, const std::string& why);
  void RefetchBegan(const Dataset& dataset);
  void Refetched(const Dataset& dataset);
  void RefetchFailed(const Dataset& dataset);
  void FlushBegan(const Dataset& dataset);
  void FlushEnded(const Dataset& dataset);
  void Committed(const Dataset& dataset);
  void SeenOnPrefix(const Dataset& dataset, bool by_cairn);    // sound, or not to be looked at now
  void ListedOnPrefix(const Dataset& dataset, bool by_cairn);  // the same, but nothing there can be used
  void NotOnPrefix(const Dataset& dataset);                    // nothing if it is not whole there
  void GaveWay(const Dataset& dataset, DatasetId to, const std::string& why);
  void RemovalBegan(const Dataset& dataset);
  void Removed(const Dataset& dataset);
  void RemovalFailed(const DatasetPtr& dataset);
  void PrefixDamaged(const Dataset& dataset);
  // A newer launch was made elsewhere before it counted; `there`: its files are whole on the prefix all the same.
  void Fenced(const Dataset& dataset, bool there);
  void IsAnothers(const Dataset& dataset);   // not of this prefix
  void CountsAgain(const Dataset& dataset);  // the prefix says so now: someone has added it, or taken the run back

  // --- What is to become of it ---
  void FlushDropped(const Dataset& dataset);
  void FlushAsked(const Dataset& dataset);    // someone waits for `prefix`: no dropped one is taken up again
  void FlushOrdered(const Dataset& dataset);  // by name: it goes after all
  void FlushCancelled(
      const Dataset& dataset);               // it is to be removed: nobody asks any more, and it is not flushed again
  void CameTooLate(const Dataset& dataset);  // for its names on the prefix
  void TakenOut(const Dataset& dataset);
  void IdTaken(const Dataset& dataset, bool history, const std::string& by = "");  // `by`: its name, if known
  void CameBack(const Dataset& dataset);
  void SetPinned(const Dataset& dataset, bool pinned);
  void Forget(DatasetId id, Gone gone);

  // --- Restores ---
  void ReadBegan(const Dataset& dataset);
  void ReadEnded(const Dataset& dataset);
  void CopyBegan(const Dataset& dataset);  // to the prefix, of what is here of a followed one
  void CopyEnded(const Dataset& dataset);
  void Restored(LaunchId launch, const Dataset& dataset);
  // This launch does without the dataset; its pin moves to the next older one. True: one that is not as old lacks parts
  // that may be made anew. Then the pin stays until the next question, and the caller lets them be looked for before.
  // Once: whoever says it again of the same dataset need not look again.
  bool PassOver(LaunchId launch, DatasetId id);
  // The rank's protected memory may hold part of a restore that did not succeed: checkpoints of its launch that lack
  // its bytes fail, and none is to begin until it is clean again: the rank has restored, has protected all of its
  // memory anew, or has gone. False: nothing new. Nothing if the launch is not known.
  bool MemoryDirty(LaunchId launch, Rank rank);
  bool MemoryClean(LaunchId launch, Rank rank);
  // Which ranks' memory is dirty, and what to do about it; empty: no rank's.
  std::string WhyDirty(LaunchId launch) const;

  // --- Questions ---
  DatasetPtr Get(DatasetId id) const;
  bool Has(const DatasetPtr& dataset) const { return Get(dataset->id) == dataset; }
  const Datasets& datasets() const { return datasets_; }
  // All but those at rest (dataset.h): what is done at each step goes by these, for a run may have left thousands on
  // the prefix. Good until the next event.
  const Datasets& InPlay() const;
  // Oldest first (age_order.h). Good until the next event.
  const std::vector<DatasetPtr>& ByAge() const;
  // The end of the same: the oldest one in play, and what is newer.
  std::span<const DatasetPtr> SinceOldestInPlay() const;
  const Gone* FindGone(DatasetId id) const;
  const std::map<DatasetId, Gone>& gone() const { return gone_; }
  absl::Status WhyFailed(const Dataset& dataset) const;

  // Datasets of earlier launches whose bytes are all in the daemon's hands, but which are not yet whole, may become the
  // newest to restart from: the launch's question for the latest waits for them, unless it is pinned already.
  bool LatestIsSettling(const Launch& launch) const;
  // What the launch restarts from, pinned by the first question; null: nothing.
  DatasetPtr PinLatest(const Launch& launch);
  // The newest restorable checkpoint below `below` (0: any); null: none.
  DatasetPtr NewestRestorable(DatasetId below = 0) const;
  // The same for a launch: without what it has been told to pass over, and within its bound.
  DatasetPtr NewestRestorableFor(const Launch& launch, DatasetId below = 0) const;
  // Would the launch choose it before all that is here, if it were here?
  bool WouldChoose(const Launch& launch, const Dataset& dataset) const;
  bool PinnedByLaunch(DatasetId id) const;
  // The launch's bound, if it still holds.
  DatasetId BoundOf(const Launch& launch) const;
  DatasetId last_restored() const { return last_restored_; }  // by the newest launch that restored one; 0: none

 private:
  static constexpr std::size_t kGoneMax = 4096;

  DatasetPtr BoundAt(DatasetId bound) const;
  bool LacksPartsSince(const Launch& launch, const DatasetPtr& older, DatasetId below) const;
  bool IsBeyond(const Launch& launch, DatasetId bound, const Dataset& dataset) const;
  Launch& Own(const Launch& launch) { return launches_.at(launch.id); }
  Dataset& Own(const Dataset& dataset);           // to be changed
  static void JudgeRedundancy(Dataset& dataset);  // by what its parts keep
  void Counts(const Launch& launch);
  void Know(const DatasetPtr& dataset);
  void Unknow(const DatasetPtr& dataset);
  void SetForeign(Dataset& dataset, bool foreign);
  void SetRank(Launch& launch, Rank rank, RankState state);
  void FailOpenWithout(const Launch& launch, Rank rank, DatasetId before, const std::string& why);
  void DropFromOpen(Launch& launch, const Dataset& dataset);
  void FailWithoutReturned(const Launch& launch);

  OnFailed on_failed_;
  std::map<LaunchId, Launch> launches_;
  std::map<LaunchId, std::string> counting_;  // marks of launches, as KnowsThatCounts
  Datasets datasets_;
  mutable AgeOrder by_age_;
  mutable Datasets in_play_;             // but for those
  mutable std::set<DatasetId> touched_;  // that may have changed since
  std::map<DatasetId, Gone> gone_;
  DatasetId last_restored_ = 0;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_LEDGER_H_
