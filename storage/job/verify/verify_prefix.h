// The part of `verify` that checks a run's prefix: index, records, catalogues, every byte of its datasets, their views.
// Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_VERIFY_VERIFY_PREFIX_H_
#define CAIRN_STORAGE_JOB_VERIFY_VERIFY_PREFIX_H_

#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/job/verify/finding.h"
#include "storage/job/verify/verify_files.h"

namespace cairn::verify {

// All datasets that are committed in the prefix `path`, then those that no restart uses any more; `wanted` not 0: only
// that one. Each damaged file or record is a finding of its own; a dataset of which all is right is one.
void VerifyPrefix(Disk& disk, const std::string& path, DatasetId wanted, const Report& report);

// A directory: a prefix; else files in it that have FTI's names, by `files`. kInvalidArgument: a BP5 directory.
void VerifyDirectory(Disk& disk, const std::string& path, DatasetId wanted, FileVerifier& files, const Report& report);

}  // namespace cairn::verify

#endif  // CAIRN_STORAGE_JOB_VERIFY_VERIFY_PREFIX_H_
