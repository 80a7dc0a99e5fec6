// To the prefix and out of the cache. What to do is decided in daemon/flusher/policy.h; here it is done: a flush runs
// in its pool, at most flush.parallel at once and one a run (commits keep their order), and comes back with a status.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

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
                         return item.second->launch == newest->id && item.second->in_cache;
                       });
  const DatasetPtr last = over && config_.flush.every > 0 ? run.ledger.NewestRestorable() : nullptr;
  for (const auto& [id, dataset] : run.ledger.datasets()) {
    facts.push_back({.id = id,
                     .step = dataset->step,
                     .ordinal = dataset->ordinal,
                     .checkpoint = dataset->checkpoint && !dataset->outdated,
                     .output = dataset->output,
                     .own_files = dataset->files,
                     .safe = (dataset->in_cache || dataset->in_prefix) && !dataset->damaged,
                     .in_cache = dataset->in_cache,
                     .in_prefix = dataset->in_prefix,
                     .flushing = run.flushes.contains(id),
                     .dropped = run.flush_dropped.contains(id),
                     .pinned = dataset->pinned,
                     .held = dataset->readers > 0 || (!over && !has_own && id == run.restored) ||
                             run.ledger.PinnedByLaunch(id) || (restarting && run.restored_files.contains(id)),
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
}

void CoreImpl::PlanFlushesOf(const RunPtr& run) {
  if (run->removals > 0) return;  // it may take away what a flush has just put there
  const bool running = std::any_of(run->flushes.begin(), run->flushes.end(),
                                   [](const auto& item) { return item.second->state == FlushJob::State::kRunning; });
  const std::uint32_t free = config_.flush.parallel - std::min(flushes_running_, config_.flush.parallel);
  // A copy that was found damaged meanwhile, or has left the cache, cannot be flushed.
  std::erase_if(run->flushes, [](const auto& item) {
    return item.second->state == FlushJob::State::kWaiting && !item.second->dataset->in_cache;
  });
  // What waits for a slot after a failed try comes first: it is older.
  if (!running && free > 0) {
    for (auto& [id, job] : run->flushes) {
      if (job->state == FlushJob::State::kWaiting) return RunFlush(run, job);
    }
  }
  const FlushPlan plan = PlanFlushes(FactsOf(*run), config_.flush, running ? 0 : std::min(free, 1u));
  for (const FlushPlan::Dropped& dropped : plan.drop) {
    run->flush_dropped.insert(dropped.id);
    StoreFlushRecord(run);
    spdlog::info("run {}: dataset {} is not flushed: superseded by dataset {}", run->name, dropped.id,
                 dropped.successor);
  }
  for (DatasetId id : plan.start) StartFlush(run, run->ledger.Get(id));
}

void CoreImpl::StartFlush(const RunPtr& run, const DatasetPtr& dataset) {
  CAIRN_CHECK(dataset != nullptr);
  auto job = std::make_shared<FlushJob>();
  job->dataset = dataset;
  job->progress = std::make_shared<TransferProgress>();
  run->flushes[dataset->id] = job;
  RunFlush(run, job);
}

namespace {

// The flush itself; blocks. The catalogues go last: what they describe is there then.
absl::Status FlushDataset(Disk& cache_disk, Disk& prefix_disk, CacheFolder& cache, Prefix& prefix,
                          const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                          Throttle& throttle, TransferProgress& progress, std::string* damaged_file) {
  scr::FlushEntry entry{.name = descriptor.name,
                        .in_cache = true,
                        .flushing = true,
                        .checkpoint = descriptor.checkpoint,
                        .output = descriptor.output,
                        .descriptor = descriptor};
  CAIRN_RETURN_IF_ERROR(prefix.PutFlush(descriptor.id, entry));
  std::vector<CopyJob> jobs;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      jobs.push_back({.from = cache.DatasetPath(descriptor.id) + "/" + file.name(),
                      .to = prefix.FilePath(file.prefix_name()),
                      .entry = &file});
    }
  }
  std::size_t damaged = jobs.size();
  if (absl::Status copied = CopyFiles(cache_disk, prefix_disk, jobs, throttle, progress, &damaged); !copied.ok()) {
    if (absl::IsNotFound(copied)) {
      for (const CopyJob& job : jobs) {
        if (!absl::IsNotFound(cache_disk.Info(job.from).status())) continue;
        *damaged_file = job.entry->name();
        return DataLoss("{}: missing", job.from);
      }
    }
    if (absl::IsDataLoss(copied) && damaged < jobs.size()) *damaged_file = jobs[damaged].entry->name();
    return copied;
  }
  for (const catalogue::Catalogue& catalogue : catalogues) {
    CAIRN_RETURN_IF_ERROR(prefix.StoreCatalogue(catalogue));
  }
  absl::Status committed = prefix.Commit(descriptor, catalogues);
  if (!committed.ok() && committed.code() != absl::StatusCode::kAlreadyExists) return committed;
  entry.flushing = false;
  entry.in_prefix = true;
  return prefix.PutFlush(descriptor.id, entry);
}

}  // namespace

