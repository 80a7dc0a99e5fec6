#include "daemon/core/completion.h"

#include <string>
#include <utility>

#include "daemon/core/routed_names.h"
#include "storage/base/status.h"

namespace cairn {

void Completion::Stored(const DatasetPtr& dataset, Rank rank, catalogue::Catalogue catalogue) {
  if (!given_.ledger.Has(dataset)) return;
  given_.ledger.Stored(*dataset, rank, std::move(catalogue));
  if (dataset->followed) return given_.home.Stored(*dataset, rank);
  if (!dataset->all_stored()) return;
  if (!dataset->over_nodes()) {
    return CompleteHere(dataset, [this, dataset](const absl::Status& status) { Completed(dataset, status); });
  }
  if (dataset->kind.files) {
    if (const absl::Status apart = RoutedNames::CheckApart(*dataset); !apart.ok()) return Completed(dataset, apart);
  }
  // Each node's own record at the same time. It is whole when the last one has it.
  struct Both {
    int left = 2;
    absl::Status status;
  };
  const auto one_ended = [this, dataset, both = std::make_shared<Both>()](const absl::Status& status) {
    both->status.Update(status);
    if (--both->left == 0) Completed(dataset, both->status);
  };
  CompleteHere(dataset, one_ended);
  given_.away.Complete(*dataset, one_ended);
}

void Completion::CompleteHere(const DatasetPtr& dataset, std::function<void(const absl::Status& status)> then) {
  given_.stores.Complete(dataset, [then = std::move(then), lease = given_.folders.Lease(dataset->id)](
                                      const absl::Status& status) { then(status); });
}

void Completion::Completed(const DatasetPtr& dataset, const absl::Status& status) {
  if (!given_.ledger.Has(dataset)) return;
  if (status.ok()) {
    given_.ledger.Completed(*dataset);
    if (dataset->over_nodes()) given_.away.Whole(*dataset);
    on_whole_(dataset);
  } else {
    given_.ledger.Fail(dataset->id, std::string(MessageOf(status)));
  }
  given_.waits.Changed();
}

void Completion::HomeSaysWhole(const DatasetPtr& dataset) {
  given_.ledger.HomeCompleted(*dataset);
  on_whole_(dataset);
  given_.waits.Changed();
}

}  // namespace cairn
