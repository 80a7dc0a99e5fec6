// Where one run's new datasets are written: into the cache, or past it straight to the prefix
// (storage/place/publish/bypass.h), and which of the two. README.md, "Past the cache". Strand only.
#ifndef CAIRN_DAEMON_CORE_STORES_H_
#define CAIRN_DAEMON_CORE_STORES_H_

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/core/cache_room.h"
#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/node_record.h"
#include "daemon/core/prefix_gate.h"
#include "daemon/core/removals.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/dataset_store.h"
#include "storage/place/publish/bypass.h"

namespace cairn {

class Stores {
 public:
  Stores(const Context& context, std::string run_name, std::shared_ptr<CacheFolder> cache, const CacheRoom& room,
         const Ledger& ledger, PrefixGate& gate, NodeRecord& record, Removals& removals,
         std::function<bool()> prefix_hangs);
  Stores(const Stores&) = delete;

  // --- Which of the two ---
  bool MayBypass() const { return context_.config.cache.bypass && gate_.prefix() && !prefix_hangs_(); }
  // Is the dataset that begins so larger than the whole cache, as far as can be told?
  // What all ranks of a checkpoint will have together: as the last one of this launch, else as if they were all alike.
  std::uint64_t Planned(const Launch& launch, Rank rank, const Ledger::BeginSpec& spec) const;
  bool TooLarge(const Launch& launch, Rank rank, const Ledger::BeginSpec& spec) const;
  // It turned out to be larger than the cache, or a dataset of files has so many bytes: the next one is judged by that.
  void Outgrown(std::uint32_t nranks) { outgrown_ = nranks; }
  void FilesWere(std::uint64_t bytes) { last_files_bytes_ = bytes; }

  // --- A dataset's own ---
  std::shared_ptr<DatasetStore> Of(const Dataset& dataset) const;
  Disk& DiskOf(const Dataset& dataset) const;
  // Where its captures wait for that disk.
  Waiting WhereCapturesWait(const Dataset& dataset) const {
    return dataset.kind.past_cache ? context_.FarAt(gate_.path()) : nullptr;
  }
  // Runs `work` where it may wait for the dataset's disk.
  template <typename Work, typename Then>
  void Blocking(const Dataset& dataset, Work work, Then then) const {
    dataset.kind.past_cache ? context_.OnPrefix(gate_.path(), std::move(work), std::move(then))
                            : context_.OnCache(std::move(work), std::move(then));
  }

  // --- Past the cache ---
  void Entered(const Dataset& dataset);  // it was just created
  // Its folder on the prefix. First this node's record says whom to take away after a crash. `then` runs later.
  void Begin(const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  // All ranks of the dataset are stored: makes it whole where it is, or what is here of it. What is past the cache is
  // published, and so waits for others that change the prefix. `then` runs later.
  void Complete(const DatasetPtr& dataset, std::function<void(absl::Status)> then);
  void Completed(const Dataset& dataset);
  bool Writes(DatasetId id) const { return unfinished_.contains(id); }  // until it is complete or removed
  // It failed, and nothing writes to it any more.
  void Remove(DatasetId id);
  // Datasets may have given way to what was completed, or to what then failed.
  void TellWithdrawn();

 private:
  const Context& context_;
  const std::string run_name_;
  const std::shared_ptr<CacheFolder> cache_;
  const CacheRoom& room_;
  const Ledger& ledger_;
  PrefixGate& gate_;
  NodeRecord& record_;
  Removals& removals_;
  const std::function<bool()> prefix_hangs_;
  std::shared_ptr<Bypass> bypass_;  // made when the first dataset wants it
  std::shared_ptr<Prefix> bypass_of_;
  std::set<DatasetId> unfinished_;
  std::uint32_t outgrown_ = 0;                     // a checkpoint of so many ranks turned out larger than the cache
  std::optional<std::uint64_t> last_files_bytes_;  // of the last dataset of files
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_STORES_H_
