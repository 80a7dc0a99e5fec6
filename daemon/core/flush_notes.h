// What this node says of one run's datasets in SCR's flush file (storage/place/prefix/flush_file.h), brought up to date
// in the background after every change of the run. Strand only.
#ifndef CAIRN_DAEMON_CORE_FLUSH_NOTES_H_
#define CAIRN_DAEMON_CORE_FLUSH_NOTES_H_

#include <functional>
#include <memory>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/ledger.h"
#include "daemon/core/prefix_gate.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/flush_file.h"

namespace cairn {

class FlushNotes {
 public:
  FlushNotes(const Context& context, const RunId& run, std::string run_name, const Ledger& ledger,
             const PrefixGate& gate, std::shared_ptr<FlushFile> file, std::function<bool(DatasetId)> in_flight);
  FlushNotes(const FlushNotes&) = delete;

  // Changes are written together: what cannot be written now is written with the next one. Of what is being flushed
  // (`in_flight`) the flush itself says what is so.
  void Update();

 private:
  const Context& context_;
  const RunId run_;
  const std::string run_name_;
  const Ledger& ledger_;
  const PrefixGate& gate_;
  const std::shared_ptr<FlushFile> file_;
  const std::function<bool(DatasetId)> in_flight_;
  bool writing_ = false, failed_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FLUSH_NOTES_H_
