// The numbers that one run's new datasets get: reserved on the prefix in blocks, before any of them is told to anyone.
// Strand only.
#ifndef CAIRN_DAEMON_CORE_DATASET_IDS_H_
#define CAIRN_DAEMON_CORE_DATASET_IDS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "daemon/core/context.h"
#include "daemon/core/prefix_gate.h"
#include "storage/base/ids.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class DatasetIds {
 public:
  DatasetIds(const Context& context, std::string run_name, const PrefixGate& gate)
      : context_(context), run_name_(std::move(run_name)), gate_(gate) {}
  DatasetIds(const DatasetIds&) = delete;

  // Some dataset has this id: the newer of two has the higher one, so lower ones are not given out any more.
  void Seen(DatasetId id);
  // Seen, and newer than all that this daemon could still give out.
  void NewestSeen(DatasetId id);
  // `then` runs once there are some, at once if there are.
  void Ensure(std::function<void(absl::Status)> then);
  // The next one; the block after this one is fetched when half is used. kUnavailable: the prefix does not answer.
  absl::StatusOr<DatasetId> Next();
  // An id below this one was given out, or could have been: what no record knows of them has failed.
  bool WasGiven(DatasetId id) const { return id != 0 && id < block_.first; }

 private:
  void Reserve(std::function<void(absl::Status)> then);

  const Context& context_;
  const std::string run_name_;
  const PrefixGate& gate_;
  Prefix::IdBlock block_, next_block_;  // `block_.first` is the next to be given out
  DatasetId highest_ = 0;
  bool reserving_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DATASET_IDS_H_
