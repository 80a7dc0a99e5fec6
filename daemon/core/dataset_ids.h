// The numbers that one run's new datasets get: reserved on the prefix in blocks, before any of them is told to anyone.
// Each launch begins with a block of its own. Strand only.
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
  // What will be given out next; 0: there is none.
  DatasetId next() const { return block_.count > 0 ? block_.first : 0; }
  void Seen(DatasetId id);
  // Seen, and newer than all that this daemon could still give out.
  void NewestSeen(DatasetId id);
  DatasetId highest() const { return highest_; }

  // A launch gives out these from now on; what was left of earlier ones is lost.
  void Begin(const IdBlock& block);
  // A launch that begins while the prefix cannot be asked goes on with what is left: [first, last]; 0: nothing is.
  DatasetId first() const { return block_.count > 0 ? block_.first : 0; }
  DatasetId last() const;
  // `then` runs once there are some, at once if there are. kUnavailable: the prefix is out of reach.
  void Ensure(std::function<void(absl::Status)> then);
  // The next one; the block after this one is fetched when half is used. kUnavailable: the prefix does not answer.
  absl::StatusOr<DatasetId> Next();
  // The launch is over, and nobody will ask for more: the next one may go on where this has stopped.
  void Return();
  // An id below this one was given out, or could have been: what no record knows of them has failed.
  bool WasGiven(DatasetId id) const { return id != 0 && id < block_.first; }

 private:
  void Reserve(std::function<void(absl::Status)> then);

  const Context& context_;
  const std::string run_name_;
  const PrefixGate& gate_;
  IdBlock block_, next_block_;  // `block_.first` is the next to be given out
  DatasetId highest_ = 0;
  std::uint64_t launch_ = 0;  // how many have begun or ended: a block is of the one that asked for it
  bool reserving_ = false;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DATASET_IDS_H_
