#include "daemon/core/flusher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/facts.h"
#include "daemon/policy/policy.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/place/names.h"
#include "storage/place/prefix/commit.h"

namespace cairn {

Flusher::Flusher(const Context& context, const Given& given, Reports reports)
    : context_(context), given_(given), reports_(std::move(reports)) {}

std::string Flusher::TextOf(const Dataset& dataset) const {
  return fmt::format("run {}: flush of dataset {} (step {})", given_.run_name, dataset.id, dataset.step);
}

// --- Which ones ---

void Flusher::Plan() {
  // Under which launch it would be committed is not decided yet.
  if (const Launch* newest = given_.ledger.newest(); newest != nullptr && newest->provisional) return;
  if (given_.watch.lost()) return;
  DropWithoutCopy();
  std::uint32_t free = FreeSlots();
  // What waits for a slot after a failed try comes first: it is older.
  for (auto& [id, job] : jobs_) {
    if (free == 0) break;
    if (job->state != Job::State::kWaiting) continue;
    Copy(job);
    --free;
  }
  const Config::Flush& policy = context_.config.flush;
  const FlushPlan plan = PlanFlushes(FactsOf(given_.ledger, policy), policy, free);
  for (const FlushPlan::Dropped& dropped : plan.drop) {
    given_.ledger.FlushDropped(*given_.ledger.Get(dropped.id));
    given_.record.Store();
    spdlog::info("run {}: dataset {} is not flushed: superseded by dataset {}", given_.run_name, dropped.id,
                 dropped.successor);
  }
  for (DatasetId id : plan.start) {
    // Steps that are still under way end first, and then it is looked again.
    if (given_.growing.Working(id) || Has(id)) continue;
    auto job = std::make_shared<Job>();
    job->dataset = given_.ledger.Get(id);
    given_.ledger.FlushBegan(*job->dataset);
    jobs_[id] = job;
    Copy(job);
  }
}

// A copy that was found damaged meanwhile, or has left the cache, cannot be flushed; nor can one of which a part is
// lost.
void Flusher::DropWithoutCopy() {
  std::vector<JobPtr> dropped;
  for (const auto& [id, job] : jobs_) {
    if (job->state == Job::State::kWaiting && !job->dataset->can_be_read()) dropped.push_back(job);
  }
  for (const JobPtr& job : dropped) End(*job);
}

std::optional<SteadyTime> Flusher::StalledSince() const {
  std::optional<SteadyTime> first;
  for (const auto& [id, job] : jobs_) {
    const auto since = given_.slots.StalledSince(job->progress, context_.now(), stalled());
    if (since && (!first || *since < *first)) first = since;
  }
  return first;
}

// A prefix that hangs gets none.
std::uint32_t Flusher::FreeSlots() {
  const auto in_flight = static_cast<std::uint32_t>(
      std::count_if(jobs_.begin(), jobs_.end(), [](const auto& item) { return item.second->in_flight(); }));
  const std::uint32_t parallel = context_.config.flush.parallel;
  const std::uint32_t taken = std::max(given_.slots.CopiesMoving(context_.now(), stalled()), in_flight);
  const bool hangs = given_.gate.HungSince().has_value();
  if (in_flight > 0 || taken >= parallel || hangs) LookAgain();
  return hangs ? 0 : parallel - std::min(parallel, taken);
}

// Do copies get on? Those that have the slots may keep them for hours, and nobody else tells.
void Flusher::LookAgain() {
  constexpr std::chrono::milliseconds kLookEvery(1000);
  if (looking_again_ || context_.quiescing()) return;
  looking_again_ = true;
  context_.loop().After(std::min(kLookEvery, stalled()), [this] {
    looking_again_ = false;
    reports_.look_again();
  });
}

void Flusher::Want(DatasetId id) {
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (!dataset || dataset->in_prefix() || dataset->flush_dropped()) return;
  given_.ledger.FlushAsked(*dataset);
  reports_.look_again();
}

void Flusher::Order(DatasetId id) {
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (!dataset) return;
  given_.ledger.FlushOrdered(*dataset);
  if (given_.watch.lost()) given_.watch.Look();
  if (const auto at = jobs_.find(id); at != jobs_.end() && at->second->state == Job::State::kBackingOff) {
    context_.loop().Cancel(std::exchange(at->second->timer, 0));
    at->second->state = Job::State::kWaiting;
  }
  Want(id);
}

bool Flusher::Cancel(const DatasetPtr& dataset) {
  const auto at = jobs_.find(dataset->id);
  if (at == jobs_.end()) return true;
  const JobPtr job = at->second;
  if (job->running()) {
    job->progress->stop = true;
    given_.ledger.FlushCancelled(*dataset);  // else it would begin again at once
    return false;
  }
  EndWaiting(*job);
  return true;
}

void Flusher::EndWaiting(const Job& job) {
  if (job.timer != 0) context_.loop().Cancel(job.timer);
  End(job);
}

void Flusher::EndWaiting() {
  for (const auto& [id, job] : std::map(jobs_)) {
    if (!job->running()) EndWaiting(*job);
  }
}

void Flusher::StopAll() {
  for (auto& [id, job] : jobs_) job->progress->stop = true;
}

bool Flusher::InFlight(DatasetId id) const {
  const auto job = jobs_.find(id);
  return job != jobs_.end() && job->second->in_flight();
}

// The job is no more, whatever has become of the dataset.
void Flusher::End(const Job& job) {
  given_.ledger.FlushEnded(*job.dataset);
  jobs_.erase(job.dataset->id);
}

// --- The first step: the copy ---

bool Flusher::IsHere(const Dataset& dataset, Rank rank) {
  return dataset.in_cache() && !dataset.parts[rank].elsewhere;
}

void Flusher::Copy(const JobPtr& job) {
  const Dataset& dataset = *job->dataset;
  job->state = Job::State::kCopying;
  job->committer = given_.keeper.committer();
  job->started = context_.now();
  job->progress->bytes_done = 0;
  job->descriptor = DescriptorOf(dataset, true);
  job->catalogues = CataloguesOf(dataset);
  job->here.clear();
  job->there.clear();
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    if (IsHere(dataset, rank)) {
      job->here.push_back(job->catalogues[rank]);
    } else {
      job->there.insert(rank);
    }
  }
  given_.slots.CopyBegins(job->progress, context_.now());
  LookAgain();
  ++job->tries;
  // Of what others have alone they will know what to do, and a daemon after this one would not.
  if (!job->here.empty() && given_.record.Begun(dataset.id)) given_.record.Store();
  if (!job->there.empty()) return CopyOverNodes(job);
  CopyHere(job, [this, job](StepResult result) { CopyEnded(job, std::move(result)); });
}

