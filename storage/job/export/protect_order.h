// The order in which an application of FTI 1.1 has to protect its variables: that release finds them by their place in
// it. Pure.
#ifndef CAIRN_STORAGE_JOB_EXPORT_PROTECT_ORDER_H_
#define CAIRN_STORAGE_JOB_EXPORT_PROTECT_ORDER_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"

namespace cairn {

struct ProtectedVariable {
  std::int32_t id = 0;
  std::string name;  // empty: a plain variable, which has none
  friend bool operator==(const ProtectedVariable&, const ProtectedVariable&) = default;
};

// All variables of all ranks, by rank in `catalogues`, in one order in which each rank's own stand as it had registered
// them when it wrote the dataset. A rank that does not have all of them leaves the others out.
//   kFailedPrecondition  the ranks' orders contradict each other; the message names ranks and variables
absl::StatusOr<std::vector<ProtectedVariable>> ProtectOrder(const std::vector<catalogue::Catalogue>& catalogues);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_EXPORT_PROTECT_ORDER_H_
