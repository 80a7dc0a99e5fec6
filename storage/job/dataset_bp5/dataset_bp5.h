// A dataset as BP5: which directory shows it, and what is known of its bytes. Who wants them compared with the
// catalogues (the rule) takes
//   1. of a checkpoint of variables: a view made in memory from its catalogues, those of the prefix or of a node's
//      cache (ViewInMemory), since nothing else says whether the metadata of the one on disk is as it was written;
//   2. of the application's own files: a BP5 directory among them (DirectoriesIn), with SumsIn.
// Who does not takes the view in the prefix, which needs no catalogue, as long as it is a view at all (OpenView).
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
#include "storage/file/bpdir/checked_source.h"
#include "storage/file/bpdir/directory.h"
#include "storage/file/bpdir/memory_source.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// The view that the prefix has of a dataset: its path. It is made after the commit and removed before the bytes: while
// it is there it shows what is committed. nullopt: there is none.
std::optional<std::string> ViewOnDisk(Disk& disk, const std::string& prefix, DatasetId id);

// Opens a view as it is. kDataLoss: damaged, as far as its own files tell; a view has one step, and ends behind it.
absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenView(const std::string& path);
// For people, of a view on disk in place of which one is made in memory.
std::string NoteOfDamagedView(const absl::Status& damage);

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
// What is known of the files of the one called `name`.
std::shared_ptr<const bpdir::KnownSums> SumsIn(const StoredDataset& dataset, const std::string& name);

struct MadeView {
  std::shared_ptr<const bpdir::MemoryDirectory> directory;  // its data lies below `dataset.root`
  std::shared_ptr<const bpdir::KnownSums> sums;             // by names below `dataset.root`
  std::uint32_t ranks = 0, ranks_here = 0;                  // those that are not here have nothing in the view
  absl::Status on_disk;  // kDataLoss: the view that the prefix has of it is another one, or damaged
};
// A view in memory. REQUIRES: !dataset.holds_files(). `title` names it in errors.
//   kDataLoss  the catalogues do not belong together, or a file that they name is damaged
// Errors of view::Complete and view::BuildView pass through.
absl::StatusOr<MadeView> ViewInMemory(Disk& disk, StoredDataset dataset, const std::string& title);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DATASET_BP5_DATASET_BP5_H_
