// A committed dataset of a run as a BP5 directory, whether its view is on disk or not. Blocks on disk.
#ifndef CAIRN_CLIENT_READER_DATASET_H_
#define CAIRN_CLIENT_READER_DATASET_H_

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/file/bpdir/directory.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::reader {

struct OpenedDataset {
  std::unique_ptr<bpdir::Directory> directory;
  std::vector<std::string> notes;  // what people should know
};

// Checkpoints of variables: a view made in memory from the catalogues; if not `check`, the one in the prefix, unless
// that is missing or damaged. Datasets of files: the one BP5 directory among them. `check`: all that is read is
// compared with the catalogues.
//   kNotFound         no such dataset is committed
//   kInvalidArgument  files without a BP5 directory, or with several: the message names them
absl::StatusOr<OpenedDataset> OpenDataset(Disk& disk, Prefix& prefix, DatasetId id, bool check);

}  // namespace cairn::reader

#endif  // CAIRN_CLIENT_READER_DATASET_H_
