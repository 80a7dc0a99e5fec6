// What one run has in this node's cache and on its prefix, as the ledger is told of it: at the start, when the prefix
// is first opened, and at each new launch. README.md, "What the prefix' index says". Strand only, but for what blocks.
#ifndef CAIRN_DAEMON_CORE_INVENTORY_H_
#define CAIRN_DAEMON_CORE_INVENTORY_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/run_cache.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/node_record.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// What the cache holds of a run, with this node's record. Blocks. Errors as CacheFolder::Load; a record that cannot be
// read is a warning.
struct CacheContents {
  CacheLoad load;
  NodeNotes notes;
};
absl::StatusOr<CacheContents> LookAtCache(CacheFolder& cache);

// What a prefix holds, and SCR's own in the cache, with the catalogues of the newest of those that are not `known`.
// Blocks. Catalogues are read of those that a restart may want; a long run has many more datasets, whose catalogues are
// read when they are asked for.
struct PrefixLook {
  PrefixContents found;
  std::map<DatasetId, std::vector<catalogue::Catalogue>> catalogues;
  std::map<DatasetId, Prefix::Origin> origins;  // of those in the cache
  std::set<DatasetId> removed_by_user;          // of these, wherever they are
  // What SCR has written into this node's cache. Not whole: also what was taken out of the prefix' index.
  std::vector<ScrCached> scrs;
  std::vector<std::string> warnings;
};
// Which launch made a dataset of the cache, as it says itself.
struct CachedOrigin {
  DatasetId id = 0;
  LaunchId launch = 0;
  std::string mark;     // empty: release 0.1.0 made it
  bool of_path = true;  // without a mark: the cache was this path's
};
absl::StatusOr<PrefixLook> LookAtPrefix(Prefix& prefix, CacheFolder& folder, const std::set<DatasetId>& known,
                                        const std::vector<CachedOrigin>& cached = {});

class Inventory {
 public:
  struct Given {  // all borrowed
    const std::string& run_name;
    Ledger& ledger;
    DatasetIds& ids;
    PrefixGate& gate;
    NodeRecord& record;
    DatasetFolders& folders;
    RunCache& cache;
  };
  // `flushing`: the dataset is being flushed, or waits for that: what the index says of it is left alone.
  // `provisional`: the launch of this mark is not on the prefix yet.
  Inventory(const Context& context, const Given& given, std::function<bool(DatasetId)> flushing,
            std::function<bool(const std::string& mark)> provisional)
      : context_(context), given_(given), flushing_(std::move(flushing)), provisional_(std::move(provisional)) {}
  Inventory(const Inventory&) = delete;

  // --- What is there. A look's warnings are its taker's to tell ---
  void AdoptCache(CacheContents contents);
  // The first look at the prefix.
  void AdoptPrefix(const PrefixLook& look);
  bool prefix_adopted() const { return prefix_adopted_; }
  // What has come and gone since the prefix was last looked at; `had`: what was there when the look began. Our own
  // state wins over the index for datasets that we already track: a copy found damaged stays so, and what is being
  // removed does not come back.
  void AdoptSince(const PrefixLook& look, const std::set<DatasetId>& had);
  // Datasets that need not be read again, and those that were on the prefix when it was last looked at, or are being
  // marked FAILED there: the index may not say so yet.
  struct Known {
    std::set<DatasetId> known, had;
    std::vector<CachedOrigin> cached;
  };
  Known WhatIsKnown() const;
  std::vector<CachedOrigin> CachedOrigins() const;
  // This daemon has put it there, and knows so better than an older look.
  void CommittedHere(DatasetId id) { committed_here_.insert(id); }

  // May the launch restart from `chosen` (null: nothing)? kFailedPrecondition: SCR has written a newer checkpoint,
  // which no restore of Cairn's gives: the message names it, and what is to be done.
  absl::Status CheckNewest(const Launch& launch, const DatasetPtr& chosen) const;

  // --- What a new launch may choose (Launch::bound) ---
  DatasetId bound() const { return bound_; }
  std::int64_t bound_set_us() const { return bound_set_us_; }

  // --- Its catalogues ---
  // Reads those of a dataset that is only on the prefix, if they are not here: once, however many ranks ask.
  void Describe(const DatasetPtr& dataset, std::function<void(absl::Status)> then);

  // --- What SCR is told ---
  void MarkFailed(DatasetId id);
  // May the prefix be told of it now?
  bool MayRefuse() const { return prefix_adopted_ && given_.gate.writable() && given_.gate.usable(); }
  // The application has rejected it: it is FAILED there, for all copies, and leaves the cache if it was there. `then`
  // hears of that; it is OK also if the index does not have it. REQUIRES: MayRefuse.
  void Refuse(const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  // By this run's applications, or on the prefix when that was last looked at.
  bool WasRefused(DatasetId id) const { return given_.record.rejected().contains(id) || refused_.contains(id); }
  // By an application on another node: no restart here chooses it, and the prefix is told at the next look.
  void RejectedElsewhere(const DatasetPtr& dataset);
  void MarkFetched(DatasetId id);  // SCR notes each try to read a dataset from the prefix
  // What a restart of the launch would have chosen before `chosen`, had it been whole on the prefix, is not to be tried
  // by SCR either.
  void MarkUnusable(const Launch& launch, DatasetId chosen);

 private:
  void AdoptCached(DatasetId id, CachedDataset cached, bool foreign);
  static bool IsAnother(const Dataset& known, const scr::Descriptor& found);
  void TakeRules(const PrefixLook& look);
  void TakeScrs(std::vector<ScrCached> scrs);
  std::set<DatasetId> TakeNumbers(const PrefixContents& found);
  void AdoptOne(DatasetId id, const PrefixLook& look);
  DatasetPtr AdoptNew(DatasetId id, const CommittedDataset& found, const std::vector<catalogue::Catalogue>* catalogues);
  static bool IsOnlyCached(const Dataset& dataset);
  bool AdoptChange(DatasetId id, const PrefixLook& look, bool had);
  void AdoptOrigins(const PrefixLook& look);
  void LetGoOfRemoved(const PrefixLook& look);
  void AdoptFenced(const PrefixLook& look);
  bool IsOfAnotherPrefix(const DatasetPtr& dataset, const CommittedDataset& found);
  void TakenOut(const DatasetPtr& dataset, const PrefixContents& found);
  void GiveUp(const DatasetPtr& dataset, const std::string& why);
  void AdoptRejected(const PrefixLook& look, const std::set<DatasetId>& had);
  void IdTaken(const DatasetPtr& dataset, const PrefixContents& found, const scr::IndexEntry& by);
  void Mark(
      DatasetId id, absl::Status (Prefix::*mark)(DatasetId), std::function<void()> then = [] {});

  const Context& context_;
  const Given given_;
  const std::function<bool(DatasetId)> flushing_;
  const std::function<bool(const std::string& mark)> provisional_;
  bool prefix_adopted_ = false;
  DatasetId bound_ = 0;
  std::int64_t bound_set_us_ = 0;
  std::map<DatasetId, std::string> unusable_;  // SCR's own there that are not whole: why
  std::vector<ScrCached> scrs_;                // SCR's own in this cache, by number
  std::vector<scr::Descriptor> in_use_;        // SCR's own there, whose number is still in use here
  std::set<DatasetId> taken_out_;              // of the prefix' index, by someone else
  std::set<DatasetId> refused_;                // there, by the application
  std::set<DatasetId> committed_here_;
  std::set<DatasetId> marking_failed_;
  std::map<DatasetId, std::vector<std::function<void(absl::Status)>>> describing_;  // whom to tell
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_INVENTORY_H_
