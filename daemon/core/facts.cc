#include "daemon/core/facts.h"

#include <algorithm>
#include <ranges>
#include <span>

#include "storage/place/age.h"

namespace cairn {

namespace {

// Parts of a dataset, of which nobody here knows where the rest is, or what is to become of it.
bool IsOrphan(const Dataset& dataset) {
  return dataset.in_cache() && dataset.unknown > 0 && !dataset.followed && !dataset.in_folder();
}

bool IsNowhereElse(const Dataset& dataset) {
  return dataset.id_taken() || (dataset.standing == Standing::kFenced && !dataset.in_prefix());
}

// What the launches mean for all of a run's datasets.
class FactMaker {
 public:
  FactMaker(const Ledger& ledger, const Config::Flush& flush) : ledger_(ledger), newest_(ledger.newest()) {
    const std::vector<DatasetPtr>& all = ledger.ByAge();
    has_own_ = newest_ != nullptr && std::any_of(all.rbegin(), all.rend(), [this](const DatasetPtr& dataset) {
                 return dataset->launch == newest_->id && dataset->level() >= Level::kLocal;
               });
    // When the application is gone, its newest checkpoint goes to the prefix whatever the rhythm is (unless there is
    // none).
    if (over_ && flush.every > 0) last_ = ledger.NewestRestorable();
  }

  // `line`: higher for what is newer.
  DatasetFacts Of(const DatasetPtr& dataset, std::uint64_t line) const {
    const bool moves = dataset->prefix == Place::kArriving || dataset->prefix == Place::kLeaving || dataset->copies > 0;
    return {.id = dataset->id,
            .line = line,
            .step = dataset->step,
            .ordinal = dataset->ordinal,
            .checkpoint = dataset->superseding(),
            .output = dataset->kind.output,
            .own_files = dataset->kind.files,
            .whole = dataset->safe(),
            .safe = dataset->safe() && (dataset->in_prefix() || !dataset->awaits_redundancy),
            .redundant = dataset->is_redundant() || dataset->awaits_redundancy,
            .in_cache = dataset->in_cache(),
            .in_prefix = dataset->in_prefix(),
            .in_folder = dataset->in_folder(),
            .flushing = moves,
            .dropped = dataset->flush_dropped(),
            .pinned = dataset->pinned,
            .held = IsHeld(*dataset) || (IsOrphan(*dataset) && IsNeeded(*dataset)),
            .unwanted = dataset->dropped() || IsOrphan(*dataset),
            .followed = dataset->followed,
            .kept = dataset->followed && !dataset->let_go && !dataset->in_prefix(),
            .will_go = dataset->will_go,
            .gave_way = dataset->gave_way() || (dataset->unknown > 0 && !dataset->in_folder()) ||
                        (shut_out_ && !dataset->kind.output),
            .asked = dataset->asked || dataset == last_,
            .cache_bytes = dataset->in_cache() ? dataset->bytes_here() : 0};
  }

 private:
  bool IsHeld(const Dataset& dataset) const {
    if (dataset.readers > dataset.copies || ledger_.PinnedByLaunch(dataset.id)) return true;
    // An output whose id or names are another's on the prefix is nowhere else.
    if (IsNowhereElse(dataset) && dataset.kind.output) return true;
    if (restarting_ && newest_->restored_files.contains(dataset.id)) return true;
    return !over_ && !has_own_ && dataset.id == ledger_.last_restored() && !dataset.dropped();
  }

  // Of parts: together with the others' they may be all that there is.
  bool IsNeeded(const Dataset& dataset) const {
    if (dataset.in_prefix()) return false;
    return dataset.kind.output ? !dataset.gave_way() : !HasNewer(dataset);
  }

  bool HasNewer(const Dataset& dataset) const {
    const std::vector<DatasetPtr>& all = ledger_.ByAge();
    return std::any_of(all.rbegin(), all.rend(), [&](const DatasetPtr& other) {
      return other->safe() && other->superseding() && IsNewer(AgeOf(*other), AgeOf(dataset));
    });
  }

  const Ledger& ledger_;
  const Launch* const newest_;
  const bool over_ = ledger_.over();
  // Its application reads the files that it has restored; once it begins a dataset it is through with them.
  const bool restarting_ = !over_ && newest_->pin.state != Launch::Pin::State::kEnded;
  // Another daemon's launch is the newest: a checkpoint that went to the prefix now would be fenced there.
  const bool shut_out_ = newest_ != nullptr && !newest_->ours;
  bool has_own_ = false;  // else the launch may have to come back to what it has restored
  DatasetPtr last_;
};

}  // namespace

std::vector<DatasetFacts> FactsOf(const Ledger& ledger, const Config::Flush& flush) {
  const FactMaker facts_of(ledger, flush);
  const std::span<const DatasetPtr> since = ledger.SinceOldestInPlay();
  std::vector<DatasetFacts> facts;
  bool found = false;  // of those at rest the newest that supersedes, and is what a waiting flush gives way to
  for (std::size_t line = since.size(); line > 0; --line) {
    const DatasetPtr& dataset = since[line - 1];
    if (found && dataset->at_rest()) continue;
    facts.push_back(facts_of.Of(dataset, line));
    found |= facts.back().checkpoint && facts.back().safe && WantsPrefix(facts.back(), flush);
  }
  std::reverse(facts.begin(), facts.end());
  return facts;
}

std::vector<DatasetFacts> AllFactsOf(const Ledger& ledger, const Config::Flush& flush) {
  const FactMaker facts_of(ledger, flush);
  std::vector<DatasetFacts> facts;
  for (const DatasetPtr& dataset : ledger.ByAge()) facts.push_back(facts_of.Of(dataset, facts.size() + 1));
  return facts;
}

}  // namespace cairn
