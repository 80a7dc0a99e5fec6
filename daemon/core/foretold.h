// The number that the next checkpoint of a launch will have, said ahead to the other nodes' daemons that serve ranks of
// it: a rank there begins the checkpoint with that, and does not wait for the launch's home. README.md, "A launch over
// nodes". Strand only, at the home.
//
// A number that was said ahead is that of a checkpoint of memory of this launch, or never of anything.
#ifndef CAIRN_DAEMON_CORE_FORETOLD_H_
#define CAIRN_DAEMON_CORE_FORETOLD_H_

#include <absl/status/statusor.h>

#include "daemon/core/away.h"
#include "daemon/core/dataset_ids.h"
#include "daemon/core/ledger.h"
#include "storage/base/ids.h"

namespace cairn {

class Foretold {
 public:
  struct Given {  // all borrowed
    const Ledger& ledger;
    DatasetIds& ids;
    Away& away;
  };
  explicit Foretold(const Given& given) : given_(given) {}
  Foretold(const Foretold&) = delete;

  // Says a number ahead once all ranks have begun all that any has, and takes it back when a rank is gone, or its
  // memory is not to be saved. After every change of the run.
  void Update();
  // Of the dataset that the launch makes now. What was said ahead and is not its number is nobody's.
  //   kUnavailable  as DatasetIds::Next
  absl::StatusOr<DatasetId> Take(const Launch& launch, bool files);
  bool Is(const Launch& launch, DatasetId id) const { return id != 0 && launch.id == launch_ && id == id_; }

 private:
  bool IsCalm(const Launch& launch) const;
  void TakeBack();

  const Given given_;
  LaunchId launch_ = 0;
  DatasetId id_ = 0;  // 0: none
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_FORETOLD_H_
