// A dataset in the prefix says what it is: summary.scr. SCR specification, section 9.1.
#ifndef CAIRN_STORAGE_FORMAT_SCR_SUMMARY_H_
#define CAIRN_STORAGE_FORMAT_SCR_SUMMARY_H_

#include <absl/status/statusor.h>

#include "storage/format/kvtree/tree.h"
#include "storage/format/scr/descriptor.h"

namespace cairn::scr {

kvtree::Tree MakeSummary(const Descriptor& descriptor);

// The descriptor; `complete` only if summary and descriptor both say so.
//   kFailedPrecondition  VERSION is not 6, or not there
//   kDataLoss            no descriptor, or a bad field
absl::StatusOr<Descriptor> GetSummary(const kvtree::Tree& tree);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_SUMMARY_H_