// What nodes have that have no link to this one is read over the network; what no node has, that is there, in the
// folder that is redundant itself.
absl::Status Flusher::FindElsewhere(Job& job) const {
  const Dataset& dataset = *job.dataset;
  job.elsewhere.clear();
  std::set<Rank> left = job.there;
  for (const NodeId& node : HoldersOf(dataset)) {
    const bool asked = given_.away.HasLink(node);
    const auto member = given_.nodes.Find(node);
    if (!asked && !member && dataset.in_folder()) continue;
    if (!asked && !member) return Unavailable("node {}, which has parts of it, is not there", node.substr(0, 8));
    Elsewhere elsewhere{.disk = asked ? nullptr : given_.nodes.FilesOf(*member),
                        .folder = FolderOnOtherNode(dataset.id),
                        .catalogues = {}};
    for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
      if (!dataset.parts[rank].elsewhere || dataset.parts[rank].node != node) continue;
      elsewhere.catalogues.push_back(dataset.parts[rank].catalogue);
      left.erase(rank);
    }
    if (!asked) job.elsewhere.push_back(std::move(elsewhere));
  }
  if (left.empty()) return absl::OkStatus();
  if (!dataset.in_folder()) return Unavailable("nobody knows where rank {}'s part is", *left.begin());
  Elsewhere& folder = job.elsewhere.emplace_back();
  folder.disk = std::shared_ptr<Disk>(std::shared_ptr<Disk>(), &given_.tier.disk());
  folder.folder = given_.tier.PathOf(dataset.id);
  folder.redundant = true;
  for (const Rank rank : left) folder.catalogues.push_back(dataset.parts[rank].catalogue);
  return absl::OkStatus();
}

