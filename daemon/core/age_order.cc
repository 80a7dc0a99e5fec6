#include "daemon/core/age_order.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace cairn {
namespace {

bool IsScrs(const Dataset& dataset) {
  return dataset.launch == 0 && dataset.foreign;
}

// What no launch has made stands where its id does.
std::vector<DatasetPtr> ByLine(const Datasets& datasets) {
  std::vector<std::pair<LaunchId, DatasetPtr>> lines;
  lines.reserve(datasets.size());
  LaunchId newest = 0;
  for (const auto& [id, dataset] : datasets) {
    if (IsScrs(*dataset)) continue;
    newest = std::max(newest, dataset->launch);
    lines.emplace_back(dataset->launch != 0 ? dataset->launch : newest, dataset);
  }
  const auto older = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->id < b.second->id;
  };
  if (!std::is_sorted(lines.begin(), lines.end(), older)) std::sort(lines.begin(), lines.end(), older);
  std::vector<DatasetPtr> ordered;
  ordered.reserve(lines.size());
  for (auto& [line, dataset] : lines) ordered.push_back(std::move(dataset));
  return ordered;
}

// How many of those in their order come before a dataset of SCR's: up to the last one than which it is newer.
class Places {
 public:
  explicit Places(const std::vector<DatasetPtr>& ordered) : least_ids_(ordered.size()), least_times_(ordered.size()) {
    DatasetId id = std::numeric_limits<DatasetId>::max();
    std::int64_t time = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = ordered.size(); i-- > 0;) {
      least_ids_[i] = id = std::min(id, ordered[i]->id);
      least_times_[i] = time = std::min(time, ordered[i]->created_us);
    }
  }
  std::size_t Before(const Dataset& scrs) const {
    return std::max(Below(least_ids_, scrs.id), Below(least_times_, scrs.created_us));
  }

 private:
  template <typename T>
  static std::size_t Below(const std::vector<T>& least, T limit) {
    return static_cast<std::size_t>(std::lower_bound(least.begin(), least.end(), limit) - least.begin());
  }

  std::vector<DatasetId> least_ids_;  // of this one and all behind it
  std::vector<std::int64_t> least_times_;
};

}  // namespace

std::vector<DatasetPtr> SortedByAge(const Datasets& datasets) {
  std::vector<DatasetPtr> ordered = ByLine(datasets);
  if (ordered.size() == datasets.size()) return ordered;
  std::vector<DatasetPtr> scrs;
  for (const auto& [id, dataset] : datasets) {
    if (IsScrs(*dataset)) scrs.push_back(dataset);
  }
  std::stable_sort(scrs.begin(), scrs.end(),
                   [](const auto& a, const auto& b) { return a->created_us < b->created_us; });
  const Places places(ordered);
  std::vector<DatasetPtr> all;
  all.reserve(datasets.size());
  std::size_t next = 0;
  for (DatasetPtr& one : scrs) {
    for (const std::size_t place = places.Before(*one); next < place; ++next) all.push_back(std::move(ordered[next]));
    all.push_back(std::move(one));
  }
  for (; next < ordered.size(); ++next) all.push_back(std::move(ordered[next]));
  return all;
}

void AgeOrder::Note(const Dataset& dataset) {
  all_of_launches_ &= dataset.launch != 0;
  launch_ = std::max(launch_, dataset.launch);
  id_ = std::max(id_, dataset.id);
  if (IsScrs(dataset)) scrs_created_us_ = std::max(scrs_created_us_, dataset.created_us);
}

// Then it also leaves all others where they are: SCR's own are older by number and by time.
bool AgeOrder::IsNewestOfAll(const Dataset& dataset) const {
  return dataset.launch != 0 && dataset.launch >= launch_ && dataset.id > id_ && dataset.created_us >= scrs_created_us_;
}

void AgeOrder::Added(const DatasetPtr& dataset) {
  sorted_ = sorted_ && IsNewestOfAll(*dataset);
  if (!sorted_) return;
  Note(*dataset);
  order_.push_back(dataset);
}

void AgeOrder::Removed(const DatasetPtr& dataset) {
  if (!sorted_ || !all_of_launches_) {  // it may have held another in its place
    sorted_ = false;
    return;
  }
  const auto at = std::find(order_.rbegin(), order_.rend(), dataset);
  if (at != order_.rend()) order_.erase(std::next(at).base());
}

const std::vector<DatasetPtr>& AgeOrder::Of(const Datasets& datasets) {
  if (std::exchange(sorted_, true)) return order_;
  order_ = SortedByAge(datasets);
  all_of_launches_ = true;
  launch_ = id_ = 0;
  scrs_created_us_ = std::numeric_limits<std::int64_t>::min();
  for (const DatasetPtr& dataset : order_) Note(*dataset);
  return order_;
}

}  // namespace cairn
