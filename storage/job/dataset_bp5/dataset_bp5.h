// A dataset as BP5: where the directory is that shows it. That is, in this order,
//   1. its view in the prefix (ViewOnDisk);
//   2. of a checkpoint of variables: a view made in memory from its catalogues, those of the prefix or of a node's
//      cache (ViewInMemory);
//   3. of the application's own files: a BP5 directory among them (DirectoriesIn).
// For the reader's library and the command. Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_JOB_DATASET_BP5_DATASET_BP5_H_
#define CAIRN_STORAGE_JOB_DATASET_BP5_DATASET_BP5_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/bpdir/memory_source.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// The view that the prefix has of a dataset: its path. It is made after the commit and removed before the bytes: while
// it is there it shows what is committed. nullopt: there is none.
std::optional<std::string> ViewOnDisk(Disk& disk, const std::string& prefix, DatasetId id);

// A dataset by its catalogues, and where the files are that they name.
struct StoredDataset {
  DatasetId id = 0;
  std::string root;                              // the prefix, or the dataset's folder in a cache
  bool in_cache = false;                         // files have the names that they have in a cache
  std::vector<catalogue::Catalogue> catalogues;  // of the ranks that are here; not empty

  bool holds_files() const;  // the application's own; else variables
};

// Errors of Prefix::Catalogues, kNotFound among them.
absl::StatusOr<StoredDataset> DatasetInPrefix(Prefix& prefix, DatasetId id);

// The BP5 directories among the application's files: names below the prefix (empty: the root itself), and paths.
std::map<std::string, std::string> DirectoriesIn(const StoredDataset& dataset);

struct MadeView {
  std::shared_ptr<const bpdir::MemoryDirectory> directory;  // its data lies below `dataset.root`
  std::uint32_t ranks = 0, ranks_here = 0;                  // those that are not here have nothing in the view
};
// A view in memory. REQUIRES: !dataset.holds_files(). `title` names it in errors.
//   kDataLoss  the catalogues do not belong together, or a file that they name is damaged
// Errors of view::Complete and view::BuildView pass through.
absl::StatusOr<MadeView> ViewInMemory(Disk& disk, StoredDataset dataset, const std::string& title);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DATASET_BP5_DATASET_BP5_H_
