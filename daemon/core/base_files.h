// Whose files a new dataset's files are written over; of differential checkpoints also what is known of their blocks,
// and what is distrusted. README.md, "Files that are written over". Strand only, but for Prepare.
#ifndef CAIRN_DAEMON_CORE_BASE_FILES_H_
#define CAIRN_DAEMON_CORE_BASE_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/data/block_digests.h"
#include "daemon/data/capture.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/ftiff/letter.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

class BaseFiles {
 public:
  // Removes the folder of one that has given its files; what it has kept for others may be of use to those to come.
  using RemoveFolder = std::function<void(DatasetId id, std::uint64_t kept_bytes, std::function<void()> then)>;
  BaseFiles(const Context& context, std::shared_ptr<CacheFolder> cache, Ledger& ledger, RemoveFolder remove_folder);
  BaseFiles(const BaseFiles&) = delete;

  ftiff::Letter LetterOfFiles() const;
  bool Differential() const;
  // Retired files alternate where extents cannot be shared.
  bool KeepsSpare() const { return LetterOfFiles() == ftiff::Letter::kF && !cache_->shares_extents(); }

  // --- A new dataset gets its bases ---
  // Files of `spare` are `to`'s. REQUIRES: it leaves the cache right now.
  void Give(const Dataset& spare, DatasetId to);
  // Where extents can be shared, from the newest one, which stays as it is.
  void Share(const Dataset& to);
  // What a pool makes ready, and what it has found. Blocks. First nobody believes in the base any more, durably; then
  // its files may be changed.
  struct Plan {
    DatasetId base = 0;
    std::uint64_t kept_bytes = 0;                  // by the base, for other ranks
    bool clone = false;                            // they share extents; else they are the base's no more
    bool compared = true;                          // false: all is written over
    std::vector<catalogue::Catalogue> catalogues;  // of the base, by rank
    std::map<Rank, std::shared_ptr<const BlockDigests>> digests;  // that are known
  };
  struct Ready {
    std::map<Rank, CaptureBase> files;
    std::vector<std::string> warnings;
  };
  std::optional<Plan> PlanOf(DatasetId to) const;
  static Ready Prepare(Disk& disk, CacheFolder& cache, const Plan& plan);
  void Prepared(DatasetId to, Ready ready);
  // A rank's, once; none: the file is a new one.
  std::optional<CaptureBase> Take(DatasetId to, Rank rank);
  // No capture of the dataset needs them any more: what was not taken goes.
  void End(DatasetId to);

  // --- What is known of files in the cache ---
  void Keep(DatasetId id, Rank rank, std::shared_ptr<const BlockDigests> digests);
  // Those of files that can be no base any more. After every change of the run.
  void Forget();
  // A file was not what its digests said, and others may have taken over what is wrong in it: from now on bases are
  // read and compared with their catalogues.
  void Distrust();
  // Whose files `to` shares, if any.
  DatasetId ClonedFrom(DatasetId to) const;

 private:
  struct Reuse {
    Plan plan;
    std::map<Rank, CaptureBase> files;  // ready for a capture
  };
  static void Distrust(Reuse& reuse);

  const Context& context_;
  const std::shared_ptr<CacheFolder> cache_;
  Ledger& ledger_;
  const RemoveFolder remove_folder_;
  std::map<DatasetId, Reuse> reuse_;  // by the new dataset, until it is whole or has failed
  std::map<DatasetId, std::map<Rank, std::shared_ptr<const BlockDigests>>> digests_;
  DatasetId distrusted_ = 0;  // captures of datasets up to this one may have built upon damage
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_BASE_FILES_H_
