// What FTI's, SCR's and ADIOS2's own records say of the files that a scan has found: which sets are complete. A set of
// which they say nothing, or nothing that can be read, is as plain files are. Calls block. What is read is hostile.
#ifndef CAIRN_STORAGE_JOB_DRAIN_SETS_H_
#define CAIRN_STORAGE_JOB_DRAIN_SETS_H_

#include <string>

#include "storage/file/fti/execution.h"
#include "storage/io/disk.h"
#include "storage/job/drain/scan.h"

namespace cairn::drain {

// Are the files of all ranks that write there, by their names?
bool IsComplete(const fti::Topology& topology, const fti::Checkpoint& checkpoint);

// Sets `finished` and `order` of the items. `root`: of the scan, absolute.
//   FTI           a checkpoint with the files of all ranks that write
//   SCR's cache   a dataset's folder whose filemaps name files that are all there, in their sizes
//   SCR's prefix  a dataset whose summary says COMPLETE, and whose files are all there
//   BP5           a directory that its writer has closed
void AskSets(Disk& disk, const std::string& root, Scan& scan);

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_SETS_H_