// All nodes at the same time. Who is asked to copy has the dataset announced on the prefix by then, or soon after.
void Flusher::CopyOverNodes(const JobPtr& job) {
  if (const absl::Status found = FindElsewhere(*job); !found.ok()) {
    return context_.loop().Post([this, job, found] {
      StepResult result;
      result.visited.status = found;
      CopyEnded(job, std::move(result));
    });
  }
  struct Both {
    int left = 2;
    StepResult result;
    OrderEnded there;
  };
  const auto both = std::make_shared<Both>();
  const auto ended = [this, job, both] {
    if (--both->left > 0) return;
    if (both->result.visited.status.ok() && !both->there.status.ok()) {
      both->result.visited.status = both->there.status;
      both->result.damaged_there = both->there.damaged_file;
      both->result.in_folder = false;
    }
    const bool look = both->result.visited.status.ok() && job->dataset->kind.files;
    look ? FindBrought(job, std::move(both->result)) : CopyEnded(job, std::move(both->result));
  };
  CopyHere(job, [this, job, both, ended](StepResult result) {
    both->result = std::move(result);
    given_.slots.CopyEnds(job->progress);  // what others still copy is no hang of this node's file system
    ended();
  });
  given_.away.Copy(*job->dataset, job->committer, [both, ended](const OrderEnded& copied) {
    both->there = copied;
    ended();
  });
}

// Where others have put their ranks' files.
void Flusher::FindBrought(const JobPtr& job, StepResult result) {
  std::vector<catalogue::Catalogue> there;
  for (const Rank rank : job->there) there.push_back(job->catalogues[rank]);
  auto find = [this, result = std::move(result), there = std::move(there),
               visit = given_.gate.MakeVisitor()]() mutable {
    result.visited = visit([&](Prefix& prefix) {
      auto files = FilesBrought(context_.env.prefix_disk, prefix, there);
      if (!files.ok()) return files.status();
      std::ranges::move(*files, std::back_inserter(result.outcome.copied));
      return absl::OkStatus();
    });
    return std::move(result);
  };
  RunBlocking(context_.env.pools.flush, given_.gate.path(), context_.loop(), std::move(find),
              [this, job](StepResult found) { CopyEnded(job, std::move(found)); });
}

void Flusher::CopyHere(const JobPtr& job, std::function<void(StepResult)> then) {
  const Dataset& dataset = *job->dataset;
  auto copy = [this, job, folder = given_.folder->DatasetPath(dataset.id), file = given_.flush_file,
               grown = given_.record.Grown(dataset.id), visit = given_.gate.MakeVisitor()] {
    StepResult result;
    result.visited = visit([&](Prefix& prefix) {
      result.outcome = CopyDataset(
          {context_.env.cache_disk, folder, job->descriptor, job->here, grown},
          {.disk = context_.env.prefix_disk, .prefix = prefix, .flush_file = *file, .committer = job->committer},
          given_.slots.throttle, *job->progress);
      for (const Elsewhere& elsewhere : job->elsewhere) {
        if (!result.outcome.status.ok()) break;
        const FlushOutcome part = CopyPart({*elsewhere.disk, elsewhere.folder, job->descriptor, elsewhere.catalogues},
                                           context_.env.prefix_disk, prefix, given_.slots.throttle, *job->progress);
        result.outcome.status = part.status;
        result.damaged_there = part.damaged_file;
        result.in_folder = elsewhere.redundant;
      }
      return result.outcome.status;
    });
    return result;
  };
  const bool from_folder = std::ranges::any_of(job->elsewhere, &Elsewhere::redundant);
  const std::string lane = from_folder ? given_.tier.LaneTo(given_.gate.path()) : given_.gate.path();
  RunBlocking(context_.env.pools.flush, lane, context_.loop(), std::move(copy), std::move(then));
}

void Flusher::CopyEnded(const JobPtr& job, StepResult result) {
  given_.slots.CopyEnds(job->progress);
  result.outcome.status = result.visited.status;
  TakeFindings(*job, result);
  if (!result.outcome.status.ok() && result.in_folder) given_.tier.LookAgain();
  if (absl::IsDataLoss(result.outcome.status) && !result.damaged_there.empty() && result.in_folder) {
    End(*job);
    given_.tier.FoundDamaged(job->dataset, std::string(MessageOf(result.outcome.status)));
  } else if (absl::IsDataLoss(result.outcome.status) && !result.damaged_there.empty()) {
    PartIsBad(job, result.damaged_there, result.outcome.status);
  } else if (!result.outcome.status.ok()) {
    Failed(job, result.outcome);
  } else if (context_.quiescing() || given_.gate.replaced() || job->progress->stop) {
    End(*job);  // the next start goes on with what has arrived
  } else {
    job->state = Job::State::kCopied;
    job->copied = std::move(result.outcome.copied);
  }
  reports_.on_step();
}

