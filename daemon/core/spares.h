// One run's redundancy files that later ones are written over (storage/place/cache/spare_files.h): of one dataset that
// has left the cache, while its launch goes on. They count as used, and go as soon as their room is needed. Strand
// only.
#ifndef CAIRN_DAEMON_CORE_SPARES_H_
#define CAIRN_DAEMON_CORE_SPARES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/ledger.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/spare_files.h"

namespace cairn {

class Spares {
 public:
  // All is borrowed.
  Spares(const Context& context, std::shared_ptr<CacheFolder> cache, const Ledger& ledger, DatasetFolders& folders)
      : context_(context), cache_(std::move(cache)), ledger_(ledger), folders_(folders) {}
  Spares(const Spares&) = delete;

  // Those that are on their way count as planned.
  std::uint64_t bytes() const { return bytes_; }

  // Nobody counts on the dataset being in the cache any more: its folder goes, but for what is of use here, if there is
  // nothing yet, and of at most `bytes_max`. Answers how much that may be. `then` runs when the folder has gone.
  std::uint64_t RemoveFolder(DatasetId id, std::uint64_t bytes_max, std::function<void()> then);
  // They are the caller's: MakeKept removes what it does not use.
  std::vector<SpareFile> Take();
  // They go, as do those that are on their way.
  void Drop() { Remove(Take()); }
  // Those that were taken go, unused.
  void Remove(std::vector<SpareFile> spares);
  // No launch is left that would need them: they go. After every change of the run.
  void Update() {
    if (bytes_ > 0 && ledger_.over()) Drop();
  }

 private:
  void Arrived(std::uint64_t take, std::uint64_t planned, std::vector<SpareFile> files);

  const Context& context_;
  const std::shared_ptr<CacheFolder> cache_;
  const Ledger& ledger_;
  DatasetFolders& folders_;
  std::vector<SpareFile> files_;
  std::uint64_t bytes_ = 0;
  std::uint64_t takes_ = 0;  // so often they were taken: what arrives later is late
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_SPARES_H_
