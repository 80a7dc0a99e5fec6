#include "daemon/core/facts.h"

#include <algorithm>

namespace cairn {

namespace {

bool IsNowhereElse(const Dataset& dataset) {
  return dataset.id_taken() || (dataset.standing == Standing::kFenced && !dataset.in_prefix());
}

}  // namespace

std::vector<DatasetFacts> FactsOf(const Ledger& ledger, const Config::Flush& flush) {
  const Launch* newest = ledger.newest();
  const bool over = ledger.over();
  // Its application reads the files that it has restored; once it begins a dataset it is through with them.
  const bool restarting = !over && newest->pin.state != Launch::Pin::State::kEnded;
  // As long as the launch has nothing better, it may have to come back to what it has restored.
  const auto& datasets = ledger.datasets();
  const bool has_own = newest != nullptr && std::any_of(datasets.begin(), datasets.end(), [newest](const auto& item) {
                         return item.second->launch == newest->id && item.second->level() >= Level::kLocal;
                       });
  // When the application is gone, its newest checkpoint goes to the prefix whatever the rhythm is (unless there is
  // none).
  const DatasetPtr last = over && flush.every > 0 ? ledger.NewestRestorable() : nullptr;
  std::vector<DatasetFacts> facts;
  // Another daemon's launch is the newest: a checkpoint that went to the prefix now would be fenced there.
  const bool shut_out = newest != nullptr && !newest->ours;
  for (const DatasetPtr& dataset : ledger.ByAge()) {
    const DatasetId id = dataset->id;
    facts.push_back({.id = id,
                     .line = facts.size() + 1,
                     .step = dataset->step,
                     .ordinal = dataset->ordinal,
                     .checkpoint = dataset->superseding(),
                     .output = dataset->kind.output,
                     .own_files = dataset->kind.files,
                     .safe = dataset->whole(),
                     .in_cache = dataset->in_cache(),
                     .in_prefix = dataset->in_prefix(),
                     .flushing = dataset->prefix == Place::kArriving || dataset->prefix == Place::kLeaving,
                     .dropped = dataset->flush_dropped(),
                     .pinned = dataset->pinned,
                     // An output whose id or names are another's on the prefix is nowhere else.
                     .held = dataset->readers > 0 || (IsNowhereElse(*dataset) && dataset->kind.output) ||
                             (!over && !has_own && id == ledger.last_restored() && !dataset->dropped()) ||
                             ledger.PinnedByLaunch(id) || (restarting && newest->restored_files.contains(id)),
                     .unwanted = dataset->dropped(),
                     .gave_way = dataset->gave_way() || (shut_out && !dataset->kind.output),
                     .asked = dataset->asked || dataset == last,
                     .cache_bytes = dataset->in_cache() ? dataset->bytes() : 0});
  }
  return facts;
}

}  // namespace cairn