// --- The second step: in place, and committed ---

void Flusher::CommitNext() {
  if (context_.quiescing() || given_.gate.replaced()) return;
  if (const Launch* newest = given_.ledger.newest(); newest != nullptr && newest->provisional) return;
  for (const auto& [id, job] : std::map(jobs_)) {
    if (job->running()) return;
    if (job->state != Job::State::kCopied) continue;
    if (const DatasetId newer = given_.growing.NewerOver(id, job->catalogues); newer != 0) {
      GiveUp(job, fmt::format("dataset {}, which is newer, has put files under names of dataset {}", newer, id));
      return context_.loop().Post([this] { reports_.on_step(); });
    }
    using Change = PrefixGate::Change;
    const auto lease = given_.gate.TryTake(job->dataset->kind.files ? Change::kCommitFiles : Change::kCommit);
    if (lease) Commit(job, lease);
    return;
  }
}

void Flusher::Commit(const JobPtr& job, const std::shared_ptr<PrefixGate::Lease>& lease) {
  CAIRN_CHECK(given_.gate.prefix() != nullptr);
  job->state = Job::State::kCommitting;
  job->committer = given_.keeper.committer();
  ++given_.slots.commits;
  auto commit = [this, job, folder = given_.folder->DatasetPath(job->dataset->id), file = given_.flush_file,
                 views = context_.config.prefix.views, visit = given_.gate.MakeVisitor()] {
    StepResult result;
    result.visited = visit([&](Prefix& prefix) {
      result.outcome =
          CommitCopied({context_.env.cache_disk, folder, job->descriptor, job->catalogues, {}, job->there},
                       {context_.env.prefix_disk, prefix, *file, views, job->committer}, job->copied, job->gave_way);
      return result.outcome.status;
    });
    return result;
  };
  auto go = [this, job, lease, commit] {
    context_.OnPrefix(given_.gate.path(), commit, [this, job, lease](StepResult result) {
      CommitEnded(job, std::move(result));
      lease->End();
    });
  };
  if (!job->dataset->kind.files) return go();
  // After a crash this node's record says which datasets may have been withdrawn for this one's files.
  given_.record.Store([go](const absl::Status&) { go(); });
}

void Flusher::CommitEnded(const JobPtr& job, StepResult result) {
  --given_.slots.commits;
  const DatasetPtr dataset = job->dataset;
  const DatasetId id = dataset->id;
  result.outcome.status = result.visited.status;
  const bool committed = result.outcome.status.ok();
  if (committed) {  // this node's record tells it together with what gave way
    given_.ledger.Committed(*dataset);
    given_.record.Settled(id);
    given_.growing.Committed(id);
    if (!job->there.empty()) given_.away.OnPrefix(*dataset);
  }
  TakeFindings(*job, result);
  if (!committed) return Failed(job, result.outcome);
  jobs_.erase(id);
  given_.inventory.CommittedHere(id);
  spdlog::info("{}: {} bytes are on the prefix", TextOf(*dataset), dataset->bytes());
  given_.record.Store();
  given_.removals.ApplyPolicy();
}

// What either step has found out besides.
void Flusher::TakeFindings(Job& job, const StepResult& result) {
  given_.gate.VisitEnded(result.visited);
  for (const std::string& warning : result.outcome.warnings) {
    context_.Warn(fmt::format("{}: {}", TextOf(*job.dataset), warning));
  }
  for (const auto& [id, catalogues] : result.outcome.withdrawn) {
    given_.removals.GaveWay(id, job.dataset->id);
    job.gave_way.emplace(id, catalogues);
  }
}

// --- What goes wrong ---

void Flusher::Failed(const JobPtr& job, const FlushOutcome& outcome) {
  const DatasetPtr dataset = job->dataset;
  const absl::Status& status = outcome.status;
  if (outcome.too_late) {
    const std::optional<std::string> scrs = TakenByScr(status);
    if (scrs) given_.ledger.IdTaken(*dataset, /*history=*/false, *scrs);
    return GiveUp(job, std::string(MessageOf(status)));
  }
  if (outcome.fenced) return WasFenced(job, outcome);
  if (absl::IsDataLoss(status) && !outcome.damaged_file.empty()) {
    // The cached copy is damaged: another try would read the same bytes.
    End(*job);
    context_.Warn(fmt::format("{}: {}", TextOf(*dataset), MessageOf(status)));
    given_.cache.FoundDamaged(dataset, outcome.damaged_file, status);
    return given_.removals.Tidy();
  }
  if (context_.quiescing() || given_.gate.replaced() || given_.watch.lost() || job->progress->stop) return End(*job);
  if (absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) given_.watch.Look();
  BackOff(job, status);
}

