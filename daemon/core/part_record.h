// The catalogue of one rank's protected memory: what is known when it is begun, then what its file turned out to be.
// Pure.
#ifndef CAIRN_DAEMON_CORE_PART_RECORD_H_
#define CAIRN_DAEMON_CORE_PART_RECORD_H_

#include "daemon/core/dataset.h"
#include "daemon/core/variables.h"
#include "daemon/data/capture.h"
#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/ftiff/letter.h"

namespace cairn {

catalogue::Catalogue PartRecord(const RunId& run, const Dataset& dataset, Rank rank, const VariableList& variables);
// With variables there is one file. `letter`: of it.
void PutFile(const CaptureResult& result, ftiff::Letter letter, catalogue::Catalogue* catalogue);

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_PART_RECORD_H_
