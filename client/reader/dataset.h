// A committed dataset of a run as a BP5 directory, whether its view is on disk or not. Blocks on disk.
#ifndef CAIRN_CLIENT_READER_DATASET_H_
#define CAIRN_CLIENT_READER_DATASET_H_

#include <absl/status/statusor.h>

#include <memory>

#include "storage/base/ids.h"
#include "storage/file/bpdir/directory.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::reader {

// Checkpoints of variables: the view in the prefix or, if that is missing or damaged, one made in memory from the
// catalogues. Datasets of files: the one BP5 directory among them.
//   kNotFound         no such dataset is committed
//   kInvalidArgument  files without a BP5 directory, or with several: the message names them
absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenDataset(Disk& disk, Prefix& prefix, DatasetId id);

}  // namespace cairn::reader

#endif  // CAIRN_CLIENT_READER_DATASET_H_