// In another node's cache: another try would read the same bytes. It is for a flush after this one, if it can be made
// anew.
void Flusher::PartIsBad(const JobPtr& job, const std::string& file, const absl::Status& why) {
  End(*job);
  const std::string text(MessageOf(why));
  if (!given_.cache.MakeAnew(job->dataset, file, text)) given_.cache.GiveUpParts(job->dataset, text);
  given_.removals.Tidy();
}

void Flusher::GiveUp(const JobPtr& job, const std::string& why) {
  const DatasetPtr dataset = job->dataset;
  End(*job);
  given_.ledger.CameTooLate(*dataset);
  given_.record.Store();
  context_.Warn(fmt::format("{}: given up: {}", TextOf(*dataset), why));
  // First its other directories are closed: of one that is removed nobody can tell whose a place is.
  given_.growing.CloseThen(dataset->id, [this, id = dataset->id, catalogues = job->catalogues] {
    given_.removals.RemoveTooLate(id, catalogues);
  });
}

// A newer launch was made before the commit. If it is this daemon's own, the dataset is committed again under that. If
// it is another's: what was committed is there, and can be restored by its number; what would have taken another's
// names stays in the cache.
void Flusher::WasFenced(const JobPtr& job, const FlushOutcome& outcome) {
  const Launch* newest = given_.ledger.newest();
  if (newest == nullptr || newest->ours) {
    given_.keeper.LookForNewest();
    return BackOff(job, outcome.status);
  }
  const DatasetPtr dataset = job->dataset;
  End(*job);
  given_.ledger.Fenced(*dataset, outcome.there);
  if (outcome.there) {
    given_.record.Settled(dataset->id);
    given_.growing.Committed(dataset->id);
  }
  given_.record.Store();
  context_.Warn(fmt::format("{}: {}", TextOf(*dataset), MessageOf(outcome.status)));
}

void Flusher::BackOff(const JobPtr& job, const absl::Status& why) {
  const Config::Flush& policy = context_.config.flush;
  job->error = MessageOf(why);
  job->state = Job::State::kBackingOff;
  job->copied.clear();
  const std::uint64_t doubled = policy.retry_ms_min << std::min<std::uint32_t>(job->tries - 1, 20);
  const std::chrono::milliseconds pause(std::min(doubled, policy.retry_ms_max));
  job->retry_at = context_.now() + pause;
  const std::string text =
      fmt::format("{} failed, next try in {} ms: {}", TextOf(*job->dataset), pause.count(), job->error);
  IsFenced(why) ? spdlog::info("{}", text) : context_.Warn(text);
  job->timer = context_.loop().After(pause, [this, job] {
    job->timer = 0;
    job->state = Job::State::kWaiting;
    reports_.look_again();
  });
}

std::string Flusher::ErrorOf(DatasetId id) const {
  const auto job = jobs_.find(id);
  return job == jobs_.end() ? "" : job->second->error;
}

std::vector<admin::FlushStatus> Flusher::Describe() const {
  const auto ms = [](SteadyTime::duration time) {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
  };
  const SteadyTime now = context_.now();
  std::vector<admin::FlushStatus> all;
  for (const auto& [id, job] : jobs_) {
    admin::FlushStatus& flush = all.emplace_back();
    flush.set_dataset(id);
    flush.set_step(job->dataset->step);
    const bool running = job->running();
    flush.set_state(running                                 ? "running"
                    : job->state == Job::State::kCopied     ? "copied"
                    : job->state == Job::State::kBackingOff ? "backing off"
                                                            : "waiting");
    const std::uint64_t done = job->progress->bytes_done;
    flush.set_bytes_done(done);
    flush.set_bytes(job->dataset->bytes());
    const std::uint64_t took_ms = ms(now - job->started);
    if (running && took_ms > 0) flush.set_bytes_per_s(done * 1000 / took_ms);
    flush.set_error(job->error);
    if (job->state == Job::State::kBackingOff && job->retry_at > now) flush.set_retry_in_ms(ms(job->retry_at - now));
  }
  return all;
}

}  // namespace cairn
