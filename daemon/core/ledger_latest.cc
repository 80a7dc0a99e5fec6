// What a launch restarts from, and what bounds its choice: "Questions" in ledger.h.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "daemon/core/ledger.h"

namespace cairn {
namespace {

// How many are older than dataset `below`; 0: all are asked for. One that is not there any more was as old as its id.
std::size_t Before(const std::vector<DatasetPtr>& all, DatasetId below) {
  if (below == 0) return all.size();
  const auto known =
      std::find_if(all.begin(), all.end(), [below](const auto& dataset) { return dataset->id == below; });
  if (known != all.end()) return static_cast<std::size_t>(known - all.begin());
  std::size_t count = all.size();
  while (count > 0 && all[count - 1]->id >= below) --count;
  return count;
}

}  // namespace

bool Ledger::LatestIsSettling(const Launch& launch) const {
  if (launch.pin.state == Launch::Pin::State::kSet) return false;
  const Datasets& in_play = InPlay();
  return std::any_of(in_play.begin(), in_play.end(), [&launch](const auto& item) {
    const Dataset& dataset = *item.second;
    return dataset.launch < launch.id && dataset.level() == Level::kCaptured && dataset.kind.checkpoint;
  });
}

DatasetPtr Ledger::PinLatest(const Launch& given) {
  using Pin = Launch::Pin;
  Launch& launch = Own(given);
  const bool set = launch.pin.state == Pin::State::kSet;
  DatasetPtr dataset = set ? nullptr : NewestRestorableFor(launch);
  // What has turned out since the others were told, as by a node that came late, is not for this launch.
  const bool of_older = !dataset || dataset->launch < launch.id;
  if (set || (launch.pin.told && of_older)) {
    dataset = Get(launch.pin.dataset);
    if (launch.pin.dataset != 0 && (!dataset || !dataset->restorable() || launch.pin_passed_over())) {
      dataset = NewestRestorableFor(launch, launch.pin.dataset);
    }
  }
  if (launch.pin.state != Pin::State::kEnded) {
    launch.pin.state = Pin::State::kSet;
    launch.pin.dataset = dataset ? dataset->id : 0;
  }
  return dataset;
}

bool Ledger::PassOver(LaunchId id, DatasetId dataset) {
  const auto at = launches_.find(id);
  if (at == launches_.end()) return false;
  Launch& launch = at->second;
  if (!launch.passed_over.insert(dataset).second) return false;
  // Also of a pin that has ended: it is what ranks are told that ask after it.
  if (launch.pin.dataset != dataset) return false;
  const DatasetPtr older = NewestRestorableFor(launch, dataset);
  if (LacksPartsSince(launch, older, dataset)) return true;
  launch.pin.dataset = older ? older->id : 0;
  return false;
}

// Something between the two is not chosen only because parts of it are lost, which may be made anew.
bool Ledger::LacksPartsSince(const Launch& launch, const DatasetPtr& older, DatasetId below) const {
  const std::vector<DatasetPtr>& all = ByAge();
  const DatasetId bound = BoundOf(launch);
  for (std::size_t i = Before(all, below); i-- > 0 && all[i] != older;) {
    const Dataset& dataset = *all[i];
    if (dataset.unknown == 0 || !MayBeMadeAnew(dataset) || launch.passed_over.contains(dataset.id)) continue;
    if (dataset.superseding() && !IsBeyond(launch, bound, dataset)) return true;
  }
  return false;
}

bool Ledger::PinnedByLaunch(DatasetId id) const {
  return std::any_of(launches_.begin(), launches_.end(), [id](const auto& item) {
    const Launch& launch = item.second;
    return !launch.fenced() && !launch.over() && launch.pin.state == Launch::Pin::State::kSet &&
           launch.pin.dataset == id;
  });
}

DatasetId Ledger::BoundOf(const Launch& launch) const {
  if (launch.bound == 0) return 0;
  const bool ended = std::any_of(datasets_.begin(), datasets_.end(), [&launch](const auto& item) {
    return item.second->launch == launch.id && item.second->kind.checkpoint && item.second->in_prefix();
  });
  return ended ? 0 : launch.bound;
}

// The dataset that a bound means; null: it is not here, or is another of that number by now.
DatasetPtr Ledger::BoundAt(DatasetId bound) const {
  const DatasetPtr last = Get(bound);
  return last && !last->id_taken() ? last : nullptr;
}

// Made by others, after what the prefix' CURRENT was set back to.
bool Ledger::IsBeyond(const Launch& launch, DatasetId bound, const Dataset& dataset) const {
  if (bound == 0 || dataset.launch == launch.id) return false;
  if (launch.bound_set_us != 0 && dataset.created_us > launch.bound_set_us) return false;
  const DatasetPtr last = BoundAt(bound);
  return last ? IsNewer(AgeOf(dataset), AgeOf(*last)) : dataset.id > bound;
}

DatasetPtr Ledger::NewestRestorableFor(const Launch& launch, DatasetId below) const {
  const DatasetId bound = BoundOf(launch);
  const DatasetPtr last = BoundAt(bound);
  const std::vector<DatasetPtr>& all = ByAge();
  for (std::size_t i = Before(all, below); i-- > 0;) {
    const DatasetPtr& dataset = all[i];
    if (!dataset->restorable() || launch.passed_over.contains(dataset->id)) continue;
    if (dataset == last && !dataset->dropped()) return dataset;  // it is meant, however old
    if (dataset->superseding() && !IsBeyond(launch, bound, *dataset)) return dataset;
  }
  return nullptr;
}

bool Ledger::WouldChoose(const Launch& launch, const Dataset& dataset) const {
  if (!dataset.superseding() || IsBeyond(launch, BoundOf(launch), dataset)) return false;
  if (launch.passed_over.contains(dataset.id)) return false;
  const DatasetPtr here = NewestRestorableFor(launch);
  return !here || IsNewer(AgeOf(dataset), AgeOf(*here));
}

DatasetPtr Ledger::NewestRestorable(DatasetId below) const {
  const std::vector<DatasetPtr>& all = ByAge();
  for (std::size_t i = Before(all, below); i-- > 0;) {
    const DatasetPtr& dataset = all[i];
    if (dataset->restorable() && dataset->superseding()) return dataset;
  }
  return nullptr;
}

}  // namespace cairn
