// How two checkpoint files of FTI-FF differ, and what of each is damaged. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_DIFF_DIFF_H_
#define CAIRN_STORAGE_JOB_DIFF_DIFF_H_

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "storage/file/known/known_file.h"
#include "storage/format/ftiff/compare.h"
#include "storage/io/disk.h"

namespace cairn {

struct SideOfDiff {
  std::string path;
  CheckpointFile file;
  std::vector<std::string> damage;  // empty: every byte is as its checksums say
};
// Reads all of it. Damaged data is no error: what can be read is compared nevertheless. Errors of OpenCheckpointFile
// pass through. `disk` outlives the side.
absl::StatusOr<SideOfDiff> OpenSideOfDiff(Disk& disk, const std::string& path);

// Reads both whole. Errors of the disk pass through.
absl::StatusOr<ftiff::FileDiff> Compare(const SideOfDiff& a, const SideOfDiff& b);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_DIFF_DIFF_H_
