#include "daemon/core/completion.h"

#include <string>
#include <utility>

#include "storage/base/status.h"

namespace cairn {

Completion::Completion(Ledger& ledger, DatasetFolders& folders, Stores& stores, Waits& waits,
                       std::function<void(const DatasetPtr&)> on_whole)
    : ledger_(ledger), folders_(folders), stores_(stores), waits_(waits), on_whole_(std::move(on_whole)) {}

void Completion::Stored(const DatasetPtr& dataset, Rank rank, catalogue::Catalogue catalogue) {
  if (!ledger_.Has(dataset)) return;
  ledger_.Stored(*dataset, rank, std::move(catalogue));
  if (!dataset->all_stored()) return;
  stores_.Complete(dataset, [this, dataset, lease = folders_.Lease(dataset->id)](const absl::Status& status) {
    if (!ledger_.Has(dataset)) return;
    if (status.ok()) {
      ledger_.Completed(*dataset);
      on_whole_(dataset);
    } else {
      ledger_.Fail(dataset->id, std::string(MessageOf(status)));
    }
    waits_.Changed();
  });
}

}  // namespace cairn
