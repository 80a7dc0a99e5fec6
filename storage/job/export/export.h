// Writes a dataset of a run's prefix as an execution of FTI that FTI restarts from: what `cairn export --fti` does once
// its arguments are understood. Over a Disk. Calls block on disk.
#ifndef CAIRN_STORAGE_JOB_EXPORT_EXPORT_H_
#define CAIRN_STORAGE_JOB_EXPORT_EXPORT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/file/fti/execution.h"
#include "storage/io/disk.h"
#include "storage/job/export/protect_order.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

struct ExportRequest {
  DatasetId dataset = 0;    // 0: the newest checkpoint that Cairn committed
  std::string folder = {};  // absolute; not there, or empty
  fti::Level level = fti::Level::kGlobal;
  ftiff::Letter letter = ftiff::Letter::kF;
  bool keep_containers = false;  // those of Cairn's file; else one container a variable, as FTI's own first checkpoint
  std::uint32_t node_size = 1;   // FTI's processes a node, heads included
  std::uint32_t group_size = 1;  // nodes a group
  bool heads = false;
  std::optional<std::int32_t> checkpoint = {};  // FTI's id; absent: the step if it can be one, else the dataset's id
};

struct Exported {
  DatasetId dataset = 0;
  std::uint64_t step = 0;
  std::int32_t checkpoint = 0;
  std::string execution;
  fti::Topology topology;
  std::uint32_t application_ranks = 0;
  std::uint64_t bytes = 0;           // of the variables
  std::int32_t variable_id_max = 0;  // FTI refuses ids above its max_var_id
  // Layout A: the application must protect its variables in this order, which is that of the dataset's own launch.
  std::vector<ProtectedVariable> protect_order = {};
};

// Every byte that goes out was verified: chunk hashes and the catalogue's checksums. Values and arrays become plain
// variables. The prefix is only read.
//   kNotFound            no such dataset is committed there, or none at all
//   kFailedPrecondition  it holds the application's own files, or is SCR's; or a rank has no variables, without which
//                        FTI has no file; or, in layout A, the ranks' orders of their variables contradict each other
//   kInvalidArgument     nodes, groups, ids that do not fit, as fti::Write
//   kAlreadyExists       the folder is not empty
//   kDataLoss            a file of the dataset is damaged: the message names it and the place
absl::StatusOr<Exported> ExportDataset(Disk& disk, Prefix& prefix, const ExportRequest& request);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_EXPORT_EXPORT_H_
