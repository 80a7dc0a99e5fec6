#include "daemon/policy/policy.h"

#include <algorithm>
#include <ranges>

namespace cairn {
namespace {

using Facts = std::vector<const DatasetFacts*>;

Facts ByAge(std::span<const DatasetFacts> run) {
  Facts sorted;
  sorted.reserve(run.size());
  for (const DatasetFacts& dataset : run) sorted.push_back(&dataset);
  std::ranges::sort(sorted, [](const DatasetFacts* a, const DatasetFacts* b) { return b->NewerThan(*a); });
  return sorted;
}

// Null: none is.
template <typename Which>
const DatasetFacts* Newest(std::span<const DatasetFacts> run, Which which) {
  const DatasetFacts* newest = nullptr;
  for (const DatasetFacts& dataset : run) {
    if (which(dataset) && (newest == nullptr || dataset.NewerThan(*newest))) newest = &dataset;
  }
  return newest;
}

bool Restartable(const DatasetFacts& dataset) {
  return dataset.checkpoint && dataset.safe && dataset.in_cache;
}

// Nobody but the rhythm of `every` wants it on the prefix.
bool Droppable(const DatasetFacts& dataset) {
  return dataset.checkpoint && !dataset.output && !dataset.pinned && !dataset.asked;
}

bool WaitsForFlush(const DatasetFacts& dataset, const Config::Flush& policy) {
  return dataset.whole && (dataset.in_cache || dataset.in_folder) && !dataset.in_prefix && !dataset.flushing &&
         WantsPrefix(dataset, policy);
}

// Also if nobody needs its room.
bool LeavesUnasked(const DatasetFacts& dataset, const Config::Flush& policy) {
  return !dataset.followed && !WaitsForFlush(dataset, policy);
}

// Whom it would give way to: the newest safe checkpoint on its way to the prefix, or there.
const DatasetFacts* NewestBound(std::span<const DatasetFacts> run, const Config::Flush& policy) {
  return Newest(run, [&](const DatasetFacts& dataset) {
    return dataset.checkpoint && dataset.safe && WantsPrefix(dataset, policy);
  });
}

// What a restart would use, from the cache or from the prefix.
const DatasetFacts* NewestSafe(std::span<const DatasetFacts> run) {
  return Newest(run, [](const DatasetFacts& dataset) {
    return dataset.checkpoint && dataset.safe && (dataset.in_cache || dataset.in_folder || dataset.in_prefix);
  });
}

// All of it, for a restart and for its flush.
bool IsElsewhere(const DatasetFacts& dataset) {
  return dataset.in_prefix || dataset.in_folder;
}

bool MayLeaveCache(const DatasetFacts& dataset) {
  if (!dataset.in_cache || !(dataset.safe || dataset.unwanted)) return false;
  if (dataset.pinned || dataset.held || dataset.kept || dataset.flushing) return false;
  return !dataset.output || IsElsewhere(dataset) || dataset.gave_way;
}

// Whole checkpoints that a restart could use, but for the newest, oldest first.
Facts OlderRestartable(std::span<const DatasetFacts> run) {
  const std::optional<DatasetId> newest = NewestRestartable(run);
  Facts older;
  for (const DatasetFacts* dataset : ByAge(run)) {
    if (Restartable(*dataset) && dataset->id != newest) older.push_back(dataset);
  }
  return older;
}

}  // namespace

bool WantsPrefix(const DatasetFacts& dataset, const Config::Flush& policy) {
  if (dataset.gave_way) return false;
  if (dataset.output || dataset.asked || dataset.pinned) return true;
  if (dataset.dropped || !dataset.checkpoint) return false;
  const std::uint32_t every = dataset.redundant && policy.every_redundant > 0 ? policy.every_redundant : policy.every;
  return every > 0 && dataset.ordinal % every == 0;
}

bool ComesToPrefix(const DatasetFacts& dataset, const Config::Flush& policy) {
  if (dataset.in_prefix || dataset.gave_way) return false;
  return dataset.flushing || (!dataset.dropped && WantsPrefix(dataset, policy));
}

FlushPlan PlanFlushes(std::span<const DatasetFacts> run, const Config::Flush& policy, std::uint32_t slots) {
  FlushPlan plan;
  const DatasetFacts* newest = NewestBound(run, policy);
  Facts waiting;
  for (const DatasetFacts* dataset : ByAge(run)) {
    if (!WaitsForFlush(*dataset, policy)) continue;
    if (!policy.superseded && newest && newest->NewerThan(*dataset) && Droppable(*dataset)) {
      plan.drop.push_back({.id = dataset->id, .successor = newest->id});
    } else {
      waiting.push_back(dataset);
    }
  }
  std::stable_partition(waiting.begin(), waiting.end(),
                        [](const DatasetFacts* dataset) { return !Droppable(*dataset); });
  for (const DatasetFacts* dataset : waiting) {
    if (plan.start.size() == slots) break;
    plan.start.push_back(dataset->id);
  }
  return plan;
}

std::optional<DatasetId> NewestRestartable(std::span<const DatasetFacts> run) {
  const DatasetFacts* newest = Newest(run, Restartable);
  return newest != nullptr ? std::optional(newest->id) : std::nullopt;
}

std::vector<DatasetId> EvictionOrder(std::span<const DatasetFacts> run) {
  const DatasetFacts* newest = NewestSafe(run);
  std::vector<DatasetId> on_prefix, superseded;
  for (const DatasetFacts* dataset : ByAge(run)) {
    if (!MayLeaveCache(*dataset) || dataset == newest) continue;
    if (IsElsewhere(*dataset) || dataset->unwanted || (dataset->output && dataset->gave_way)) {
      on_prefix.push_back(dataset->id);
    } else if (dataset->checkpoint && newest && newest->NewerThan(*dataset)) {
      superseded.push_back(dataset->id);
    }
  }
  on_prefix.insert(on_prefix.end(), superseded.begin(), superseded.end());
  return on_prefix;
}

std::vector<DatasetId> EvictForRoom(std::span<const DatasetFacts> run, std::uint64_t bytes) {
  std::vector<DatasetId> order = EvictionOrder(run);
  std::uint64_t freed = 0;
  std::size_t count = 0;
  for (; count < order.size() && freed < bytes; ++count) {
    const auto dataset = std::ranges::find(run, order[count], &DatasetFacts::id);
    freed += std::min(dataset->cache_bytes, bytes - freed);
  }
  order.resize(count);
  return order;
}

std::optional<DatasetId> EvictNewest(std::span<const DatasetFacts> run) {
  const std::optional<DatasetId> newest = NewestRestartable(run);
  const auto dataset = std::ranges::find(run, newest, &DatasetFacts::id);
  if (dataset == run.end() || !IsElsewhere(*dataset) || !MayLeaveCache(*dataset)) return std::nullopt;
  return newest;
}

std::vector<DatasetId> EvictBeyondKeep(std::span<const DatasetFacts> run, std::uint32_t keep,
                                       const Config::Flush& policy, std::size_t spares) {
  Facts candidates = OlderRestartable(run);
  candidates.resize(candidates.size() - std::min<std::size_t>(candidates.size(), keep));
  std::vector<DatasetId> evicted;
  for (const DatasetFacts* dataset : std::views::reverse(candidates)) {
    if (!MayLeaveCache(*dataset) || !LeavesUnasked(*dataset, policy)) continue;
    if (spares > 0 && !dataset->own_files) {
      --spares;
    } else {
      evicted.push_back(dataset->id);
    }
  }
  std::ranges::reverse(evicted);
  return evicted;
}

std::optional<DatasetId> ChooseSpare(std::span<const DatasetFacts> run, std::uint32_t keep, const Config::Flush& policy,
                                     std::uint64_t missing) {
  std::vector<DatasetId> leaving = EvictForRoom(run, missing);
  std::uint64_t freed = 0;
  for (const DatasetFacts& dataset : run) {
    if (std::ranges::find(leaving, dataset.id) != leaving.end()) freed += dataset.cache_bytes;
  }
  if (freed < missing) leaving.clear();  // the room is not to be had
  const Facts older = OlderRestartable(run);
  const std::size_t stay = std::max<std::uint32_t>(keep, 1) - 1;  // with what is the newest now
  for (std::size_t i = 0; i + stay < older.size(); ++i) {
    if (MayLeaveCache(*older[i]) && LeavesUnasked(*older[i], policy)) leaving.push_back(older[i]->id);
  }
  const auto newest = [&](std::span<const DatasetFacts* const> some) -> std::optional<DatasetId> {
    for (const DatasetFacts* dataset : std::views::reverse(some)) {
      if (dataset->own_files || WaitsForFlush(*dataset, policy)) continue;
      if (std::ranges::find(leaving, dataset->id) != leaving.end()) return dataset->id;
    }
    return std::nullopt;
  };
  const std::size_t beyond = older.size() - std::min<std::size_t>(older.size(), keep);
  const std::optional<DatasetId> spare = newest(std::span(older).first(beyond));
  return spare ? spare : newest(older);
}

std::vector<DatasetId> EvictLingering(std::span<const DatasetFacts> run, std::uint64_t idle_ms,
                                      std::uint64_t linger_ms) {
  std::vector<DatasetId> evicted;
  if (linger_ms == 0 || idle_ms < linger_ms) return evicted;
  for (const DatasetFacts* dataset : ByAge(run)) {
    if (IsElsewhere(*dataset) && MayLeaveCache(*dataset)) evicted.push_back(dataset->id);
  }
  return evicted;
}

bool BelongsInFolder(const DatasetFacts& dataset, std::span<const DatasetFacts> run, const Config::Flush& policy) {
  if (dataset.pinned || dataset.held) return true;
  if (dataset.in_prefix || dataset.unwanted) return false;
  if (!dataset.in_cache && ComesToPrefix(dataset, policy)) return true;
  if (dataset.output) return !dataset.gave_way;
  if (!dataset.checkpoint) return false;
  const DatasetFacts* newest = Newest(run, [](const DatasetFacts& other) {
    return other.checkpoint && other.safe && (other.redundant || other.in_prefix);
  });
  return newest == nullptr || !newest->NewerThan(dataset);
}

std::vector<DatasetId> PrefixRemovals(std::span<const DatasetFacts> run, const Config::PrefixPolicy& policy) {
  std::vector<DatasetId> removed;
  if (policy.keep_last == 0) return removed;
  Facts checkpoints;
  for (const DatasetFacts* dataset : ByAge(run)) {
    if (dataset->checkpoint && dataset->in_prefix) checkpoints.push_back(dataset);
  }
  for (std::uint32_t kept = 0; kept < policy.keep_last; checkpoints.pop_back()) {
    if (checkpoints.empty()) return removed;
    if (!checkpoints.back()->set_back) ++kept;
  }
  for (const DatasetFacts* dataset : checkpoints) {
    const bool rhythm = policy.keep_every != 0 && dataset->step % policy.keep_every == 0;
    if (!rhythm && !dataset->output && !dataset->pinned && !dataset->held) removed.push_back(dataset->id);
  }
  return removed;
}

}  // namespace cairn
