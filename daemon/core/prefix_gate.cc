#include "daemon/core/prefix_gate.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {

PrefixGate::PrefixGate(const Context& context, const RunId& run, std::string run_name, std::string path,
                       const Ledger& ledger, Reports reports)
    : context_(context),
      run_(run),
      run_name_(std::move(run_name)),
      ledger_(ledger),
      reports_(std::move(reports)),
      path_(std::move(path)) {}

absl::Status PrefixGate::OutOfReach() const {
  return Unavailable("{} is out of reach", path_);
}

void PrefixGate::Reached(const std::shared_ptr<Prefix>& prefix, const std::string& path, bool read_only) {
  const bool moved =
      path != path_ || prefix->identity().before != (prefix_ ? prefix_->identity().before : std::set<RunId>());
  if (prefix_ && !moved && (!read_only_ || read_only)) return;  // a flush may have opened it before
  path_ = path;
  prefix_ = prefix;
  read_only_ = read_only;
}

std::optional<SteadyTime> PrefixGate::HungSince() const {
  const auto busy = context_.env.pools.prefix.BusySince();
  const auto since = busy.find(path_);
  if (since == busy.end() || context_.now() < since->second + kHangsAfter) return std::nullopt;
  return since->second;
}

void PrefixGate::Replaced(const RunId& by) {
  if (std::exchange(replaced_, true)) return;
  context_.Warn(fmt::format("{}: the prefix was made anew as run {}; run {} is history", path_, by.Hex(), run_.Hex()));
  reports_.on_replaced();
}

PrefixGate::Visitor PrefixGate::MakeVisitor() const {
  return [disk = &context_.env.prefix_disk, arbiters = &context_.env.arbiters, path = path_, run = run_,
          prefix = prefix_](const Step& step) {
    Visited visited{.status = {}, .prefix = prefix, .other = {}};
    const auto check = [&](const RunId& found) -> absl::Status {
      if (found == run) return absl::OkStatus();
      if (found != RunId()) visited.other = found;
      return FailedPrecondition("{}: the prefix is run {} now", path, found.Hex());
    };
    visited.status = [&]() -> absl::Status {
      if (!visited.prefix) {
        // A daemon that has just started knows the run from its cache only. It never makes a prefix anew for a visit.
        CAIRN_ASSIGN_OR_RETURN(const auto seen, Prefix::OpenReadOnly(*disk, path));
        CAIRN_RETURN_IF_ERROR(check(seen->run()));
        CAIRN_ASSIGN_OR_RETURN(visited.prefix, Prefix::Open(*disk, path, {.arbiters = arbiters}));
      }
      CAIRN_ASSIGN_OR_RETURN(const RunId now, visited.prefix->CurrentRun());
      CAIRN_RETURN_IF_ERROR(check(now));
      return step(*visited.prefix);
    }();
    return visited;
  };
}

void PrefixGate::VisitEnded(const Visited& visited) {
  if (visited.other) Replaced(*visited.other);
  if (prefix_ || !visited.prefix || replaced_) return;
  prefix_ = visited.prefix;
  reports_.on_reached();
}

// Is the application writing files under names of its own on the prefix? Meanwhile nobody else puts files there or
// takes them away, for the names may be the same.
bool PrefixGate::NamesHeld() const {
  const Datasets& in_play = ledger_.InPlay();
  return std::any_of(in_play.begin(), in_play.end(), [](const auto& item) {
    const Dataset& dataset = *item.second;
    // One that was fetched into the cache since, and is flushed from there, holds nothing.
    return dataset.kind.past_cache && dataset.kind.files && dataset.prefix == Place::kArriving &&
           dataset.cache == Place::kAbsent;
  });
}

bool PrefixGate::MayTake(Change change) const {
  switch (change) {
    case Change::kCommit:
      return removals_ == 0 && (waiting_.empty() || NamesHeld());
    case Change::kCommitFiles:
      return removals_ == 0 && waiting_.empty() && !NamesHeld();
    case Change::kComplete:
      return removals_ == 0;
    case Change::kCompleteFiles:  // those who wait may wait for the names, which are held until this has ended
      return file_commits_ == 0 && removals_ == 0;
    case Change::kRemove:
      return commits_ == 0;
    case Change::kRemoveFiles:
      return commits_ == 0 && !NamesHeld();
    case Change::kRemoveFailed:
      return file_commits_ == 0;
    case Change::kTakePlaces:
      return file_commits_ == 0 && removals_ == 0 && !NamesHeld();
    case Change::kNames:
      return file_commits_ == 0 && removals_ == 0;
  }
  return false;
}

std::shared_ptr<PrefixGate::Lease> PrefixGate::TryTake(Change change) {
  if (!MayTake(change)) return nullptr;
  switch (change) {
    case Change::kCommitFiles:
    case Change::kCompleteFiles:
      ++file_commits_;
      [[fallthrough]];
    case Change::kCommit:
    case Change::kComplete:
      ++commits_;
      break;
    case Change::kNames:
      break;
    default:
      ++removals_;
  }
  return std::shared_ptr<Lease>(new Lease(this, change));
}

void PrefixGate::Lease::End() {
  PrefixGate* const gate = std::exchange(gate_, nullptr);
  CAIRN_CHECK(gate != nullptr);
  switch (change_) {
    case Change::kCommitFiles:
    case Change::kCompleteFiles:
      --gate->file_commits_;
      [[fallthrough]];
    case Change::kCommit:
    case Change::kComplete:
      --gate->commits_;
      break;
    case Change::kNames:
      return;
    default:
      --gate->removals_;
  }
  gate->reports_.on_free();
}

void PrefixGate::GiveTurns() {
  for (auto& next : std::exchange(waiting_, {})) next();
}

}  // namespace cairn
