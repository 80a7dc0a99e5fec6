// One run as `cairn` is told of it: what this daemon knows, by itself. Asks nobody and waits for nothing. Strand only.
#ifndef CAIRN_DAEMON_CORE_RUN_REPORT_H_
#define CAIRN_DAEMON_CORE_RUN_REPORT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>

#include "daemon/core/context.h"
#include "daemon/core/run.h"
#include "proto/admin.pb.h"
#include "proto/peer.pb.h"

namespace cairn {

std::int64_t SinceEpochUs(SteadyTime time, const Context& context);

// By id: those that are there, and those that failed.
std::map<DatasetId, admin::DatasetRow> RowsOf(const Run& run);
admin::RunStatus StatusOf(const Run& run, const Context& context);
// Its ranks are left out if their catalogues would have to be read first (Inventory::Describe).
admin::ShowReply Shown(const Run& run, const Dataset& dataset);

// What another node is told: of the run's datasets all but those at rest on the prefix. It knows these as of when the
// run was last opened there.
//   kNotFound       there is no such dataset here
//   kUnimplemented  a question that this daemon does not know
absl::StatusOr<peer::Answer> AnswerOf(const Run& run, const Context& context, const peer::Question& question);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RUN_REPORT_H_
