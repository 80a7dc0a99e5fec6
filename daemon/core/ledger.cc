#include "daemon/core/ledger.h"

#include <algorithm>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {

namespace {

// Ids grow with time, but for what was brought in from another system (launch 0), which is as old as it was made there.
bool IsNewer(const Dataset& a, const Dataset& b) {
  const bool adopted = a.launch == 0 && !a.foreign, other_adopted = b.launch == 0 && !b.foreign;
  if (adopted != other_adopted && a.created_us != b.created_us) return a.created_us > b.created_us;
  return a.id > b.id;
}

}  // namespace

std::uint64_t Dataset::bytes() const {
  std::uint64_t sum = 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

Level Dataset::level() const {
  if (in_prefix) return Level::kPrefix;
  if (in_cache) return Level::kLocal;
  return all_captured() && !damaged ? Level::kCaptured : Level::kNone;
}

// --- Launches ---

Launch* Ledger::Find(LaunchId id) {
  auto at = launches_.find(id);
  return at == launches_.end() ? nullptr : &at->second;
}

Launch& Ledger::Enter(LaunchId id, std::string key, std::uint32_t nranks, std::string secret) {
  // Fence what came before; failing its datasets may not touch the map that is walked, so they are collected first.
  std::vector<DatasetId> doomed;
  for (auto& [older, launch] : launches_) {
    if (older >= id) continue;
    launch.fenced = true;
    doomed.insert(doomed.end(), launch.open.begin(), launch.open.end());
  }
  for (const auto& [dataset_id, dataset] : datasets_) {
    if (dataset->launch < id && !dataset->all_captured() && dataset->level() == Level::kNone) {
      doomed.push_back(dataset_id);
    }
  }
  for (DatasetId dataset : doomed) Fail(dataset, fmt::format("launch {} has taken over", id));
  std::erase_if(launches_, [id](const auto& item) { return item.first < id && item.second.over(); });

  Launch& launch = launches_[id];
  launch.id = id;
  launch.key = std::move(key);
  launch.nranks = nranks;
  launch.secret = std::move(secret);
  launch.ranks.resize(nranks);
  return launch;
}

absl::StatusOr<Ledger::Joining> Ledger::Decide(const std::string& key, Rank rank, std::uint32_t nranks, bool takeover) {
  Launch* launch = newest();
  if (launch == nullptr) return Joining::kMakeNew;
  const bool same_key = launch->key == key;
  if (same_key && !launch->lost_any && launch->nranks != nranks) {
    return InvalidArgument("launch {} has {} ranks, this rank says {}", launch->id, launch->nranks, nranks);
  }
  if (same_key && !launch->lost_any && launch->ranks[rank].state == RankSlot::State::kUnknown) return Joining::kJoin;
  const bool alive =
      std::any_of(launches_.begin(), launches_.end(), [](const auto& item) { return item.second.live > 0; });
  return alive && !takeover ? Joining::kBusy : Joining::kMakeNew;
}

void Ledger::SessionLive(Launch& launch, Rank rank) {
  RankSlot& slot = launch.ranks[rank];
  if (slot.state == RankSlot::State::kLive) return;
  slot.state = RankSlot::State::kLive;
  ++launch.live;
  launch.lost_any = std::any_of(launch.ranks.begin(), launch.ranks.end(),
                                [](const RankSlot& other) { return other.state == RankSlot::State::kLost; });
}

void Ledger::SessionEnded(Launch& launch, Rank rank, bool closed) {
  RankSlot& slot = launch.ranks[rank];
  if (slot.state != RankSlot::State::kLive) return;
  slot.state = closed ? RankSlot::State::kClosed : RankSlot::State::kLost;
  --launch.live;
  if (!closed) launch.lost_any = true;
  const std::string why = closed ? fmt::format("rank {} closed its session without it", rank)
                                 : fmt::format("rank {} was lost before its bytes were captured", rank);
  FailOpenWithout(launch, rank, 0, why);
  // What this rank had begun but not handed over can never be whole either.
  std::vector<DatasetId> doomed;
  for (const auto& [id, dataset] : datasets_) {
    if (dataset->launch == launch.id && dataset->level() == Level::kNone &&
        dataset->parts[rank].state == Part::State::kBegun) {
      doomed.push_back(id);
    }
  }
  for (DatasetId id : doomed) Fail(id, why);
}

// --- Datasets ---

absl::StatusOr<std::shared_ptr<Dataset>> Ledger::FindForBegin(Launch& launch, Rank rank, const BeginSpec& spec) {
  auto at = launch.attempts.find({spec.step, spec.attempt});
  if (at == launch.attempts.end()) return std::shared_ptr<Dataset>();
  if (std::shared_ptr<Dataset> dataset = Get(at->second)) {
    if (dataset->parts[rank].state != Part::State::kAbsent) {
      return FailedPrecondition("rank {} has begun step {}, attempt {} before", rank, spec.step, spec.attempt);
    }
    return dataset;
  }
  // It has failed; the rank has come to it all the same, so what lies before it and lacks this rank fails, too.
  FailOpenWithout(launch, rank, at->second, fmt::format("rank {} began dataset {} without it", rank, at->second));
  const Gone* gone = FindGone(at->second);
  return Aborted("dataset {} (step {}): {}", at->second, spec.step, gone ? gone->message : "failed");
}

std::shared_ptr<Dataset> Ledger::Create(Launch& launch, DatasetId id, const BeginSpec& spec) {
  CAIRN_CHECK(!datasets_.contains(id));
  auto dataset = std::make_shared<Dataset>();
  dataset->id = id;
  dataset->launch = launch.id;
  dataset->step = spec.step;
  dataset->attempt = spec.attempt;
  dataset->nranks = launch.nranks;
  dataset->files = spec.files;
  dataset->checkpoint = spec.checkpoint;
  dataset->output = spec.output;
  dataset->created_us = spec.now_us;
  dataset->parts.resize(launch.nranks);
  if (dataset->checkpoint) dataset->ordinal = ++launch.checkpoints;
  FailWithoutReturned(launch);
  datasets_[id] = dataset;
  launch.attempts[{spec.step, spec.attempt}] = id;
  launch.open.push_back(id);
  launch.pin.reset();
  launch.pin_ended = true;
  return dataset;
}

// After a restart of the daemon a rank that died with it is never seen to be lost. The others give it the time of one
// more checkpoint.
void Ledger::FailWithoutReturned(Launch& launch) {
  if (!launch.from_record || launch.open.size() < 2) return;
  const std::shared_ptr<Dataset> oldest = Get(launch.open.front());
  for (Rank rank = 0; oldest && rank < launch.nranks; ++rank) {
    if (launch.ranks[rank].state != RankSlot::State::kUnknown) continue;
    if (oldest->parts[rank].state != Part::State::kAbsent) continue;
    return Fail(oldest->id, fmt::format("rank {} has not come back since the daemon was started anew", rank));
  }
}

absl::Status Ledger::Begin(Launch& launch, const std::shared_ptr<Dataset>& dataset, Rank rank, const BeginSpec& spec,
                           const VariableList& variables) {
  FailOpenWithout(launch, rank, dataset->id, fmt::format("rank {} began dataset {} without it", rank, dataset->id));
  Part& part = dataset->parts[rank];
  CAIRN_CHECK(part.state == Part::State::kAbsent);
  part.state = Part::State::kBegun;
  part.bytes = spec.bytes;

  std::string why;
  if (dataset->files != spec.files || dataset->checkpoint != spec.checkpoint || dataset->output != spec.output) {
    why = fmt::format("rank {} began it as another kind (memory or files, checkpoint or output)", rank);
  } else if (absl::Status agreed = dataset->agreement.Join(rank, variables); !agreed.ok()) {
    why = MessageOf(agreed);
  } else {
    for (Rank other = 0; other < launch.nranks && why.empty(); ++other) {
      const bool gone =
          launch.ranks[other].state == RankSlot::State::kLost || launch.ranks[other].state == RankSlot::State::kClosed;
      if (gone && dataset->parts[other].state == Part::State::kAbsent) why = fmt::format("rank {} is gone", other);
    }
  }
  if (!why.empty()) {
    Fail(dataset->id, why);
    return Aborted("dataset {} (step {}): {}", dataset->id, dataset->step, why);
  }
  DropFromOpen(launch, *dataset);
  return absl::OkStatus();
}

// A dataset that all ranks have begun leaves the list of open ones and the map of attempts.
void Ledger::DropFromOpen(Launch& launch, const Dataset& dataset) {
  const bool all = std::none_of(dataset.parts.begin(), dataset.parts.end(),
                                [](const Part& part) { return part.state == Part::State::kAbsent; });
  if (!all) return;
  std::erase(launch.open, dataset.id);
  launch.attempts.erase({dataset.step, dataset.attempt});
}

void Ledger::FailOpenWithout(Launch& launch, Rank rank, DatasetId before, const std::string& why) {
  std::vector<DatasetId> doomed;
  for (DatasetId id : launch.open) {
    if (before != 0 && id >= before) continue;
    std::shared_ptr<Dataset> dataset = Get(id);
    if (dataset && dataset->parts[rank].state == Part::State::kAbsent) doomed.push_back(id);
  }
  for (DatasetId id : doomed) Fail(id, why);
}

void Ledger::Captured(Dataset& dataset, Rank rank) {
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(part.state == Part::State::kBegun);
  part.state = Part::State::kCaptured;
  ++dataset.captured;
}

void Ledger::Local(Dataset& dataset, Rank rank, catalogue::Catalogue catalogue) {
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(part.state == Part::State::kCaptured);
  part.state = Part::State::kLocal;
  part.bytes = 0;
  for (const catalogue::FileEntry& file : catalogue.file()) part.bytes += file.bytes();
  part.catalogue = std::move(catalogue);
  ++dataset.local;
}

void Ledger::Fail(DatasetId id, const std::string& why) {
  std::shared_ptr<Dataset> dataset = Get(id);
  if (!dataset) return;
  Forget(id, {.why = Gone::Why::kFailed, .message = why, .step = dataset->step});
  if (Launch* launch = Find(dataset->launch)) {
    std::erase(launch->open, id);
    // The attempt stays known while some rank may still want to join it: it must learn that it failed.
    const bool all = std::none_of(dataset->parts.begin(), dataset->parts.end(),
                                  [](const Part& part) { return part.state == Part::State::kAbsent; });
    if (all) launch->attempts.erase({dataset->step, dataset->attempt});
  }
  on_failed_(dataset, why);
}

void Ledger::Adopt(std::shared_ptr<Dataset> dataset) {
  const DatasetId id = dataset->id;
  gone_.erase(id);
  // A launch that ran when it was brought in went on with ids that it had before.
  dataset->outdated =
      dataset->launch == 0 && !dataset->foreign &&
      std::any_of(datasets_.begin(), datasets_.end(), [&](const auto& item) {
        const Dataset& own = *item.second;
        return item.first < id && own.launch != 0 && own.restorable() && own.created_us > dataset->created_us;
      });
  datasets_[id] = std::move(dataset);
}

void Ledger::Forget(DatasetId id, Gone gone) {
  datasets_.erase(id);
  gone_[id] = std::move(gone);
  while (gone_.size() > kGoneMax) gone_.erase(gone_.begin());
}

std::shared_ptr<Dataset> Ledger::Get(DatasetId id) const {
  auto at = datasets_.find(id);
  return at == datasets_.end() ? nullptr : at->second;
}

const Gone* Ledger::FindGone(DatasetId id) const {
  auto at = gone_.find(id);
  return at == gone_.end() ? nullptr : &at->second;
}

// --- Choices ---

DatasetId Ledger::BoundOf(const Launch& launch) const {
  if (launch.bound == 0) return 0;
  const bool ended = std::any_of(datasets_.begin(), datasets_.end(), [&launch](const auto& item) {
    return item.second->launch == launch.id && item.second->checkpoint && item.second->in_prefix;
  });
  return ended ? 0 : launch.bound;
}

std::shared_ptr<Dataset> Ledger::NewestRestorableFor(const Launch& launch, DatasetId below) const {
  const DatasetId bound = BoundOf(launch);
  const std::shared_ptr<Dataset> last = Get(bound);
  for (auto at = datasets_.rbegin(); at != datasets_.rend(); ++at) {
    const auto& [id, dataset] = *at;
    if ((below != 0 && id >= below) || !dataset->restorable() || launch.passed_over.contains(id)) continue;
    if (id == bound) return dataset;  // it is meant, however old
    if (!dataset->superseding()) continue;
    const bool later = launch.bound_set_us != 0 && dataset->created_us > launch.bound_set_us;
    const bool beyond = !later && (last ? IsNewer(*dataset, *last) : id > bound);
    if (bound == 0 || !beyond || dataset->launch == launch.id) return dataset;
  }
  return nullptr;
}

std::shared_ptr<Dataset> Ledger::NewestRestorable(DatasetId below) const {
  for (auto at = datasets_.rbegin(); at != datasets_.rend(); ++at) {
    if (below != 0 && at->first >= below) continue;
    if (at->second->restorable() && at->second->superseding()) return at->second;
  }
  return nullptr;
}

bool Ledger::PinnedByLaunch(DatasetId id) const {
  return std::any_of(launches_.begin(), launches_.end(), [id](const auto& item) {
    return !item.second.fenced && !item.second.over() && item.second.pin == id;
  });
}

}  // namespace cairn
