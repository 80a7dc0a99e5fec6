// The record by which a dataset counts in the folder that is redundant itself, as a file in the dataset's folder:
// .scr/whole.cairn, framed (storage/format/framed/framed.h) with the magic "CAIRNWHL" and version 1. It is made once,
// when all parts are there. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_REDUNDANT_WHOLE_RECORD_H_
#define CAIRN_STORAGE_PLACE_REDUNDANT_WHOLE_RECORD_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "proto/redundancy.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/descriptor.h"
#include "storage/io/disk.h"

namespace cairn {

// Is it sound, and of this run and dataset? kInvalidArgument naming the field. Pure.
absl::Status CheckWhole(const kept::Whole& record, const RunId& run, DatasetId dataset);
// What the catalogues of its ranks have to agree with. REQUIRES: CheckWhole.
scr::Descriptor DescriptorOf(const kept::Whole& record);

// `folder`: the dataset's.
//   kNotFound  there is none: the dataset is not whole there
//   kDataLoss  damaged, not sound, of another run or dataset, or newer than this: names file and field
//   others     the disk's
absl::StatusOr<kept::Whole> ReadWholeRecord(Disk& disk, const std::string& folder, const RunId& run, DatasetId dataset);
// Durable. One that is there and says the same is as good.
//   kFailedPrecondition  another one is there
absl::Status MakeWholeRecord(Disk& disk, const std::string& folder, const RunId& run, const kept::Whole& record);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_REDUNDANT_WHOLE_RECORD_H_
