// Brings a dataset into the cache from elsewhere: the prefix, or another node's cache. For a pool: blocks.
#ifndef CAIRN_DAEMON_CORE_FETCH_H_
#define CAIRN_DAEMON_CORE_FETCH_H_

#include <absl/status/status.h>

#include <functional>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {

// How it went to make a dataset anew in the cache.
struct FetchResult {
  absl::Status status;
  bool source_damaged = false;  // the copy of `rank` there
  Rank rank = 0;
};

struct FetchFrom {
  Disk& disk;
  std::function<std::string(const catalogue::FileEntry& file)> path_of;  // there
};

// One rank's part, each byte verified on the way; committed. REQUIRES: the dataset is open in the cache.
// `source_damaged`: what is there is.
absl::Status FetchRank(const FetchFrom& from, CacheFolder& cache, const catalogue::Catalogue& catalogue,
                       Throttle& throttle, TransferProgress& progress, bool* source_damaged);

// All ranks, each byte verified on the way. The dataset is whole in `cache` then; after an error nothing of it is
// there, but with kAlreadyExists what was there before.
FetchResult FetchDataset(const FetchFrom& from, CacheFolder& cache, const std::vector<catalogue::Catalogue>& catalogues,
                         const scr::Descriptor& begun, const scr::Descriptor& complete, Throttle& throttle,
                         TransferProgress& progress);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FETCH_H_
