// From captured parts to a whole dataset in its store, of memory and of files alike; over nodes, in all of its caches.
// Strand only.
#ifndef CAIRN_DAEMON_CORE_COMPLETION_H_
#define CAIRN_DAEMON_CORE_COMPLETION_H_

#include <absl/status/status.h>

#include <functional>
#include <memory>

#include "daemon/core/away.h"
#include "daemon/core/dataset_folders.h"
#include "daemon/core/home.h"
#include "daemon/core/ledger.h"
#include "daemon/core/stores.h"
#include "daemon/core/waits.h"
#include "proto/catalogue.pb.h"

namespace cairn {

class Completion {
 public:
  struct Given {  // all borrowed
    Ledger& ledger;
    DatasetFolders& folders;
    Stores& stores;
    Waits& waits;
    Away& away;
    Home& home;
  };
  // `on_whole`: of everybody who keeps something of a dataset until then.
  Completion(const Given& given, std::function<void(const DatasetPtr&)> on_whole)
      : given_(given), on_whole_(std::move(on_whole)) {}
  Completion(const Completion&) = delete;

  // The rank's files and catalogue are stored. The last one completes the dataset, unless its launch has its home
  // elsewhere, which does so. Failed meanwhile: nothing.
  void Stored(const DatasetPtr& dataset, Rank rank, catalogue::Catalogue catalogue);

  // --- By order of the launch's home ---
  // Notes, durably, that the parts that are here are whole.
  void CompleteHere(const DatasetPtr& dataset, std::function<void(const absl::Status& status)> then);
  void HomeSaysWhole(const DatasetPtr& dataset);  // all nodes have noted that. REQUIRES: it is arriving

 private:
  void Completed(const DatasetPtr& dataset, const absl::Status& status);

  const Given given_;
  const std::function<void(const DatasetPtr&)> on_whole_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_COMPLETION_H_
