// To the prefix. Which datasets is decided in daemon/flusher/policy.h; here it is done, in the two steps of
// daemon/flusher/flush_work.h. At most flush.parallel datasets are copied at once, and as many of a run are in flight.
// Commits of a run keep the order of its datasets: a copied one waits, here and in no thread, while an older one is
// still copied; not for one that pauses after a failure.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/prefix/bypass.h"

namespace cairn {

std::vector<DatasetFacts> CoreImpl::FactsOf(const Run& run) const {
  std::vector<DatasetFacts> facts;
  // When the application is gone, its newest checkpoint goes to the prefix whatever the rhythm is (unless there is
  // none).
  const Launch* newest = const_cast<Ledger&>(run.ledger).newest();
  const bool over = newest == nullptr || newest->over();
  // Its application reads the files that it has restored; once it begins a dataset it is through with them.
  const bool restarting = !over && !newest->pin_ended;
  // As long as the launch has nothing better, it may have to come back to what it has restored.
  const auto& datasets = run.ledger.datasets();
  const bool has_own = newest != nullptr && std::any_of(datasets.begin(), datasets.end(), [newest](const auto& item) {
                         return item.second->launch == newest->id && item.second->level() >= Level::kLocal;
                       });
  const DatasetPtr last = over && config_.flush.every > 0 ? run.ledger.NewestRestorable() : nullptr;
  for (const auto& [id, dataset] : run.ledger.datasets()) {
    facts.push_back({.id = id,
                     .step = dataset->step,
                     .ordinal = dataset->ordinal,
                     .checkpoint = dataset->superseding(),
                     .output = dataset->output,
                     .own_files = dataset->files,
                     .safe = (dataset->in_cache || dataset->in_prefix) && !dataset->damaged,
                     .in_cache = dataset->in_cache,
                     .in_prefix = dataset->in_prefix,
                     .flushing = run.flushes.contains(id),
                     .dropped = run.flush_dropped.contains(id),
                     .pinned = dataset->pinned,
                     // An output whose id is another's on the prefix is nowhere else.
                     .held = dataset->readers > 0 || (dataset->id_taken && dataset->output) ||
                             (!over && !has_own && id == run.restored) || run.ledger.PinnedByLaunch(id) ||
                             (restarting && run.restored_files.contains(id)),
                     .gave_way = dataset->gave_way,
                     .asked = run.asked.contains(id) || dataset == last,
                     .cache_bytes = dataset->in_cache ? dataset->bytes() : 0});
  }
  return facts;
}

void CoreImpl::ApplyPolicy(const RunPtr& run) {
  if (quiescing_ || run->replaced) return;
  PlanFlushesOf(run);
  EvictOf(run);
  ForgetDigests(*run);
  UpdateFlushFile(run);
}

void CoreImpl::PlanFlushesOf(const RunPtr& run) {
  // A copy that was found damaged meanwhile, or has left the cache, cannot be flushed.
  std::erase_if(run->flushes, [](const auto& item) {
    return item.second->state == FlushJob::State::kWaiting && !item.second->dataset->in_cache;
  });
  const auto in_flight = static_cast<std::uint32_t>(std::count_if(
      run->flushes.begin(), run->flushes.end(), [](const auto& item) { return item.second->in_flight(); }));
  const std::uint32_t parallel = config_.flush.parallel;
  std::uint32_t free = parallel - std::min(parallel, std::max(flushes_running_, in_flight));
  // What waits for a slot after a failed try comes first: it is older.
  for (auto& [id, job] : run->flushes) {
    if (free == 0) break;
    if (job->state != FlushJob::State::kWaiting) continue;
    RunFlush(run, job);
    --free;
  }
  const FlushPlan plan = PlanFlushes(FactsOf(*run), config_.flush, free);
  for (const FlushPlan::Dropped& dropped : plan.drop) {
    run->flush_dropped.insert(dropped.id);
    StoreFlushRecord(run);
    spdlog::info("run {}: dataset {} is not flushed: superseded by dataset {}", run->name, dropped.id,
                 dropped.successor);
  }
  for (DatasetId id : plan.start) {
    // Steps that are still under way end first, and then it is looked again.
    if (const auto growth = run->growing.find(id); growth != run->growing.end() && growth->second.working) continue;
    StartFlush(run, run->ledger.Get(id));
  }
}

void CoreImpl::StartFlush(const RunPtr& run, const DatasetPtr& dataset) {
  CAIRN_CHECK(dataset != nullptr);
  auto job = std::make_shared<FlushJob>();
  job->dataset = dataset;
  job->progress = std::make_shared<TransferProgress>();
  run->flushes[dataset->id] = job;
  RunFlush(run, job);
}

CoreImpl::FlushResult CoreImpl::AtPrefix(const std::string& path, const RunId& run, std::shared_ptr<Prefix> prefix,
                                         const FlushStep& step) {
  FlushResult result;
  auto check = [&](const RunId& found) -> absl::Status {
    if (found == run) return absl::OkStatus();
    if (found != RunId()) result.found = found;
    return FailedPrecondition("{}: the prefix is run {} now", path, found.Hex());
  };
  result.outcome.status = [&]() -> absl::Status {
    if (!prefix) {
      // A daemon that has just started knows the run from its cache only. It never makes a prefix anew for a flush.
      CAIRN_ASSIGN_OR_RETURN(const auto seen, Prefix::OpenReadOnly(prefix_disk_, path));
      CAIRN_RETURN_IF_ERROR(check(seen->run()));
      CAIRN_ASSIGN_OR_RETURN(prefix, Prefix::Open(prefix_disk_, path));
    }
    CAIRN_ASSIGN_OR_RETURN(const RunId now, prefix->CurrentRun());
    return check(now);
  }();
  if (result.outcome.status.ok()) result.outcome = step(*prefix);
  result.prefix = std::move(prefix);
  return result;
}

// The first step: the copy.
void CoreImpl::RunFlush(const RunPtr& run, const std::shared_ptr<FlushJob>& job) {
  const DatasetId id = job->dataset->id;
  job->state = FlushJob::State::kCopying;
  job->started = clocks_.steady();
  job->progress->bytes_done = 0;
  job->descriptor = DescriptorOf(*job->dataset, true);
  job->catalogues.clear();
  for (const Part& part : job->dataset->parts) job->catalogues.push_back(part.catalogue);
  ++flushes_running_;
  ++job->tries;
  if (run->begun.insert(id).second) StoreFlushRecord(run);
  auto copy = [this, job, folder = run->cache->DatasetPath(id), file = run->flush_file,
               grown = GrownOf(*run, id)](Prefix& prefix) {
    return CopyDataset({cache_disk_, folder, job->descriptor, job->catalogues, grown}, {prefix_disk_, prefix, *file},
                       throttle_, *job->progress);
  };
  RunBlocking(
      pools_.flush, loop_,
      [this, path = run->prefix_path, run_id = run->id, prefix = run->prefix, copy] {
        return AtPrefix(path, run_id, prefix, copy);
      },
      [this, run, job](FlushResult result) { CopyEnded(run, job, std::move(result)); });
}

void CoreImpl::CopyEnded(const RunPtr& run, const std::shared_ptr<FlushJob>& job, FlushResult result) {
  --flushes_running_;
  StepEnded(run, *job, result);
  if (!result.outcome.status.ok()) {
    FlushFailed(run, job, result.outcome);
  } else if (quiescing_ || run->replaced || job->progress->stop) {
    run->flushes.erase(job->dataset->id);  // the next start goes on with what has arrived
  } else {
    job->state = FlushJob::State::kCopied;
    job->copied = std::move(result.outcome.copied);
  }
  AfterFlush(run);
}

// The oldest of those that are copied, when its turn has come.
void CoreImpl::CommitNext(const RunPtr& run) {
  const bool names_held = FilesBypass(*run);
  if (run->removals > 0 || quiescing_ || run->replaced) return;
  if (!run->after_flush.empty() && !names_held) return;
  for (auto& [id, job] : run->flushes) {
    if (job->running()) return;
    if (job->state != FlushJob::State::kCopied) continue;
    if (job->dataset->files && names_held) return;  // AfterFlush comes when they are free
    if (const DatasetId newer = NewerGrowthOver(*run, *job); newer != 0) {
      FlushOutcome outcome;
      outcome.status = Aborted("dataset {}, which is newer, has put files under names of dataset {}", newer, id);
      outcome.too_late = true;
      FlushFailed(run, job, outcome);
      return loop_.Post([this, run] { AfterFlush(run); });
    }
    return RunCommit(run, job);
  }
}

void CoreImpl::RunCommit(const RunPtr& run, const std::shared_ptr<FlushJob>& job) {
  CAIRN_CHECK(run->prefix != nullptr);
  job->state = FlushJob::State::kCommitting;
  ++commits_running_;
  auto commit = [this, job, folder = run->cache->DatasetPath(job->dataset->id), file = run->flush_file,
                 views = config_.prefix.views](Prefix& prefix) {
    return CommitCopied({cache_disk_, folder, job->descriptor, job->catalogues}, {prefix_disk_, prefix, *file, views},
                        job->copied);
  };
  auto go = [this, run, job, commit] {
    BlockingPrefix([this, path = run->prefix_path, run_id = run->id, prefix = run->prefix,
                    commit] { return AtPrefix(path, run_id, prefix, commit); },
                   [this, run, job](FlushResult result) { CommitEnded(run, job, std::move(result)); });
  };
  if (!job->dataset->files) return go();
  // After a crash this node's record says which datasets may have been withdrawn for this one's files.
  StoreFlushRecord(run, [go](const absl::Status&) { go(); });
}

void CoreImpl::CommitEnded(const RunPtr& run, const std::shared_ptr<FlushJob>& job, FlushResult result) {
  --commits_running_;
  const DatasetPtr& dataset = job->dataset;
  if (result.outcome.status.ok()) {  // this node's record tells it together with what gave way
    dataset->in_prefix = true;
    dataset->damaged = false;  // the cached copy may have been found so meanwhile
    run->begun.erase(dataset->id);
    run->growing.erase(dataset->id);
  }
  StepEnded(run, *job, result);
  if (!result.outcome.status.ok()) {
    FlushFailed(run, job, result.outcome);
    return AfterFlush(run);
  }
  run->flushes.erase(dataset->id);
  run->asked.erase(dataset->id);
  run->flushed.insert(dataset->id);
  spdlog::info("{}: {} bytes are on the prefix", FlushText(*run, *dataset), dataset->bytes());
  StoreFlushRecord(run);
  std::vector<DatasetFacts> own = FactsOf(*run);
  std::erase_if(own, [&run](const DatasetFacts& facts) { return run->ledger.Get(facts.id)->foreign; });
  for (DatasetId id : PrefixRemovals(own, config_.prefix)) {
    if (DatasetPtr old = run->ledger.Get(id)) Unprefix(run, old);
  }
  AfterFlush(run);
}

std::string CoreImpl::FlushText(const Run& run, const Dataset& dataset) {
  return fmt::format("run {}: flush of dataset {} (step {})", run.name, dataset.id, dataset.step);
}

// What either step has found out besides.
void CoreImpl::StepEnded(const RunPtr& run, const FlushJob& job, FlushResult& result) {
  if (!run->prefix && result.prefix && !run->replaced) {
    run->prefix = std::move(result.prefix);
    TidyPrefix(run);
    MakeMissingViews(run);
  }
  if (result.found) Replaced(run, *result.found);
  for (const std::string& warning : result.outcome.warnings) {
    Warn(fmt::format("{}: {}", FlushText(*run, *job.dataset), warning));
  }
  for (DatasetId id : result.outcome.withdrawn) GaveWay(run, id, job.dataset->id);
}

void CoreImpl::FlushFailed(const RunPtr& run, const std::shared_ptr<FlushJob>& job, const FlushOutcome& outcome) {
  const DatasetPtr& dataset = job->dataset;
  const std::string what = FlushText(*run, *dataset);
  const absl::Status& status = outcome.status;
  if (outcome.too_late) {
    run->flushes.erase(dataset->id);
    run->asked.erase(dataset->id);
    run->flush_dropped.insert(dataset->id);
    dataset->gave_way = true;
    StoreFlushRecord(run);
    Warn(fmt::format("{}: given up: {}", what, MessageOf(status)));
    const auto growth = run->growing.find(dataset->id);
    if (growth == run->growing.end()) return RemoveTooLate(run, job);
    // First its other directories are closed: of one that is removed nobody can tell whose a place is.
    growth->second.too_late = job;
    LookAtGrowth(run, dataset->id);
  } else if (absl::IsDataLoss(status) && !outcome.damaged_file.empty()) {
    // The cached copy is damaged: another try would read the same bytes.
    run->flushes.erase(dataset->id);
    Warn(fmt::format("{}: {}", what, MessageOf(status)));
    CachedCopyIsDamaged(run, dataset, outcome.damaged_file, status);
    TidyPrefix(run);
  } else if (quiescing_ || run->replaced || job->progress->stop) {
    run->flushes.erase(dataset->id);
  } else {
    job->error = MessageOf(status);
    job->state = FlushJob::State::kBackingOff;
    job->copied.clear();
    const std::uint64_t doubled = config_.flush.retry_ms_min << std::min<std::uint32_t>(job->tries - 1, 20);
    const std::chrono::milliseconds pause(std::min(doubled, config_.flush.retry_ms_max));
    job->retry_at = clocks_.steady() + pause;
    Warn(fmt::format("{} failed, next try in {} ms: {}", what, pause.count(), job->error));
    job->timer = loop_.After(pause, [this, run, job] {
      job->timer = 0;
      job->state = FlushJob::State::kWaiting;
      ApplyPolicy(run);
    });
  }
}

// What has arrived of it is of no use any more. A dataset of SCR's that has its number is not touched.
void CoreImpl::RemoveTooLate(const RunPtr& run, const std::shared_ptr<FlushJob>& job) {
  const bool committing = std::any_of(run->flushes.begin(), run->flushes.end(), [](const auto& item) {
    return item.second->state == FlushJob::State::kCommitting;
  });
  if (committing || FilesBypass(*run)) {
    return run->after_flush.push_back([this, run, job] { RemoveTooLate(run, job); });
  }
  if (!run->prefix || run->replaced) return;  // the record stays, for the next start
  ++run->removals;
  const DatasetId id = job->dataset->id;
  BlockingPrefix(
      [this, prefix = run->prefix, id, job] { return RemoveUnfinished(prefix_disk_, *prefix, id, job->catalogues); },
      [this, run, id](const absl::Status& removed) {
        --run->removals;
        if (removed.ok() || absl::IsFailedPrecondition(removed)) {
          run->begun.erase(id);
          StoreFlushRecord(run);
        } else {
          Warn(fmt::format("dataset {}: {}", id, MessageOf(removed)));
        }
        AfterFlush(run);
      });
}

// First removals, then commits, then new copies, the other runs' before this one's: it has had its turn.
void CoreImpl::AfterFlush(const RunPtr& run) {
  for (auto& next : std::exchange(run->after_flush, {})) next();
  CommitNext(run);
  for (auto& [id, other] : runs_) {
    if (other != run) ApplyPolicy(other);
  }
  Changed(run);
}

// It goes aside, and nothing is built upon it.
void CoreImpl::CachedCopyIsDamaged(const RunPtr& run, const DatasetPtr& dataset, const std::string& file,
                                   const absl::Status& why) {
  dataset->in_cache = false;
  dataset->damaged = !dataset->in_prefix;
  dataset->why_damaged = MessageOf(why);
  DistrustDigests(*run);
  ChangeFolder(run, dataset->id, [cache = run->cache, id = dataset->id, file, text = dataset->why_damaged] {
    return cache->SetAside(id, file, text);
  });
}

// The application's own files keep their names: a newer dataset is about to put, or has put, others in their place.
void CoreImpl::GaveWay(const RunPtr& run, DatasetId id, DatasetId to) {
  const DatasetPtr dataset = run->ledger.Get(id);
  if (!dataset) return;
  const std::string why = fmt::format("dataset {} has replaced files of dataset {} by the same names", to, id);
  Warn(fmt::format("run {}: {}", run->name, why));
  dataset->in_prefix = false;
  dataset->gave_way = true;
  if (dataset->in_cache) {
    run->flush_dropped.insert(id);
  } else {
    run->ledger.Forget(id, {.why = Gone::Why::kSuperseded, .message = why, .successor = to, .step = dataset->step});
  }
  StoreFlushRecord(run);
}

// In the background, and together: what it cannot write now is written with the next change.
void CoreImpl::UpdateFlushFile(const RunPtr& run) {
  using Place = FlushFile::Place;
  std::set<DatasetId> cached;
  for (const auto& [id, dataset] : run->ledger.datasets()) {
    if (!dataset->in_cache) continue;
    cached.insert(id);
    // Meanwhile the flush itself says what is so.
    if (const auto job = run->flushes.find(id); job != run->flushes.end() && job->second->in_flight()) continue;
    const Place place = dataset->in_prefix ? Place::kCacheAndPrefix : Place::kCache;
    if (!run->flush_file->Says(id, place)) run->flush_file->Put(DescriptorOf(*dataset, true), place);
  }
  run->flush_file->KeepOnly(cached);
  if (!run->prefix || run->flush_file_writing || !run->flush_file->stale()) return;
  run->flush_file_writing = true;
  auto write = [prefix = run->prefix, run_id = run->id, file = run->flush_file]() -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(const RunId now, prefix->CurrentRun());  // a prefix that is gone is not made anew
    if (now != run_id) return FailedPrecondition("{}: the prefix is run {} now", prefix->path(), now.Hex());
    return file->Write(*prefix);
  };
  BlockingPrefix(std::move(write), [this, run](const absl::Status& status) {
    run->flush_file_writing = false;
    if (status.ok()) {
      run->flush_file_failed = false;
      if (!quiescing_ && !run->replaced) UpdateFlushFile(run);
    } else if (!std::exchange(run->flush_file_failed, true)) {
      Warn(fmt::format("run {}: {}", run->name, MessageOf(status)));
    }
  });
}

}  // namespace cairn
