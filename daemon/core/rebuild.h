// Parts of a dataset that no node has any more, made anew in this cache of what the others of their redundancy sets
// keep. For a pool: blocks.
#ifndef CAIRN_DAEMON_CORE_REBUILD_H_
#define CAIRN_DAEMON_CORE_REBUILD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

struct LostParts {
  std::shared_ptr<CacheFolder> cache;
  scr::Descriptor descriptor;  // as the dataset was begun; `held` says nothing
  std::map<Rank, std::vector<kept::Set>> lost;  // by rank the sets to be tried, one after the other: never two at once
  std::set<Rank> here;                              // whose parts are in this cache; none: it has no folder there
  std::map<Rank, std::shared_ptr<Disk>> elsewhere;  // the run's files in another node's cache, that has this rank's
};

// The lost ranks' catalogues, rising, made anew and checked.
//   kDataLoss  too much is lost, or damaged, to make them: names it
absl::StatusOr<std::vector<catalogue::Catalogue>> DescribeLost(const LostParts& parts, TransferProgress& progress);

// Brings these ranks' files into the cache, each byte verified; what of the others is found to be bad is left out. OK:
// the cache notes them, durably, beside those of `here`; answered is by which set each was made. After an error it has
// what it had before.
absl::StatusOr<std::map<Rank, kept::Set>> RebuildLost(const LostParts& parts,
                                                      const std::vector<catalogue::Catalogue>& catalogues,
                                                      TransferProgress& progress);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_REBUILD_H_
