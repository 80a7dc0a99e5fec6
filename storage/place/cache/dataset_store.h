// Where a dataset's files are put while it is written, and the records that make it whole there: the node's cache
// (CacheFolder) or, for what is too large for that, the prefix itself (storage/place/publish/bypass.h). All calls
// block: I/O pool. Thread-safe.
#ifndef CAIRN_STORAGE_PLACE_CACHE_DATASET_STORE_H_
#define CAIRN_STORAGE_PLACE_CACHE_DATASET_STORE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <span>
#include <string>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/descriptor.h"
#include "storage/io/disk.h"

namespace cairn {

class DatasetStore {
 public:
  virtual ~DatasetStore() = default;

  virtual Disk& disk() = 0;  // that its paths are on

  // Makes the dataset's directory; syncs nothing. The descriptor needs id, name, launch and ranks. kAlreadyExists:
  // begun before.
  virtual absl::Status Begin(const scr::Descriptor& descriptor) = 0;

  // A rank's files of protected memory: `work_path` is complete and synced (empty: the rank has no variables and no
  // file). Renames it to its catalogue's name, writes the rank's records. OK: the rank is whole there. An error is
  // final for the dataset's files: remove it.
  //   kInvalidArgument     the catalogue is not sound, or not of this run and dataset
  //   kFailedPrecondition  the dataset is not open, or the file's size is not the catalogue's
  //   kAlreadyExists       the rank is committed
  virtual absl::Status CommitRank(const catalogue::Catalogue& catalogue, const std::string& work_path) = 0;

  // The same for several ranks of one dataset, where it can be with one wait for the disk. The first error; then some
  // of them may be whole.
  struct Part {
    catalogue::Catalogue catalogue;
    std::string work_path;
  };
  virtual absl::Status CommitRanks(std::span<const Part> parts) = 0;

  // The application's own files: already synced in place under the names in the catalogue.
  virtual absl::Status CommitRankFiles(const catalogue::Catalogue& catalogue) = 0;

  // Just those ranks are committed that the descriptor says lie here (Descriptor::held): kFailedPrecondition. OK: the
  // dataset is whole here, or as much of it as is this node's. FILES and SIZE are counted here, the catalogues with
  // them, as SCR would.
  virtual absl::Status Complete(const scr::Descriptor& descriptor) = 0;

  // First what makes it whole, synced, then the bytes. Not there: OK.
  virtual absl::Status Remove(DatasetId id) = 0;

  // Work name for a rank's checkpoint file, in the dataset's directory.
  virtual std::string WorkPath(DatasetId id, Rank rank) const = 0;
  // Where the application's file `name` (normalized) lies; makes its directories. kNotFound: no such dataset.
  virtual absl::StatusOr<std::string> RouteFile(DatasetId id, const std::string& name) = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_DATASET_STORE_H_
