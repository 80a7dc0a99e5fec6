#include "storage/job/export/protect_order.h"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "storage/base/ids.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::size_t kToldMax = 4;  // of the steps of a contradiction

// What comes right after what, on some rank. Variables are numbered by their first appearance over the ranks.
class Orders {
 public:
  explicit Orders(const std::vector<catalogue::Catalogue>& catalogues) {
    for (Rank rank = 0; rank < catalogues.size(); ++rank) {
      std::size_t before = 0;
      for (int i = 0; i < catalogues[rank].variables_size(); ++i) {
        const std::size_t place = PlaceOf(catalogues[rank].variables(i));
        if (i > 0 && after_[before].emplace(place, rank).second) before_[place].insert(before);
        before = place;
      }
    }
  }

  absl::StatusOr<std::vector<ProtectedVariable>> Joined() const {
    std::vector<std::set<std::size_t>> waits_for = before_;
    std::set<std::size_t> ready;
    for (std::size_t place = 0; place < variables_.size(); ++place) {
      if (waits_for[place].empty()) ready.insert(place);
    }
    std::vector<ProtectedVariable> order;
    while (!ready.empty()) {
      const std::size_t place = ready.extract(ready.begin()).value();
      order.push_back(variables_[place]);
      for (const auto& [next, rank] : after_[place]) {
        waits_for[next].erase(place);
        if (waits_for[next].empty()) ready.insert(next);
      }
    }
    if (order.size() == variables_.size()) return order;
    return Contradiction(waits_for);
  }

 private:
  std::size_t PlaceOf(const local::Variable& variable) {
    const auto [place, is_new] = places_.emplace(variable.id(), variables_.size());
    if (is_new) {
      variables_.push_back({.id = variable.id(), .name = {}});
      after_.emplace_back();
      before_.emplace_back();
    }
    ProtectedVariable& known = variables_[place->second];
    if (known.name.empty()) known.name = variable.name();
    return place->second;
  }

  // Each of those that wait, waits for another that waits: going back from any leads into a circle.
  absl::Status Contradiction(const std::vector<std::set<std::size_t>>& waits_for) const {
    std::size_t at = 0;
    while (waits_for[at].empty()) ++at;
    std::set<std::size_t> seen;
    while (seen.insert(at).second) at = *waits_for[at].begin();
    std::string told;
    std::size_t count = 0;
    const std::size_t first = at;
    do {
      const std::size_t before = *waits_for[at].begin();
      if (count++ < kToldMax) {
        told += fmt::format("{}rank {} protects variable {} before {}", told.empty() ? "" : ", ", after_[before].at(at),
                            variables_[before].id, variables_[at].id);
      }
      at = before;
    } while (at != first);
    if (count > kToldMax) told += ", and so on";
    return FailedPrecondition(
        "layout A: FTI 1.1 finds variables by the order in which they are protected, and the ranks' orders contradict "
        "each other: {}",
        told);
  }

  std::vector<ProtectedVariable> variables_;
  std::map<std::int32_t, std::size_t> places_;      // in variables_, by id
  std::vector<std::map<std::size_t, Rank>> after_;  // what comes after each, and the first rank that says so
  std::vector<std::set<std::size_t>> before_;
};

}  // namespace

absl::StatusOr<std::vector<ProtectedVariable>> ProtectOrder(const std::vector<catalogue::Catalogue>& catalogues) {
  return Orders(catalogues).Joined();
}

}  // namespace cairn
