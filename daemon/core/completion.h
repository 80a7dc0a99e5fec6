// From captured parts to a whole dataset in its store, of memory and of files alike. Strand only.
#ifndef CAIRN_DAEMON_CORE_COMPLETION_H_
#define CAIRN_DAEMON_CORE_COMPLETION_H_

#include <functional>
#include <memory>

#include "daemon/core/dataset_folders.h"
#include "daemon/core/ledger.h"
#include "daemon/core/stores.h"
#include "daemon/core/waits.h"
#include "proto/catalogue.pb.h"

namespace cairn {

class Completion {
 public:
  // `on_whole`: of everybody who keeps something of a dataset until then.
  Completion(Ledger& ledger, DatasetFolders& folders, Stores& stores, Waits& waits,
             std::function<void(const DatasetPtr&)> on_whole);
  Completion(const Completion&) = delete;

  // The rank's files and catalogue are stored. The last one completes the dataset. Failed meanwhile: nothing.
  void Stored(const DatasetPtr& dataset, Rank rank, catalogue::Catalogue catalogue);

 private:
  Ledger& ledger_;
  DatasetFolders& folders_;
  Stores& stores_;
  Waits& waits_;
  const std::function<void(const DatasetPtr&)> on_whole_;
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_COMPLETION_H_
