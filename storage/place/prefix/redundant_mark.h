// .cairn/redundant.<run>: the mark of the folder that is redundant itself which this run has used first
// (storage/place/redundant/folder_mark.h), made once. By run: a copy of the prefix, which is a branch, begins anew.
// Calls block on disk. Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_REDUNDANT_MARK_H_
#define CAIRN_STORAGE_PLACE_PREFIX_REDUNDANT_MARK_H_

#include <absl/status/statusor.h>

#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"

namespace cairn::redundant_mark {

std::string PathOf(const std::string& prefix, const RunId& run);

//   kNotFound            the run has used none yet
//   kFailedPrecondition  of a newer program
//   kDataLoss            damaged, or another run's
absl::StatusOr<std::string> Read(Disk& disk, const std::string& prefix, const RunId& run);
// The one that is there; else this one, durable. Others as Read.
absl::StatusOr<std::string> Ensure(Disk& disk, const std::string& prefix, const RunId& run, const std::string& mark);

}  // namespace cairn::redundant_mark

#endif  // CAIRN_STORAGE_PLACE_PREFIX_REDUNDANT_MARK_H_
