#include "storage/job/run_arbiter/run_arbiter.h"

#include <memory>

#include "storage/base/status.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

absl::StatusOr<ArbiterRecord> ChangeArbiter(Disk& disk, const std::string& prefix, const ArbiterChange& change) {
  CAIRN_RETURN_IF_ERROR(Prefix::RunAt(disk, prefix).status());
  CAIRN_ASSIGN_OR_RETURN(const ArbiterRecord now,
                         arbiter_record::Ensure(disk, prefix, ArbiterKind::kPrefix, /*where=*/""));
  if (change.from != nullptr) {
    CAIRN_ASSIGN_OR_RETURN(const auto opened, Prefix::Open(disk, prefix, {.arbiters = change.from}));
    CAIRN_RETURN_IF_ERROR(WaitUntilOver(*opened, change.wait, change.note).status());
  }
  return arbiter_record::Change(disk, prefix, now, change.to.kind(), change.to.where());
}

}  // namespace cairn