void CoreImpl::RunFlush(const RunPtr& run, const std::shared_ptr<FlushJob>& job) {
  job->state = FlushJob::State::kRunning;
  job->started = loop_->now();
  job->progress->bytes_done = 0;
  ++flushes_running_;
  ++job->tries;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Part& part : job->dataset->parts) catalogues.push_back(part.catalogue);
  auto work = [this, cache = run->cache, prefix = run->prefix, run_id = run->id, path = run->prefix_path,
               descriptor = DescriptorOf(*job->dataset, true), catalogues = std::move(catalogues),
               progress = job->progress]() mutable {
    FlushResult result;
    auto other = [&](const RunId& found) {
      if (found != RunId()) result.found = found;
      return FailedPrecondition("{}: the prefix is run {} now", path, found.Hex());
    };
    result.status = [&]() -> absl::Status {
      if (!prefix) {
        // A daemon that has just started knows the run from its cache only. It never makes a prefix anew for a flush.
        CAIRN_ASSIGN_OR_RETURN(auto seen, Prefix::OpenReadOnly(prefix_disk_, path));
        if (seen->run() != run_id) return other(seen->run());
        CAIRN_ASSIGN_OR_RETURN(auto opened, Prefix::Open(prefix_disk_, path));
        prefix = std::move(opened);
      }
      CAIRN_ASSIGN_OR_RETURN(const RunId now, prefix->CurrentRun());
      if (now != run_id) return other(now);
      return FlushDataset(cache_disk_, prefix_disk_, *cache, *prefix, descriptor, catalogues, throttle_, *progress,
                          &result.damaged_file);
    }();
    result.prefix = std::move(prefix);
    return result;
  };
  RunBlocking(*flush_pool_, *loop_, std::move(work),
              [this, run, job](FlushResult result) { FlushEnded(run, job, std::move(result)); });
}

