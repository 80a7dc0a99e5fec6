// Which BP5 directory a command line means: one on disk, the view of a dataset, or one that an application wrote.
#ifndef CAIRN_CLIENT_CLI_BP_PLACE_H_
#define CAIRN_CLIENT_CLI_BP_PLACE_H_

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/context.h"
#include "storage/base/ids.h"
#include "storage/file/bpdir/checked_source.h"
#include "storage/file/bpdir/directory.h"
#include "storage/file/bpdir/memory_source.h"
#include "storage/io/disk.h"

namespace cairn::cli {

struct BpPlace {
  std::string title;  // as people know it: the path, or "dataset 17 of /scratch/me/heat"
  std::string path;   // of the directory, absolute; empty: it is in memory
  std::shared_ptr<const bpdir::MemoryDirectory> memory;
  std::string root;  // with `memory`: its data lies below
  // What catalogues know of the bytes: of the files in `path`, or below `root`; null: nothing is compared.
  std::shared_ptr<const bpdir::KnownSums> sums;
  std::optional<DatasetId> dataset;
  std::string prefix;              // with `dataset`
  std::vector<std::string> rest;   // arguments behind those that say where
  std::vector<std::string> notes;  // what the user should know
};

// DIR …, or RUN DATASET [BP5-DIRECTORY] …: a directory with md.idx in it, or that file; else a run's. The dataset's
// view is made here from the catalogues, also of what is in this node's cache only; if not `check`, it is the one in
// the prefix, unless that is missing or damaged. Of a dataset of the application's own files: the BP5 directory in it,
// by its name if there are several. `check`: all that is read of the dataset is compared with its catalogues.
//   kNotFound            no such directory, run, dataset
//   kInvalidArgument     neither a BP5 directory nor a run's; no dataset was named, or none of several directories
//   kFailedPrecondition  the dataset's files are not BP5's
// Errors of the prefix, the daemon and the catalogues pass through. `disk` outlives the place.
absl::StatusOr<BpPlace> FindBpPlace(const Context& context, Disk& disk, const std::vector<std::string>& arguments,
                                    bool check);

// For what the metadata says: mapped, if the directory is closed.
absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenBp(Disk& disk, const BpPlace& place);
// For its data: nothing is mapped, so that the memory of whoever reads all of it stays bounded.
absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenBpData(Disk& disk, const BpPlace& place);
// Errors of records name the file in the directory: this adds which directory.
absl::Status AtPlace(const absl::Status& status, const BpPlace& place);
std::unique_ptr<bpdir::FileSource> BpFiles(Disk& disk, const BpPlace& place);

// What came of a command on a directory of which steps are missing (bpdir::Directory::ending): damage, whatever else.
// What is not in the answer is told to standard error.
absl::Status WithEnding(const absl::Status& status, const bpdir::Directory& directory);

inline constexpr const char* kNoCheckText = "Of a run's dataset: do not compare its bytes with the catalogues";

// "cairn: …" to standard error. The exit code of a command on BP5 directories: kInvalidArgument means that the command
// is wrong.
ExitCode ComplainOfBp(const absl::Status& status);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_PLACE_H_
