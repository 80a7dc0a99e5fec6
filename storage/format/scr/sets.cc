#include "storage/format/scr/sets.h"

#include <absl/status/status.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn::scr {
namespace {

using Ranks = std::vector<Rank>;  // in order

// By group, in the order of their first ranks.
std::vector<Ranks> RanksOf(std::span<const std::string> groups) {
  std::map<std::string_view, std::size_t> known;
  std::vector<Ranks> ranks;
  for (std::size_t rank = 0; rank < groups.size(); ++rank) {
    const auto [group, fresh] = known.try_emplace(groups[rank], ranks.size());
    if (fresh) ranks.emplace_back();
    ranks[group->second].push_back(static_cast<Rank>(rank));
  }
  return ranks;
}

const Ranks& Largest(const std::vector<Ranks>& groups) {
  return *std::ranges::max_element(groups, {}, [](const Ranks& group) { return group.size(); });
}

std::vector<Ranks> Columns(const std::vector<Ranks>& groups) {
  std::vector<Ranks> columns(Largest(groups).size());
  for (const Ranks& group : groups) {
    for (std::size_t i = 0; i < group.size(); ++i) columns[i].push_back(group[i]);
  }
  for (Ranks& column : columns) std::ranges::sort(column);
  return columns;
}

// Neighbours, in sets of `members_min` or somewhat more: the first ones get what is left over.
void Cut(const Ranks& column, std::size_t members_min, std::vector<Ranks>& sets) {
  const std::size_t count = std::max<std::size_t>(column.size() / members_min, 1);
  const std::size_t base = column.size() / count, longer = column.size() % count;
  auto next = column.begin();
  for (std::size_t i = 0; i < count; ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(base + (i < longer ? 1 : 0));
    sets.emplace_back(next, end);
    next = end;
  }
}

std::vector<Ranks> SetsOfColumns(const std::vector<Ranks>& groups, std::size_t members_min) {
  std::vector<Ranks> sets;
  for (const Ranks& column : Columns(groups)) Cut(column, members_min, sets);
  return sets;
}

// One rank to each in turn, group by group: no group comes round to the same set.
std::vector<Ranks> DealtSets(const std::vector<Ranks>& groups, std::size_t ranks, std::size_t members_min) {
  std::vector<Ranks> sets(std::max(Largest(groups).size(), ranks / members_min));
  std::size_t next = 0;
  for (const Ranks& group : groups) {
    for (const Rank rank : group) sets[next++ % sets.size()].push_back(rank);
  }
  for (Ranks& set : sets) std::ranges::sort(set);
  return sets;
}

std::vector<Ranks> Singles(std::size_t ranks) {
  std::vector<Ranks> sets;
  for (std::size_t rank = 0; rank < ranks; ++rank) sets.push_back({static_cast<Rank>(rank)});
  return sets;
}

bool AllHave(const std::vector<Ranks>& sets, std::size_t members) {
  return std::ranges::all_of(sets, [members](const Ranks& set) { return set.size() >= members; });
}

absl::Status Check(const SetWish& wish) {
  if (wish.scheme == Scheme::kSingle) return absl::OkStatus();
  if (wish.members_min < 2 || wish.members_min > 64) {
    return absl::InvalidArgumentError(
        fmt::format("a redundancy set of {} members: 2 to 64 are possible", wish.members_min));
  }
  if (wish.scheme == Scheme::kRs && (wish.checksums == 0 || wish.checksums >= wish.members_min)) {
    return absl::InvalidArgumentError(
        fmt::format("{} checksums in a redundancy set of {} members: 1 to {} are possible", wish.checksums,
                    wish.members_min, wish.members_min - 1));
  }
  return absl::OkStatus();
}

std::vector<SetDescriptor> Described(std::vector<Ranks> sets, const SetWish& wish, std::size_t ranks) {
  std::ranges::sort(sets, {}, [](const Ranks& set) { return set.front(); });
  std::vector<SetDescriptor> descriptors(ranks);
  for (std::size_t group = 0; group < sets.size(); ++group) {
    const Ranks& set = sets[group];
    for (std::size_t i = 0; i < set.size(); ++i) {
      descriptors[set[i]] = {.scheme = wish.scheme,
                             .groups = static_cast<std::uint32_t>(sets.size()),
                             .group = static_cast<std::uint32_t>(group),
                             .ranks = static_cast<std::uint32_t>(set.size()),
                             .rank = static_cast<std::uint32_t>(i),
                             .world_ranks = static_cast<std::uint32_t>(ranks),
                             .world_rank = set[i],
                             .replicas = wish.scheme == Scheme::kPartner ? 1u : 0u,
                             .checksums = wish.scheme == Scheme::kRs ? wish.checksums : 0};
    }
  }
  return descriptors;
}

}  // namespace

absl::StatusOr<std::vector<SetDescriptor>> MakeSets(const SetWish& wished, std::span<const std::string> of_ranks) {
  CAIRN_RETURN_IF_ERROR(Check(wished));
  SetWish wish = wished;
  if (wish.scheme == Scheme::kRs && wish.checksums == 1) wish.scheme = Scheme::kXor;
  const std::vector<Ranks> groups = RanksOf(of_ranks);
  if (groups.size() < 2) wish.scheme = Scheme::kSingle;
  if (wish.scheme == Scheme::kSingle) return Described(Singles(of_ranks.size()), wish, of_ranks.size());

  const std::size_t needed = wish.scheme == Scheme::kRs ? wish.checksums + 1 : 2;
  std::vector<Ranks> sets = SetsOfColumns(groups, wish.members_min);
  if (!AllHave(sets, needed)) sets = DealtSets(groups, of_ranks.size(), wish.members_min);
  if (AllHave(sets, needed)) return Described(std::move(sets), wish, of_ranks.size());
  const Ranks& largest = Largest(groups);
  return absl::FailedPreconditionError(
      fmt::format("{} of {} ranks are in failure group {}: each would need {} members of its redundancy set elsewhere",
                  largest.size(), of_ranks.size(), Quoted(of_ranks[largest.front()]), needed - 1));
}

}  // namespace cairn::scr