void CoreImpl::FlushEnded(const RunPtr& run, const std::shared_ptr<FlushJob>& job, FlushResult result) {
  --flushes_running_;
  const DatasetPtr& dataset = job->dataset;
  const std::string what = fmt::format("run {}: flush of dataset {} (step {})", run->name, dataset->id, dataset->step);
  if (!run->prefix && result.prefix && !run->replaced) run->prefix = std::move(result.prefix);
  const absl::Status& status = result.status;
  if (result.found) Replaced(run, *result.found);
  if (status.ok()) {
    run->flushes.erase(dataset->id);
    run->asked.erase(dataset->id);
    dataset->in_prefix = true;
    run->flushed.insert(dataset->id);
    spdlog::info("{}: {} bytes are on the prefix", what, dataset->bytes());
    StoreFlushRecord(run);
    for (DatasetId id : PrefixRemovals(FactsOf(*run), config_.prefix)) {
      if (DatasetPtr old = run->ledger.Get(id)) Unprefix(run, old);
    }
    for (const DatasetPtr& old : OverwrittenBy(*run, *dataset)) {
      Warn(fmt::format("{}: it has replaced files of dataset {} by the same names", what, old->id));
      Unprefix(run, old);
    }
  } else if (status.code() == absl::StatusCode::kDataLoss && !result.damaged_file.empty()) {
    // The cached copy is damaged: another try would read the same bytes.
    run->flushes.erase(dataset->id);
    Warn(fmt::format("{}: {}", what, MessageOf(status)));
    CachedCopyIsDamaged(run, dataset, result.damaged_file, status);
  } else if (quiescing_ || run->replaced || job->progress->stop) {
    run->flushes.erase(dataset->id);
  } else {
    job->error = MessageOf(status);
    job->state = FlushJob::State::kBackingOff;
    const std::uint64_t doubled = config_.flush.retry_ms_min << std::min<std::uint32_t>(job->tries - 1, 20);
    const std::chrono::milliseconds pause(std::min(doubled, config_.flush.retry_ms_max));
    job->retry_at = loop_->now() + pause;
    Warn(fmt::format("{} failed, next try in {} ms: {}", what, pause.count(), job->error));
    job->timer = loop_->After(pause, [this, run, job] {
      job->timer = 0;
      job->state = FlushJob::State::kWaiting;
      ApplyPolicy(run);
    });
  }
  for (auto& next : std::exchange(run->after_flush, {})) next();
  Changed(run);
  // A slot is free for the other runs, too.
  for (auto& [id, other] : runs_) {
    if (other != run) ApplyPolicy(other);
  }
}

// It goes aside, and nothing is built upon it.
void CoreImpl::CachedCopyIsDamaged(const RunPtr& run, const DatasetPtr& dataset, const std::string& file,
                                   const absl::Status& why) {
  dataset->in_cache = false;
  dataset->damaged = !dataset->in_prefix;
  DistrustDigests(*run);
  ChangeFolder(run, dataset->id, [cache = run->cache, id = dataset->id, file, text = std::string(MessageOf(why))] {
    return cache->SetAside(id, file, text);
  });
}

// The application's own files keep their names: a later dataset may have put others in their place.
std::vector<CoreImpl::DatasetPtr> CoreImpl::OverwrittenBy(const Run& run, const Dataset& dataset) const {
  std::vector<DatasetPtr> overwritten;
  if (!dataset.files) return overwritten;
  std::set<std::string> names;
  for (const Part& part : dataset.parts) {
    for (const catalogue::FileEntry& file : part.catalogue.file()) names.insert(file.prefix_name());
  }
  for (const auto& [id, other] : run.ledger.datasets()) {
    if (!other->files || !other->in_prefix || !other->described || id == dataset.id) continue;
    const bool hit = std::any_of(other->parts.begin(), other->parts.end(), [&names](const Part& part) {
      return std::any_of(part.catalogue.file().begin(), part.catalogue.file().end(),
                         [&names](const auto& file) { return names.contains(file.prefix_name()); });
    });
    if (hit) overwritten.push_back(other);
  }
  return overwritten;
}

void CoreImpl::Unprefix(const RunPtr& run, const DatasetPtr& dataset) {
  RemoveFromPrefix(run, dataset, [this, id = dataset->id](const absl::Status& removed) {
    if (!removed.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(removed)));
  });
}

// --- Eviction, removal ---

std::uint64_t CoreImpl::CacheBytesUsed() const {
  std::uint64_t used = 0;
  for (const auto& [id, run] : runs_) {
    for (const auto& [dataset_id, dataset] : run->ledger.datasets()) {
      // What is on its way counts as planned; what is only on the prefix does not count.
      if (dataset->in_cache || (!dataset->in_prefix && !dataset->damaged)) used += dataset->bytes();
    }
  }
  return used;
}

// What is surely on the disk of that: clones may share nearly all that they have.
std::uint64_t CoreImpl::CacheBytesOccupied() const {
  std::uint64_t occupied = 0;
  for (const auto& [id, run] : runs_) {
    std::uint64_t sum = 0, largest = 0;
    for (const auto& [dataset_id, dataset] : run->ledger.datasets()) {
      if (!dataset->in_cache) continue;
      sum += dataset->bytes();
      largest = std::max(largest, dataset->bytes());
    }
    occupied += run->cache->shares_extents() ? largest : sum;
  }
  return occupied;
}

