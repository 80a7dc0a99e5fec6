#include "storage/format/view/names.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::view {

std::optional<std::string> Names::Take(Rank rank, std::string_view name, std::int32_t id, const Meaning& meaning,
                                       std::span<const std::uint64_t> shape) {
  std::string called(name);
  for (std::uint64_t turn = 1;; ++turn) {
    if (turn == 2) called = fmt::format("{}#{}", name, id);
    if (turn > 2) called = fmt::format("{}#{}#{}", name, id, turn - 1);
    const auto [at, is_new] = uses_.try_emplace(called);
    Use& use = at->second;
    const bool first_of_step = is_new || use.step != step_;
    if (!is_new && use.meaning != meaning) continue;
    if (!first_of_step && use.rank == rank) continue;  // another of this rank's
    if (!first_of_step && !meaning.value && !std::ranges::equal(use.shape, shape)) continue;
    if (first_of_step) {
      use.meaning = meaning;
      use.step = step_;
      use.shape.assign(shape.begin(), shape.end());
    }
    use.rank = rank;
    if (!first_of_step && meaning.value) return std::nullopt;
    return called;
  }
}

}  // namespace cairn::view
