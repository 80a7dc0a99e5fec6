// Which datasets are flushed, the second step of each flush, and what goes wrong. The first step is in flusher_copy.cc.
#include "daemon/core/flusher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

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

bool Flusher::Hangs(const Job& job) const {
  return HasStalled(job) && !job.progress->queued;
}

// Also one that no thread of its lane has begun yet.
bool Flusher::HasStalled(const Job& job) const {
  return job.state == Job::State::kCopying && given_.slots.HasStalled(job.progress, context_.now(), stalled());
}

// A prefix that hangs gets none. Of this run as many as may be in flight may hang besides.
std::uint32_t Flusher::FreeSlots() {
  std::uint32_t in_flight = 0, hanging = 0;
  for (const auto& [id, job] : jobs_) {
    if (!job->in_flight()) continue;
    ++in_flight;
    hanging += Hangs(*job);
  }
  const std::uint32_t parallel = context_.config.flush.parallel;
  const std::uint32_t counted = in_flight - std::min(hanging, parallel);
  const std::uint32_t taken = std::max(given_.slots.CopiesMoving(context_.now(), stalled()), counted);
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
    CommitNext();  // one that waits for a copy may wait for it no longer
    // Also where nothing is planned just now: those that are copied behind it wait.
    const auto copies = [](const auto& item) { return item.second->state == Job::State::kCopying; };
    if (std::ranges::any_of(jobs_, copies)) LookAgain();
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
  } else if (at != jobs_.end() && at->second->state == Job::State::kNotNoted) {
    context_.loop().Cancel(std::exchange(at->second->timer, 0));
    at->second->state = Job::State::kCopied;
    CommitNext();
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

// --- The second step: in place, and committed ---

void Flusher::CommitNext() {
  if (context_.quiescing() || given_.gate.replaced()) return;
  if (const Launch* newest = given_.ledger.newest(); newest != nullptr && newest->provisional) return;
  std::vector<JobPtr> hanging;
  for (const auto& [id, job] : std::map(jobs_)) {
    const bool hangs = HasStalled(*job);  // what waits behind copies that hang is not waited for either
    if (hangs) hanging.push_back(job);
    if (job->running() && !hangs) return;
    if (job->state != Job::State::kCopied) continue;
    if (std::ranges::any_of(hanging, [&](const JobPtr& older) { return MustWaitFor(*older, *job); })) continue;
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

// The copy writes under final names, and takes away what it does not know there.
bool Flusher::MustWaitFor(const Job& older, const Job& newer) const {
  const std::set<std::string> grown = given_.record.Grown(older.dataset->id);
  return std::ranges::any_of(grown,
                             [&newer](const std::string& name) { return Growing::HasFilesIn(name, newer.catalogues); });
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
  // After a crash this node's record says which datasets may have been withdrawn for this one's files. Without that
  // note the next daemon takes it that somebody has removed them: they would leave the cache, where they are whole, and
  // no restart would choose them. So nobody is withdrawn before it is stored. A cache that is full may refuse it: what
  // replaces nobody does not wait for it, or nothing would ever leave that cache.
  const std::set<DatasetId> older = WhomItMayReplace(*job);
  if (older.empty()) return go();
  given_.record.MayReplace(job->dataset->id, older);
  given_.record.Store([this, job, lease, go, older](const absl::Status& stored) {
    if (given_.record.MayReplaceIsStored(job->dataset->id, older)) return go();
    --given_.slots.commits;
    NotNoted(job, stored);
    lease->End();
  });
}

// Those of which the next daemon would have to know: what this cache does not have is not lost with a wrong guess.
std::set<DatasetId> Flusher::WhomItMayReplace(const Job& job) const {
  std::set<DatasetId> older;
  if (!job.dataset->kind.files) return older;
  std::set<std::string_view> names;
  for (const catalogue::Catalogue& catalogue : job.catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) names.insert(file.prefix_name());
  }
  const auto is_common = [&names](const catalogue::FileEntry& file) { return names.contains(file.prefix_name()); };
  for (const auto& [id, dataset] : given_.ledger.InPlay()) {
    if (id >= job.dataset->id || !dataset->kind.files || !dataset->in_prefix() || dataset->gave_way()) continue;
    if (!dataset->in_cache() && !dataset->in_folder()) continue;
    const bool common = !dataset->described() || std::ranges::any_of(dataset->parts, [&](const Part& part) {
      return std::ranges::any_of(part.catalogue.file(), is_common);
    });
    if (common) older.insert(id);
  }
  return older;
}

// What is copied stays so: only the commit is tried again.
void Flusher::NotNoted(const JobPtr& job, const absl::Status& why) {
  if (context_.quiescing() || given_.gate.replaced() || given_.watch.lost() || job->progress->stop) return End(*job);
  job->state = Job::State::kNotNoted;
  Pause(job, Annotate(why, "what is to be replaced on the prefix cannot be noted"), [this, job] {
    job->state = Job::State::kCopied;
    CommitNext();
    reports_.look_again();
  });
  ++job->tries;
  context_.loop().Post([this] { reports_.look_again(); });  // another may have its slot meanwhile
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
  job->state = Job::State::kBackingOff;
  job->copied.clear();
  Pause(job, why, [this, job] {
    job->state = Job::State::kWaiting;
    reports_.look_again();
  });
}

void Flusher::Pause(const JobPtr& job, const absl::Status& why, std::function<void()> then) {
  const Config::Flush& policy = context_.config.flush;
  job->error = MessageOf(why);
  const std::uint64_t doubled = policy.retry_ms_min << std::min<std::uint32_t>(job->tries - 1, 20);
  const std::chrono::milliseconds pause(std::min(doubled, policy.retry_ms_max));
  job->retry_at = context_.now() + pause;
  const std::string text =
      fmt::format("{} failed, next try in {} ms: {}", TextOf(*job->dataset), pause.count(), job->error);
  IsFenced(why) ? spdlog::info("{}", text) : context_.Warn(text);
  job->timer = context_.loop().After(pause, [job, then = std::move(then)] {
    job->timer = 0;
    then();
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
    const bool pauses = job->state == Job::State::kBackingOff || job->state == Job::State::kNotNoted;
    flush.set_state(running                             ? "running"
                    : job->state == Job::State::kCopied ? "copied"
                    : pauses                            ? "backing off"
                                                        : "waiting");
    const std::uint64_t done = job->progress->bytes_done;
    flush.set_bytes_done(done);
    flush.set_bytes(job->dataset->bytes());
    const std::uint64_t took_ms = ms(now - job->started);
    if (running && took_ms > 0) flush.set_bytes_per_s(done * 1000 / took_ms);
    flush.set_error(job->error);
    if (pauses && job->retry_at > now) flush.set_retry_in_ms(ms(job->retry_at - now));
  }
  return all;
}

}  // namespace cairn
