// One run's datasets in this node's cache: which of them leave it, what is found damaged there, and what is fetched
// anew from the prefix. Strand only.
#ifndef CAIRN_DAEMON_CORE_RUN_CACHE_H_
#define CAIRN_DAEMON_CORE_RUN_CACHE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/asides.h"
#include "daemon/core/base_files.h"
#include "daemon/core/cache_room.h"
#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/fetch.h"
#include "daemon/core/image_store.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/prefix_watch.h"
#include "daemon/core/spares.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class RunCache {
 public:
  // How parts of a dataset over nodes left: removed; found to be damaged; or of no use without one that is.
  enum class Left { kRemoved, kDamaged, kUseless };
  struct Given {  // all borrowed
    const RunId& run;
    const std::string& run_name;
    std::shared_ptr<CacheFolder> cache;
    CacheRoom& room;
    ImageStore& images;
    Ledger& ledger;
    PrefixGate& gate;
    PrefixWatch& watch;
    NodeRecord& record;
    DatasetFolders& folders;
    BaseFiles& bases;
    std::function<bool(DatasetId)> may_flush;  // nothing is known to be in the way, if its flush is to come
    // Where the folder that is redundant itself has the dataset, and the lane of what waits for it. REQUIRES: it does.
    struct InFolder {
      Disk& disk;
      std::string path, lane;
    };
    std::function<InFolder(DatasetId)> in_folder;
  };
  struct Reports {
    std::function<void()> on_left;  // something has left the cache; not from deep within a call
    // The dataset's parts in this cache go, or are damaged: of one that has others elsewhere, or is followed.
    std::function<void(const Dataset& dataset, Left how, const std::string& why)> on_parts_left;
    // Of one that is followed: this rank's part, which was here, is damaged; others of it stay.
    std::function<void(const Dataset& dataset, Rank rank, const std::string& why)> on_part_damaged;
    std::function<void()> on_parts_lost;  // some have to be made anew of what others keep
    std::function<void()> look_again;     // the policy is to be applied again: time has passed
  };
  RunCache(const Context& context, const Given& given, Reports reports);
  RunCache(const RunCache&) = delete;

  const Ledger& ledger() const { return given_.ledger; }
  const std::string& run_name() const { return given_.run_name; }
  CacheFolder& folder() { return *given_.cache; }
  const std::shared_ptr<CacheFolder>& shared_folder() const { return given_.cache; }
  Asides& asides() { return asides_; }
  const Asides& asides() const { return asides_; }
  std::uint64_t BytesUsed() const;  // CacheRoom's
  std::uint64_t BytesOccupied() const;
  // Not needed any more. Those of memory stay while checkpoints are on their way, to be written over.
  std::vector<DatasetId> BeyondKeep() const;
  std::uint64_t bytes_max() const { return given_.room.bytes_max(); }
  std::uint64_t limit() const { return given_.room.limit(); }

  // --- Room for what is to come ---
  // Which dataset's files the next checkpoint of memory may have; null: nobody's.
  DatasetPtr SpareFor(std::uint64_t rank_bytes, std::uint32_t nranks) const;
  absl::StatusOr<CacheRoom::Room> FindRoom(std::uint64_t bytes, const DatasetPtr& spare = nullptr) {
    return given_.room.Find(*this, bytes, spare);
  }
  absl::Status Reserve(std::uint64_t bytes, const DatasetPtr& spare = nullptr) {
    return given_.room.Reserve(*this, bytes, spare);
  }
  void WhenRoomChanges(std::function<void()> then) { given_.room.WhenChanged(std::move(then)); }
  bool MayFlush(DatasetId id) const { return given_.may_flush(id); }
  // As if the spare was evicted, but its files stay where they are until dataset `to` is through with them.
  void GiveFiles(const DatasetPtr& spare, DatasetId to);
  // Of one that has given its files, and has left: later redundancy files may be written over what it kept.
  void RemoveFolder(DatasetId id, std::uint64_t kept_bytes, std::function<void()> then);

  // --- Out of it ---
  // Not in the cache any more, by what an eviction before it has set free: nothing.
  void Evict(const DatasetPtr& dataset, const std::string& why) { Evict(dataset, why, /*spares_max=*/0); }
  // The same, of one that newer ones have superseded: later redundancy files may be written over what it kept.
  void EvictOlder(const DatasetPtr& dataset, const std::string& why) {
    Evict(dataset, why, dataset ? dataset->kept_bytes : 0);
  }
  // For room that something else needs. Answers how much of it, at most `spares_max`, later redundancy files are to be
  // written over.
  std::uint64_t GiveRoom(const DatasetPtr& dataset, std::uint64_t spares_max);
  Spares& spares() { return spares_; }
  // Of a run that was lost for longer than cache.grace: all that nobody has pinned or reads, oldest first.
  std::vector<DatasetPtr> Forgettable() const;
  // It could not give enough room: is its prefix still there?
  void AskWhetherLost();
  // What would free the place of a dataset that stays; "": that it comes to the prefix.
  std::string WhatFrees() const;
  // The same, but its bytes are kept: its number is another dataset's now.
  void PutAside(const DatasetPtr& dataset, const std::string& why);
  // What cache.keep and cache.linger let go. After every change of the run.
  void ApplyPolicy();
  // Its copy was found to be damaged: it goes aside, and nothing is built upon it. `file`: in the dataset's folder.
  void FoundDamaged(const DatasetPtr& dataset, const std::string& file, const absl::Status& why);
  // Of a dataset over nodes: a part of it, here or elsewhere, was found to be damaged, so that the others are of no use
  // to a restart. Those that are here go aside, other nodes are told.
  void GiveUpParts(const DatasetPtr& dataset, const std::string& why);
  // Of a dataset over nodes: a part of it here is damaged, and others may keep enough to make it anew. All that is here
  // of it goes aside.
  void LoseParts(const DatasetPtr& dataset, const std::string& why);
  // The same, of one rank: other ranks' parts stay, and what they keep.
  void LosePart(const DatasetPtr& dataset, Rank rank, const std::string& why);
  // A part on another node was found to be damaged by what read it there. True: others may keep enough to make it anew.
  bool MakeAnew(const DatasetPtr& dataset, const std::string& file, const std::string& why);
  // The same, for one file of a dataset that a restore is reading: its place changes when that has ended.
  void SetAside(const Dataset& dataset, const std::string& file, const std::string& why);

  // --- Into it again ---
  // What was found damaged is fetched anew once nobody reads it: noted here, done by RefetchNoted, which each of its
  // readers calls at its end.
  void NoteForRefetch(DatasetId id) { to_refetch_.insert(id); }
  void RefetchNoted(const DatasetPtr& dataset, std::function<void()> then);
  // What the cache has of the dataset goes aside, or, if there is no room for both, is removed; then it is fetched, all
  // ranks, each byte verified, from the prefix, or else from the folder that is redundant itself. `then` runs on the
  // strand, not within this call. A client waits for it. REQUIRES: described, and one of these is in reach.
  using Then = std::function<void(const FetchResult&)>;
  void Refetch(const DatasetPtr& dataset, Then then) { Refetch(dataset, /*waited_for=*/true, std::move(then)); }

  // SCR's own copies that lie here: nothing is fetched under their numbers.
  void ScrsAre(std::set<DatasetId> ids) { scrs_ = std::move(ids); }
  bool HoldsScrs(DatasetId id) const { return scrs_.contains(id); }

  void Stop() {
    fetching_.stop = true;
    asides_.Stop();
  }

 private:
  std::uint64_t Evict(const DatasetPtr& dataset, const std::string& why, std::uint64_t spares_max);
  bool LiesHereAlone(const Dataset& dataset, Rank rank) const;
  void Leave(const DatasetPtr& dataset, const std::string& why);
  void SetAsideWhole(DatasetId id, CacheFolder::Why why);
  // What becomes of the damaged copy in a dataset's place, when that is fetched anew.
  enum class DamagedCopy : std::uint8_t { kStays, kGoes };
  // It stays if there is room for both, and nothing whole goes for that but what is beyond cache.keep.
  absl::StatusOr<DamagedCopy> ReserveForRefetch(const DatasetPtr& dataset);
  void Refetch(const DatasetPtr& dataset, bool waited_for, Then then);
  void ClearPlace(const DatasetPtr& dataset, DamagedCopy copy);
  void Fetch(const DatasetPtr& dataset);
  bool ComesFromFolder(const Dataset& dataset) const;
  void Fetched(const DatasetPtr& dataset, const FetchResult& refetched);
  void RefetchEnded(DatasetId id, const FetchResult& refetched);
  std::size_t SparesWanted() const;
  std::size_t SparesKept() const;  // of these, whatever is on its way
  void ApplyLinger();

  const Context& context_;
  const Given given_;
  const Reports reports_;
  Asides asides_;
  Spares spares_;
  std::optional<SteadyTime> idle_since_;  // no sessions
  std::set<DatasetId> to_refetch_;
  std::set<DatasetId> scrs_;
  struct Refetching {
    std::vector<Then> tell;
    bool waited_for = false;
  };
  std::map<DatasetId, Refetching> refetching_;
  // Of all of them together: while a client waits for one of them, none gives way to what others capture.
  TransferProgress fetching_;
  Throttle throttle_{0, context_.transfers->background()};
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RUN_CACHE_H_
