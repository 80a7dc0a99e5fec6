// One file of a dataset of SCR's, as it becomes one of a run's. Used by adopt_scr.cc only.
#ifndef CAIRN_STORAGE_JOB_ADOPT_SCR_FILE_H_
#define CAIRN_STORAGE_JOB_ADOPT_SCR_FILE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>

#include "proto/catalogue.pb.h"
#include "storage/io/disk.h"
#include "storage/job/adopt/scr_recover.h"
#include "storage/job/launch/own_launch.h"

namespace cairn {

// To the new file `to`, synced, with modes and times as META has them; fills `entry`. `launch` (may be null) is told
// that work goes on.
//   kFailedPrecondition  it changed while it was copied
absl::Status CopyScrFile(Disk& disk, const ScrFile& from, const std::string& to, OwnLaunch* launch,
                         catalogue::FileEntry* entry);

// It is where it is to be: an empty file waits in its stead, so that nobody takes it back.
//   kFailedPrecondition  it changed while it was looked at
absl::StatusOr<FileInfo> KeepScrFile(Disk& disk, const ScrFile& from, const std::string& staged,
                                     catalogue::FileEntry* entry);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_SCR_FILE_H_