// `spare`, if given, makes room by giving its files to what is to come.
absl::Status CoreImpl::EnsureRoom(const RunPtr& run, std::uint64_t bytes, const DatasetPtr& spare) {
  std::uint64_t used = CacheBytesUsed();
  if (spare) used -= std::min(used, spare->bytes());
  auto fits = [&] { return bytes <= cache_bytes_max_ && used <= cache_bytes_max_ - bytes; };
  if (fits()) return absl::OkStatus();
  // Nobody loses anything for what will not fit anyway.
  std::vector<std::pair<RunPtr, DatasetId>> leaving;
  // The run that wants room gives way first.
  std::vector<RunPtr> order{run};
  for (const auto& [id, other] : runs_) {
    if (other != run) order.push_back(other);
  }
  for (const RunPtr& owner : order) {
    if (fits() || bytes > cache_bytes_max_) break;
    const std::uint64_t missing = used + std::min(bytes, cache_bytes_max_) - cache_bytes_max_;
    std::vector<DatasetFacts> facts = FactsOf(*owner);
    for (DatasetFacts& dataset : facts) dataset.held |= owner == run && spare && dataset.id == spare->id;
    for (DatasetId id : EvictForRoom(facts, missing)) {
      used -= std::min(used, owner->ledger.Get(id)->bytes());
      leaving.emplace_back(owner, id);
    }
  }
  if (!fits()) {
    return ResourceExhausted("the cache {} is full: {} bytes are wanted, {} of {} are in use by what may not go",
                             config_.cache.path, bytes, used, cache_bytes_max_);
  }
  for (const auto& [owner, id] : leaving) Evict(owner, owner->ledger.Get(id), "its place was needed");
  return absl::OkStatus();
}

void CoreImpl::EvictOf(const RunPtr& run) {
  const std::vector<DatasetFacts> facts = FactsOf(*run);
  for (DatasetId id : EvictBeyondKeep(facts, config_.cache.keep, config_.flush, KeepsSpare(*run))) {
    Evict(run, run->ledger.Get(id), "cache.keep");
  }
  const Launch* newest = run->ledger.newest();
  if (config_.cache.linger_ms == 0 || (newest != nullptr && !newest->over())) {
    run->idle_since.reset();
    return;
  }
  if (!run->idle_since) {
    run->idle_since = loop_->now();
    loop_->After(std::chrono::milliseconds(config_.cache.linger_ms), [this, run] { ApplyPolicy(run); });
  }
  const auto idle = std::chrono::duration_cast<std::chrono::milliseconds>(loop_->now() - *run->idle_since);
  for (DatasetId id :
       EvictLingering(FactsOf(*run), static_cast<std::uint64_t>(idle.count()), config_.cache.linger_ms)) {
    Evict(run, run->ledger.Get(id), "cache.linger");
  }
}

void CoreImpl::Evict(const RunPtr& run, const DatasetPtr& dataset, const std::string& why) {
  if (!dataset || !dataset->in_cache) return;  // gone by what an eviction before it has set free
  LeaveCache(run, dataset, why);
  ChangeFolder(run, dataset->id, [cache = run->cache, id = dataset->id] { return cache->Remove(id); });
}

// Nobody counts on it being in the cache any more; its files are still there.
void CoreImpl::LeaveCache(const RunPtr& run, const DatasetPtr& dataset, const std::string& why) {
  spdlog::info("run {}: dataset {} (step {}) leaves the cache: {}", run->name, dataset->id, dataset->step, why);
  dataset->in_cache = false;
  if (run->kept.erase(dataset->id) > 0) RetryImageWishes();
  run->directories.erase(dataset->id);
  run->restored_files.erase(dataset->id);
  if (dataset->in_prefix) {
    // A long run has many such datasets: what describes them is read again if they are ever asked for.
    for (Part& part : dataset->parts) part.catalogue.Clear();
    dataset->described = false;
  } else {
    DatasetPtr newest = run->ledger.NewestRestorable();
    run->ledger.Forget(
        dataset->id,
        {.why = Gone::Why::kSuperseded, .message = why, .successor = newest ? newest->id : 0, .step = dataset->step});
    run->flush_dropped.erase(dataset->id);
  }
  // Who waits for it is told at once, but not from deep within a call.
  loop_->Post([this, run] { LookAtWatchers(run); });
}

