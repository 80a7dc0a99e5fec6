#include "daemon/core/ledger.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/scheme.h"

namespace cairn {
namespace {

std::string NameForPeople(const std::string& name) {
  return name.empty() ? "one without a name" : Quoted(name);
}

std::string SchemeForPeople(const AskedScheme& scheme) {
  return scheme == local::SCHEME_NOT_GIVEN ? "as it is configured" : TextOfScheme(scheme);
}

Dataset NewDataset(const Launch& launch, DatasetId id, const Ledger::BeginSpec& spec) {
  Dataset dataset;
  dataset.id = id;
  dataset.launch = launch.id;
  dataset.mark = launch.mark;
  dataset.step = spec.step;
  dataset.attempt = spec.attempt;
  dataset.nranks = launch.nranks;
  dataset.kind = spec.kind;
  dataset.created_us = spec.now_us;
  dataset.user = spec.user;
  dataset.job = spec.job;
  dataset.name = spec.name;
  dataset.scheme = spec.scheme;
  dataset.parts.resize(launch.nranks);
  (spec.kind.past_cache ? dataset.prefix : dataset.cache) = Place::kArriving;
  return dataset;
}

}  // namespace

// --- Launches ---

const Launch* Ledger::Find(LaunchId id) const {
  auto at = launches_.find(id);
  return at == launches_.end() ? nullptr : &at->second;
}

const Launch& Ledger::Enter(LaunchId id, std::string key, std::uint32_t nranks, std::string secret, bool from_record) {
  // What this cache has noted of another node's launch may be whole there; whoever finds all its parts can use it.
  for (const auto& [dataset_id, dataset] : Datasets(InPlay())) {
    if (dataset->recorded && dataset->launch < id && dataset->cache == Place::kArriving) HomeCompleted(*dataset);
  }
  // Fence what came before; failing its datasets may not touch the map that is walked, so they are collected first.
  std::vector<DatasetId> doomed;
  for (auto& [older, launch] : launches_) {
    if (older >= id) continue;
    launch.standing = Launch::Standing::kFenced;
    doomed.insert(doomed.end(), launch.open.begin(), launch.open.end());
  }
  for (const auto& [dataset_id, dataset] : InPlay()) {
    if (dataset->launch < id && !dataset->all_captured() && dataset->level() == Level::kNone) {
      doomed.push_back(dataset_id);
    }
  }
  for (DatasetId dataset : doomed) Fail(dataset, fmt::format("launch {} has taken over", id));
  std::erase_if(launches_, [id](const auto& item) { return item.first < id && item.second.over(); });
  for (const auto& [dataset_id, dataset] : Datasets(InPlay())) {
    if (!dataset->followed || dataset->launch >= id) continue;
    Own(*dataset).followed = false;  // nobody orders anything any more
    JudgeRedundancy(Own(*dataset));  // what its home has said may not be so any more
  }
  Launch& launch = launches_[id];
  launch.id = id;
  launch.key = std::move(key);
  launch.nranks = nranks;
  launch.secret = std::move(secret);
  launch.from_record = from_record;
  launch.ranks.assign(nranks, RankState::kUnknown);
  launch.ranks_in = {};
  launch.ranks_in[static_cast<std::size_t>(RankState::kUnknown)] = nranks;
  for (const auto& [dataset_id, dataset] : datasets_) {
    if (dataset->launch == id) launch.checkpoints = std::max(launch.checkpoints, dataset->ordinal);
  }
  return launch;
}

void Ledger::SetOrigin(const Launch& given, Origin origin) {
  Launch& launch = Own(given);
  launch.ours = origin.ours;
  launch.provisional = origin.provisional;
  launch.maker = std::move(origin.maker);
  launch.mark = std::move(origin.mark);
  counting_.erase(launch.id);
  if (origin.counts) Counts(launch);
}

void Ledger::Counts(const Launch& launch) {
  constexpr std::size_t kRememberedMax = 64;
  if (!launch.mark.empty()) counting_[launch.id] = launch.mark;
  if (counting_.size() > kRememberedMax) counting_.erase(counting_.begin());
}

bool Ledger::KnowsThatCounts(LaunchId id, const std::string& mark) const {
  const auto known = counting_.find(id);
  return known != counting_.end() && known->second == mark;
}

void Ledger::SetBound(const Launch& launch, DatasetId bound, std::int64_t bound_set_us) {
  Own(launch).bound = bound;
  Own(launch).bound_set_us = bound_set_us;
}

absl::StatusOr<Ledger::Joining> Ledger::Decide(const std::string& key, Rank rank, std::uint32_t nranks,
                                               bool takeover) const {
  const Launch* launch = newest();
  if (launch == nullptr) return Joining::kMakeNew;
  const bool joinable = launch->key == key && !launch->lost_any();
  if (joinable && launch->nranks != nranks) {
    return InvalidArgument("launch {} has {} ranks, this rank says {}", launch->id, launch->nranks, nranks);
  }
  if (joinable && launch->ranks[rank] == RankState::kUnknown) return Joining::kJoin;
  const bool alive =
      std::any_of(launches_.begin(), launches_.end(), [](const auto& item) { return !item.second.over(); });
  return alive && !takeover ? Joining::kBusy : Joining::kMakeNew;
}

void Ledger::Know(const DatasetPtr& dataset) {
  datasets_[dataset->id] = dataset;
  by_age_.Added(dataset);
  touched_.insert(dataset->id);
}

void Ledger::Unknow(const DatasetPtr& dataset) {
  datasets_.erase(dataset->id);
  by_age_.Removed(dataset);
  touched_.insert(dataset->id);
}

Dataset& Ledger::Own(const Dataset& dataset) {
  touched_.insert(dataset.id);
  return const_cast<Dataset&>(dataset);  // the ledger has made every dataset of the run, or taken it over
}

void Ledger::SetRank(Launch& launch, Rank rank, RankState state) {
  --launch.ranks_in[static_cast<std::size_t>(launch.ranks[rank])];
  ++launch.ranks_in[static_cast<std::size_t>(state)];
  launch.ranks[rank] = state;
}

void Ledger::SessionLive(const Launch& launch, Rank rank) {
  // Of a launch that has its home elsewhere that decides who comes back: it may not have heard of a close.
  CAIRN_CHECK(launch.followed || launch.ranks[rank] != RankState::kClosed);
  SetRank(Own(launch), rank, RankState::kLive);
}

void Ledger::CameBack(const Launch& launch, Rank rank) {
  FailOpenWithout(launch, rank, 0, fmt::format("rank {} has come back over a new link, and had not begun it", rank));
}

void Ledger::SessionEnded(const Launch& launch, Rank rank, bool closed) {
  if (launch.ranks[rank] != RankState::kLive) return;
  SetRank(Own(launch), rank, closed ? RankState::kClosed : RankState::kLost);
  const std::string why = closed ? fmt::format("rank {} closed its session without it", rank)
                                 : fmt::format("rank {} was lost before its bytes were captured", rank);
  if (!launch.followed) {
    MemoryClean(launch.id, rank);  // if it comes back, it says so again
    FailOpenWithout(launch, rank, 0, why);
  }
  // What this rank had begun but not handed over can never be whole either.
  std::vector<DatasetId> doomed;
  for (const auto& [id, dataset] : InPlay()) {
    if (dataset->launch == launch.id && dataset->level() == Level::kNone &&
        dataset->parts[rank].state == Part::State::kBegun) {
      doomed.push_back(id);
    }
  }
  for (DatasetId id : doomed) Fail(id, why);
}

// --- A dataset is made ---

absl::StatusOr<DatasetPtr> Ledger::FindForBegin(const Launch& launch, Rank rank, const BeginSpec& spec) {
  auto at = launch.attempts.find({spec.step, spec.attempt});
  if (at == launch.attempts.end()) return DatasetPtr();
  const DatasetId id = at->second;
  if (DatasetPtr dataset = Get(id)) {
    if (dataset->parts[rank].state != Part::State::kAbsent) {
      return FailedPrecondition("rank {} has begun step {}, attempt {} before", rank, spec.step, spec.attempt);
    }
    return dataset;
  }
  // It has failed; the rank has come to it all the same, so what lies before it and lacks this rank fails, too.
  FailOpenWithout(launch, rank, id, fmt::format("rank {} began dataset {} without it", rank, id));
  const Gone* gone = FindGone(id);
  return Aborted("dataset {} (step {}): {}", id, spec.step, gone ? gone->message : "failed");
}

DatasetPtr Ledger::Create(const Launch& given, DatasetId id, const BeginSpec& spec) {
  CAIRN_CHECK(!datasets_.contains(id));
  Launch& launch = Own(given);
  auto dataset = std::make_shared<Dataset>(NewDataset(launch, id, spec));
  if (spec.kind.checkpoint) dataset->ordinal = ++launch.checkpoints;
  FailWithoutReturned(launch);
  Know(dataset);
  launch.attempts[{spec.step, spec.attempt}] = id;
  launch.open.push_back(id);
  if (launch.pin.state != Launch::Pin::State::kEnded) ForgetUnreadParts();  // it has restored what it wanted
  launch.pin.told |= launch.pin.state == Launch::Pin::State::kSet;
  launch.pin.state = Launch::Pin::State::kEnded;
  return dataset;
}

// After a restart of the daemon a rank that died with it is never seen to be lost. The others give it the time of one
// more checkpoint.
void Ledger::FailWithoutReturned(const Launch& launch) {
  if (!launch.from_record || launch.open.size() < 2) return;
  const DatasetPtr oldest = Get(launch.open.front());
  for (Rank rank = 0; oldest && rank < launch.nranks; ++rank) {
    if (launch.ranks[rank] != RankState::kUnknown) continue;
    if (oldest->parts[rank].state != Part::State::kAbsent) continue;
    return Fail(oldest->id, fmt::format("rank {} has not come back since the daemon was started anew", rank));
  }
}

absl::Status Ledger::Begin(const Launch& launch, const DatasetPtr& given, Rank rank, const BeginSpec& spec,
                           const VariableList& variables) {
  FailOpenWithout(launch, rank, given->id, fmt::format("rank {} began dataset {} without it", rank, given->id));
  Dataset& dataset = Own(*given);
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(part.state == Part::State::kAbsent);
  part.state = Part::State::kBegun;
  part.bytes = spec.bytes;
  std::string why;
  const Dataset::Kind& kind = dataset.kind;
  if (kind.files != spec.kind.files || kind.checkpoint != spec.kind.checkpoint || kind.output != spec.kind.output) {
    why = fmt::format("rank {} began it as another kind (memory or files, checkpoint or output)", rank);
  } else if (dataset.name != spec.name) {
    why = fmt::format("rank {} began it as {}, others as {}", rank, NameForPeople(spec.name),
                      NameForPeople(dataset.name));
  } else if (dataset.scheme != spec.scheme) {
    why = fmt::format("rank {} began it with redundancy {}, others {}", rank, SchemeForPeople(spec.scheme),
                      SchemeForPeople(dataset.scheme));
  } else if (absl::Status agreed = dataset.agreement.Join(rank, variables); !agreed.ok()) {
    why = MessageOf(agreed);
  } else {
    for (Rank other = 0; other < launch.nranks && why.empty(); ++other) {
      const bool never_comes = launch.gone(other) && dataset.parts[other].state == Part::State::kAbsent;
      if (never_comes) why = fmt::format("rank {} is gone", other);
    }
  }
  if (!why.empty()) {
    Fail(dataset.id, why);
    return Aborted("dataset {} (step {}): {}", dataset.id, dataset.step, why);
  }
  if (dataset.all_begun()) dataset.agreement = {};
  DropFromOpen(Own(launch), dataset);
  return absl::OkStatus();
}

// A dataset that all ranks have begun leaves the list of open ones and the map of attempts.
void Ledger::DropFromOpen(Launch& launch, const Dataset& dataset) {
  if (!dataset.all_begun()) return;
  std::erase(launch.open, dataset.id);
  launch.attempts.erase({dataset.step, dataset.attempt});
}

void Ledger::FailOpenWithout(const Launch& launch, Rank rank, DatasetId before, const std::string& why) {
  std::vector<DatasetId> doomed;
  for (DatasetId id : launch.open) {
    if (before != 0 && id >= before) continue;
    const DatasetPtr dataset = Get(id);
    if (dataset && dataset->parts[rank].state == Part::State::kAbsent) doomed.push_back(id);
  }
  for (DatasetId id : doomed) Fail(id, why);
}

void Ledger::IsElsewhere(const Dataset& dataset, Rank rank, const std::string& node) {
  Part& part = Own(dataset).parts[rank];
  part.elsewhere = true;
  part.node = node;
}

void Ledger::FilesListed(const Dataset& dataset, Rank rank, std::uint64_t bytes) {
  Own(dataset).parts[rank].bytes += bytes;
}

void Ledger::Captured(const Dataset& given, Rank rank) {
  Dataset& dataset = Own(given);
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(part.state == Part::State::kBegun);
  part.state = Part::State::kCaptured;
  ++dataset.captured;
}

void Ledger::Stored(const Dataset& given, Rank rank, catalogue::Catalogue catalogue) {
  Dataset& dataset = Own(given);
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(part.state == Part::State::kCaptured);
  part.state = Part::State::kStored;
  part.bytes = FileBytes(catalogue);
  part.catalogue = std::move(catalogue);
  ++dataset.stored;
}

// --- A dataset of a launch that has its home on another node ---

void Ledger::Followed(const Launch& launch) {
  Own(launch).followed = true;
  for (const auto& [id, dataset] : Datasets(InPlay())) {
    if (dataset->launch == launch.id && dataset->over_nodes()) Own(*dataset).followed = true;
  }
}

DatasetPtr Ledger::Follow(const Launch& launch, const FollowSpec& given) {
  CAIRN_CHECK(launch.followed && !datasets_.contains(given.id));
  auto dataset = std::make_shared<Dataset>(NewDataset(launch, given.id, given.spec));
  dataset->followed = true;
  dataset->foretold = given.foretold;
  dataset->ordinal = given.ordinal;
  dataset->unknown = dataset->undescribed = launch.nranks;
  for (Part& part : dataset->parts) part = {.catalogue = {}, .elsewhere = true, .described = false};
  gone_.erase(given.id);
  Know(dataset);
  return dataset;
}

void Ledger::HomeHasBegun(const Dataset& given, const FollowSpec& known) {
  CAIRN_CHECK(given.foretold && given.step == known.spec.step && given.attempt == known.spec.attempt);
  Dataset& dataset = Own(given);
  dataset.foretold = false;
  dataset.ordinal = known.ordinal;
  dataset.created_us = known.spec.now_us;
  dataset.user = known.spec.user;
  dataset.job = known.spec.job;
  by_age_.MakerChanged();
}

void Ledger::FollowBegin(const Dataset& given, Rank rank, std::uint64_t bytes) {
  Dataset& dataset = Own(given);
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(part.state == Part::State::kAbsent && part.elsewhere);
  --dataset.unknown;
  --dataset.undescribed;
  part = {.state = Part::State::kBegun, .bytes = bytes, .catalogue = {}};
}

void Ledger::HomeLetsGo(const Dataset& dataset, bool may_leave, bool will_go) {
  Own(dataset).let_go = may_leave;
  Own(dataset).will_go = will_go;
}

void Ledger::HomeCompleted(const Dataset& given) {
  Dataset& dataset = Own(given);
  for (Part& part : dataset.parts) {
    CAIRN_CHECK(part.elsewhere || part.stored());
    part.state = Part::State::kStored;
  }
  dataset.captured = dataset.stored = dataset.nranks;
  Completed(dataset);
}

void Ledger::Fail(DatasetId id, const std::string& why) {
  const DatasetPtr dataset = Get(id);
  if (!dataset || dataset->whole()) return;  // what is whole cannot fail any more
  Forget(id, {.why = Gone::Why::kFailed, .message = why, .step = dataset->step});
  if (auto launch = launches_.find(dataset->launch); launch != launches_.end()) {
    std::erase(launch->second.open, id);
    // The attempt stays known while some rank may still want to join it: it must learn that it failed.
    if (dataset->all_begun()) launch->second.attempts.erase({dataset->step, dataset->attempt});
  }
  on_failed_(dataset, why);
}

// --- Restores ---

void Ledger::ReadBegan(const Dataset& dataset) {
  ++Own(dataset).readers;
}

void Ledger::ReadEnded(const Dataset& dataset) {
  CAIRN_CHECK(dataset.readers > 0);
  --Own(dataset).readers;
}

void Ledger::CopyBegan(const Dataset& dataset) {
  ++Own(dataset).copies;
  ReadBegan(dataset);
}

void Ledger::CopyEnded(const Dataset& dataset) {
  CAIRN_CHECK(dataset.copies > 0);
  --Own(dataset).copies;
  ReadEnded(dataset);
}

void Ledger::Restored(LaunchId launch, const Dataset& dataset) {
  last_restored_ = dataset.id;
  const auto at = launches_.find(launch);
  if (at != launches_.end() && dataset.kind.files) at->second.restored_files.insert(dataset.id);
}

bool Ledger::MemoryDirty(LaunchId id, Rank rank) {
  const auto at = launches_.find(id);
  if (at == launches_.end() || !at->second.dirty.insert(rank).second) return false;
  std::vector<DatasetId> doomed;
  for (const auto& [dataset_id, dataset] : InPlay()) {
    if (dataset->launch != id || !dataset->kind.checkpoint || rank >= dataset->nranks) continue;
    if (!dataset->has_captured(rank)) doomed.push_back(dataset_id);
  }
  const std::string why = fmt::format("the memory of rank {} holds part of a restore that did not succeed", rank);
  for (DatasetId dataset : doomed) Fail(dataset, why);
  return true;
}

bool Ledger::MemoryClean(LaunchId id, Rank rank) {
  const auto at = launches_.find(id);
  return at != launches_.end() && at->second.dirty.erase(rank) > 0;
}

std::string Ledger::WhyDirty(LaunchId id) const {
  const Launch* launch = Find(id);
  if (launch == nullptr || launch->dirty.empty()) return "";
  const std::size_t others = launch->dirty.size() - 1;
  return fmt::format(
      "the protected memory of rank {}{} may hold part of a restore that did not succeed: restore a dataset, or "
      "initialise and protect all variables anew",
      *launch->dirty.begin(), others == 0 ? "" : fmt::format(" (and of {} more)", others));
}

// --- Questions ---

DatasetPtr Ledger::Get(DatasetId id) const {
  auto at = datasets_.find(id);
  return at == datasets_.end() ? nullptr : at->second;
}

const Gone* Ledger::FindGone(DatasetId id) const {
  auto at = gone_.find(id);
  return at == gone_.end() ? nullptr : &at->second;
}

absl::Status Ledger::WhyFailed(const Dataset& dataset) const {
  const Gone* gone = FindGone(dataset.id);
  return Aborted("dataset {} (step {}): {}", dataset.id, dataset.step, gone ? gone->message : "failed");
}

const std::vector<DatasetPtr>& Ledger::ByAge() const {
  return by_age_.Of(datasets_);
}

const Datasets& Ledger::InPlay() const {
  for (const DatasetId id : std::exchange(touched_, {})) {
    const DatasetPtr dataset = Get(id);
    if (dataset && !dataset->at_rest()) {
      in_play_[id] = dataset;
    } else {
      in_play_.erase(id);
    }
  }
  return in_play_;
}

std::span<const DatasetPtr> Ledger::SinceOldestInPlay() const {
  const std::vector<DatasetPtr>& all = ByAge();
  std::size_t left = InPlay().size(), from = all.size();
  while (left > 0) left -= all[--from]->at_rest() ? 0 : 1;
  return std::span(all).subspan(from);
}

}  // namespace cairn