// Who makes the directory anew waits for such changes.
void CoreImpl::ChangeFolder(const RunPtr& run, DatasetId id, std::function<absl::Status()> work) {
  ++run->changing[id].pending;
  BlockingCache(std::move(work), [this, run, id](const absl::Status& status) {
    if (!status.ok()) Warn(fmt::format("dataset {}: {}", id, MessageOf(status)));
    auto change = run->changing.find(id);
    if (--change->second.pending > 0) return;
    auto waiting = std::move(change->second.waiting);
    run->changing.erase(change);
    for (auto& next : waiting) next();
  });
}

void CoreImpl::RemoveFromPrefix(const RunPtr& run, const DatasetPtr& dataset, std::function<void(absl::Status)> then) {
  const bool flushing = std::any_of(run->flushes.begin(), run->flushes.end(),
                                    [](const auto& item) { return item.second->state == FlushJob::State::kRunning; });
  if (flushing) {
    run->after_flush.push_back([this, run, dataset, then] { RemoveFromPrefix(run, dataset, then); });
    return;
  }
  if (!run->prefix || run->replaced) return then(Unavailable("{} is out of reach", run->prefix_path));
  ++run->removals;
  std::vector<catalogue::Catalogue> catalogues;
  for (const Part& part : dataset->parts) {
    if (dataset->described) catalogues.push_back(part.catalogue);
  }
  dataset->in_prefix = false;
  run->flush_dropped.insert(dataset->id);  // what was removed there is not flushed again
  if (!dataset->in_cache) {
    run->ledger.Forget(dataset->id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset->step});
  }
  StoreFlushRecord(run);
  BlockingPrefix(
      [prefix = run->prefix, id = dataset->id, catalogues = std::move(catalogues)]() mutable -> absl::Status {
        if (catalogues.empty()) {
          CAIRN_ASSIGN_OR_RETURN(catalogues, prefix->Catalogues(id));
        }
        CAIRN_RETURN_IF_ERROR(prefix->Remove(id, catalogues));
        return prefix->EraseFlush(id);
      },
      [this, run, then = std::move(then)](const absl::Status& status) {
        --run->removals;
        then(status);
        Changed(run);
      });
}

// One write at a time, of the state as it is when the write begins: the last one always tells the latest. `then` hears
// of the write that tells what is so now.
void CoreImpl::StoreFlushRecord(const RunPtr& run, std::function<void(const absl::Status&)> then) {
  if (then) run->record_waiting.push_back(std::move(then));
  if (run->record_storing) {
    run->record_stale = true;
    return;
  }
  run->record_storing = true;
  kvtree::Tree record;
  for (const auto& [id, dataset] : run->ledger.datasets()) {
    if (!dataset->in_prefix && !dataset->pinned) continue;
    kvtree::Tree& entry = record.At("DATASET").At(fmt::format("{}", id));
    entry.SetBool("PREFIX", dataset->in_prefix);
    entry.SetBool("PINNED", dataset->pinned);
  }
  BlockingCache([cache = run->cache, record] { return cache->StoreFlushRecord(record); },
                [this, run, told = std::exchange(run->record_waiting, {})](const absl::Status& status) {
                  if (!status.ok()) Warn(fmt::format("run {}: {}", run->name, MessageOf(status)));
                  for (const auto& then : told) then(status);
                  run->record_storing = false;
                  if (std::exchange(run->record_stale, false)) StoreFlushRecord(run);
                });
}

}  // namespace cairn
