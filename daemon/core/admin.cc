// What the `cairn` command asks. Each question is posted to the strand and answered there.
#include <algorithm>
#include <chrono>

#include "daemon/core/core_impl.h"
#include "daemon/version.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

local::Status StatusMessage(const absl::Status& status) {
  local::Status out;
  SetStatus(status, &out);
  return out;
}

std::uint64_t MsSince(std::chrono::steady_clock::time_point then, std::chrono::steady_clock::time_point now) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count());
}

std::uint64_t BytesWritten(const Part& part) {
  std::uint64_t sum = 0;
  for (const catalogue::FileEntry& file : part.catalogue.file()) sum += file.bytes_written();
  return sum;
}

std::vector<admin::GrowingDirectory> GrowingOf(const Run& run, DatasetId id) {
  std::vector<admin::GrowingDirectory> rows;
  const auto growth = run.growing.find(id);
  if (growth == run.growing.end()) return rows;
  for (const auto& [name, directory] : growth->second.directories) {
    admin::GrowingDirectory& row = rows.emplace_back();
    row.set_name(name);
    row.set_dataset(id);
    row.set_steps_complete(directory.followed.complete);
    row.set_steps_flushed(directory.followed.flushed);
    row.set_bytes(directory.followed.bytes);
    row.set_error(directory.error.empty() ? growth->second.error : directory.error);
  }
  return rows;
}

}  // namespace

// A path of a prefix, an identity or a beginning of it (at least 4 digits), or the run's name.
absl::StatusOr<CoreImpl::RunPtr> CoreImpl::FindRun(const std::string& name) const {
  std::vector<RunPtr> found;
  for (const auto& [id, run] : runs_) {
    const std::string hex = id.Hex();
    if (run->prefix_path == name || run->name == name || run->name + "-" + id.ShortHex() == name ||
        (name.size() >= 4 && hex.starts_with(name))) {
      found.push_back(run);
    }
  }
  // Of two runs at one path the one that lives there now is meant.
  if (found.size() > 1) std::erase_if(found, [](const RunPtr& run) { return run->replaced; });
  if (found.empty()) return NotFound("no run {} is known to this daemon", name);
  if (found.size() > 1)
    return InvalidArgument("{} is the name of {} runs: say the prefix or the identity", name, found.size());
  return found.front();
}

admin::DatasetRow CoreImpl::RowOf(const Run& run, const Dataset& dataset) const {
  admin::DatasetRow row;
  row.set_run(run.id.Hex());
  row.set_prefix(run.prefix_path);
  row.set_dataset(dataset.id);
  row.set_launch(dataset.launch);
  row.set_step(dataset.step);
  row.set_nranks(dataset.nranks);
  row.set_checkpoint(dataset.checkpoint);
  row.set_output(dataset.output);
  row.set_files(dataset.files);
  row.set_level(static_cast<local::Level>(dataset.level()));
  row.set_state(dataset.damaged                          ? "damaged"
                : dataset.level() < Level::kLocal        ? "writing"
                : run.flush_dropped.contains(dataset.id) ? "superseded"
                                                         : "whole");
  row.set_pinned(dataset.pinned);
  row.set_in_cache(dataset.in_cache);
  row.set_in_prefix(dataset.in_prefix);
  row.set_bytes(dataset.bytes());
  for (const Part& part : dataset.parts) row.set_bytes_written(row.bytes_written() + BytesWritten(part));
  row.set_created_us(dataset.created_us);
  for (admin::GrowingDirectory& growing : GrowingOf(run, dataset.id)) *row.add_growing() = std::move(growing);
  return row;
}

std::vector<admin::DatasetRow> CoreImpl::RowsOf(const Run& run) const {
  std::map<DatasetId, admin::DatasetRow> rows;
  for (const auto& [id, dataset] : run.ledger.datasets()) rows[id] = RowOf(run, *dataset);
  for (const auto& [id, gone] : run.ledger.gone()) {
    if (gone.why != Gone::Why::kFailed) continue;
    admin::DatasetRow& row = rows[id];
    row.set_run(run.id.Hex());
    row.set_prefix(run.prefix_path);
    row.set_dataset(id);
    row.set_step(gone.step);
    row.set_state("failed");
    row.set_error(gone.message);
  }
  std::vector<admin::DatasetRow> out;
  for (auto& [id, row] : rows) out.push_back(std::move(row));
  return out;
}

admin::RunStatus CoreImpl::StatusOf(const Run& run) const {
  admin::RunStatus status;
  status.set_run(run.id.Hex());
  status.set_prefix(run.prefix_path);
  if (run.cache) status.set_cache_folder(run.cache->path());
  if (const Launch* launch = const_cast<Ledger&>(run.ledger).newest()) {
    status.set_launch(launch->id);
    status.set_nranks(launch->nranks);
    status.set_sessions(launch->live);
  }
  if (DatasetPtr newest = run.ledger.NewestRestorable()) status.set_newest_step(newest->step);
  DescribeSteering(run, &status);
  for (const auto& [id, growth] : run.growing) {
    for (admin::GrowingDirectory& growing : GrowingOf(run, id)) *status.add_growing() = std::move(growing);
  }
  for (const auto& [id, job] : run.flushes) {
    admin::FlushStatus& flush = *status.add_flushes();
    flush.set_dataset(id);
    flush.set_step(job->dataset->step);
    const bool running = job->running();
    flush.set_state(running                                      ? "running"
                    : job->state == FlushJob::State::kCopied     ? "copied"
                    : job->state == FlushJob::State::kBackingOff ? "backing off"
                                                                 : "waiting");
    const std::uint64_t done = job->progress->bytes_done;
    flush.set_bytes_done(done);
    flush.set_bytes(job->dataset->bytes());
    const std::uint64_t ms = MsSince(job->started, clocks_.steady());
    if (running && ms > 0) flush.set_bytes_per_s(done * 1000 / ms);
    flush.set_error(job->error);
    if (job->state == FlushJob::State::kBackingOff && job->retry_at > clocks_.steady()) {
      flush.set_retry_in_ms(MsSince(clocks_.steady(), job->retry_at));
    }
  }
  return status;
}

void CoreImpl::Status(std::function<void(admin::StatusReply)> done) {
  loop_.Post([this, done = std::move(done)] {
    admin::StatusReply reply;
    reply.set_version(std::string("cairn ") + kVersion);
    reply.set_pid(process_.pid);
    reply.set_host(process_.host);
    reply.set_uptime_ms(MsSince(started_, clocks_.steady()));
    reply.set_incarnation(incarnation_);
    reply.set_quiescing(quiescing_);
    reply.set_cache(config_.cache.path);
    reply.set_cache_bytes_used(CacheBytesUsed());
    reply.set_cache_bytes_max(cache_bytes_max_);
    reply.set_image_bytes_used(budget_.used());
    reply.set_image_bytes_max(budget_.bytes_max());
    for (const auto& [id, run] : runs_) *reply.add_runs() = StatusOf(*run);
    for (const std::string& warning : warnings_) reply.add_warnings(warning);
    done(std::move(reply));
  });
}

void CoreImpl::List(const admin::ListRequest& request, std::function<void(absl::StatusOr<admin::ListReply>)> done) {
  loop_.Post([this, request, done = std::move(done)] {
    admin::ListReply reply;
    std::vector<RunPtr> wanted;
    if (request.run().empty()) {
      for (const auto& [id, run] : runs_) wanted.push_back(run);
    } else {
      auto run = FindRun(request.run());
      if (!run.ok()) return done(run.status());
      wanted.push_back(*run);
    }
    for (const RunPtr& run : wanted) {
      for (admin::DatasetRow& row : RowsOf(*run)) *reply.add_datasets() = std::move(row);
    }
    done(std::move(reply));
  });
}

void CoreImpl::Show(const admin::DatasetRequest& request, std::function<void(absl::StatusOr<admin::ShowReply>)> done) {
  loop_.Post([this, request, done = std::move(done)] {
    auto run = FindRun(request.run());
    if (!run.ok()) return done(run.status());
    DatasetPtr dataset = (*run)->ledger.Get(request.dataset());
    if (!dataset) {
      const LevelAnswer answer = AskLevel(*run, request.dataset(), Level::kCaptured);
      return done(NotFound("{}", answer.status.message()));
    }
    if (!dataset->described) {
      return Describe(*run, dataset, [this, request, done](const absl::Status& status) {
        if (!status.ok()) return done(status);
        Show(request, done);
      });
    }
    admin::ShowReply reply;
    *reply.mutable_dataset() = RowOf(**run, *dataset);
    for (Rank rank = 0; rank < dataset->nranks; ++rank) {
      const Part& part = dataset->parts[rank];
      admin::RankRow& row = *reply.add_ranks();
      row.set_rank(rank);
      row.set_bytes(part.bytes);
      row.set_bytes_written(BytesWritten(part));
      const bool handed_over = part.state >= Part::State::kCaptured;
      row.set_level(std::max(static_cast<local::Level>(dataset->level()), part.state == Part::State::kLocal
                                                                              ? local::LOCAL
                                                                          : handed_over ? local::CAPTURED
                                                                                        : local::NONE));
      *row.mutable_variables() = part.catalogue.variables();
      for (const catalogue::FileEntry& file : part.catalogue.file()) row.add_files(file.prefix_name());
    }
    done(std::move(reply));
  });
}

void CoreImpl::Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) {
  loop_.Post([this, request, done = std::move(done)] {
    auto answer = [done](const absl::Status& status, Level level) {
      admin::WaitReply reply;
      *reply.mutable_status() = StatusMessage(status);
      reply.set_level(static_cast<local::Level>(level));
      done(std::move(reply));
    };
    auto run = FindRun(request.run());
    if (!run.ok()) return answer(run.status(), Level::kNone);
    const Level level = static_cast<Level>(request.level());
    if (level == Level::kPrefix) WantFlushed(*run, request.dataset());
    struct State {
      bool answered = false;
      Loop::TimerId timer = 0;
    };
    auto state = std::make_shared<State>();
    constexpr std::uint64_t kWeekMs = 7ull * 24 * 3600 * 1000;
    const std::uint64_t ms =
        std::min(request.timeout_ms() != 0 ? request.timeout_ms() : config_.call_ms_default, kWeekMs);
    if (!local::Level_IsValid(request.level())) {
      return answer(InvalidArgument("{} is no level that this daemon knows", static_cast<int>(request.level())),
                    Level::kNone);
    }
    state->timer = loop_.After(std::chrono::milliseconds(ms), [this, state, answer, run = *run, request, level, ms] {
      if (std::exchange(state->answered, true)) return;
      const LevelAnswer now = AskLevel(run, request.dataset(), level);
      answer(DeadlineExceeded("dataset {} did not reach level {} within {} ms", request.dataset(), NameOf(level), ms),
             now.level);
    });
    Watch(*run, [this, state, done, run = *run, id = request.dataset(), level] {
      if (state->answered) return true;
      const LevelAnswer now = AskLevel(run, id, level);
      if (!now.final) return false;
      state->answered = true;
      loop_.Cancel(state->timer);
      admin::WaitReply reply;
      *reply.mutable_status() = now.status;
      reply.set_level(static_cast<local::Level>(now.level));
      done(std::move(reply));
      return true;
    });
  });
}

void CoreImpl::Flush(const admin::FlushRequest& request, std::function<void(admin::FlushReply)> done) {
  loop_.Post([this, request, done = std::move(done)] {
    admin::FlushReply reply;
    *reply.mutable_status() = StatusMessage([&]() -> absl::Status {
      CAIRN_ASSIGN_OR_RETURN(const RunPtr run, FindRun(request.run()));
      DatasetPtr dataset = request.dataset() == 0 ? run->ledger.NewestRestorable() : run->ledger.Get(request.dataset());
      if (!dataset) {
        return request.dataset() == 0 ? NotFound("run {} has no whole checkpoint", run->name)
                                      : NotFound("run {} has no dataset {}", run->name, request.dataset());
      }
      reply.set_dataset(dataset->id);
      run->flush_dropped.erase(dataset->id);  // asked for by name: it goes after all
      WantFlushed(run, dataset->id);
      return absl::OkStatus();
    }());
    done(std::move(reply));
  });
}

void CoreImpl::Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) {
  loop_.Post([this, request, done = std::move(done)] {
    auto answer = [done](const absl::Status& status) {
      admin::PinReply reply;
      *reply.mutable_status() = StatusMessage(status);
      done(std::move(reply));
    };
    auto run = FindRun(request.run());
    if (!run.ok()) return answer(run.status());
    DatasetPtr dataset = (*run)->ledger.Get(request.dataset());
    if (!dataset || dataset->level() < Level::kLocal) {
      return answer(NotFound("run {} has no whole dataset {}", (*run)->name, request.dataset()));
    }
    dataset->pinned = request.pinned();
    if (dataset->pinned) (*run)->flush_dropped.erase(dataset->id);
    StoreFlushRecord(*run, answer);  // a pin holds over a restart
    Changed(*run);
  });
}

void CoreImpl::Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) {
  loop_.Post([this, request, done = std::move(done)] {
    auto answer = [done](const absl::Status& status) {
      admin::RemoveReply reply;
      *reply.mutable_status() = StatusMessage(status);
      done(std::move(reply));
    };
    auto run = FindRun(request.run());
    if (!run.ok()) return answer(run.status());
    DatasetPtr dataset = (*run)->ledger.Get(request.dataset());
    if (!dataset || dataset->level() < Level::kLocal) {
      return answer(NotFound("run {} has no whole dataset {}", (*run)->name, request.dataset()));
    }
    if (dataset->pinned) return answer(FailedPrecondition("dataset {} is pinned: unpin it first", dataset->id));
    if (dataset->readers > 0 || (*run)->ledger.PinnedByLaunch(dataset->id)) {
      return answer(FailedPrecondition("dataset {} is being restored", dataset->id));
    }
    if (dataset->in_prefix && dataset->foreign) return answer(IsScrs(dataset->id));
    if (dataset->in_prefix && !(*run)->prefix) return answer(Unavailable("{} is out of reach", (*run)->prefix_path));
    if (auto job = (*run)->flushes.find(dataset->id); job != (*run)->flushes.end()) {
      if (job->second->running()) {
        job->second->progress->stop = true;
        (*run)->asked.erase(dataset->id);
        (*run)->flush_dropped.insert(dataset->id);  // else it would begin again at once
        return answer(Unavailable("dataset {} was being flushed; the flush is stopped, ask again", dataset->id));
      }
      if (job->second->timer != 0) loop_.Cancel(job->second->timer);
      (*run)->flushes.erase(job);
    }
    if (!dataset->in_prefix) {
      answer(RemoveFromCache(*run, dataset));
      return Changed(*run);
    }
    RemoveFromPrefix(*run, dataset, [this, run = *run, dataset, answer](const absl::Status& removed) {
      answer(removed.ok() ? RemoveFromCache(run, dataset) : removed);
      Changed(run);
    });
  });
}

// What the user has removed, once the prefix has it no more.
absl::Status CoreImpl::RemoveFromCache(const RunPtr& run, const DatasetPtr& dataset) {
  if (dataset->in_cache && (dataset->readers > 0 || dataset->pinned)) {  // since it was asked for
    return FailedPrecondition("dataset {} is pinned or being restored: it stays in the cache", dataset->id);
  }
  if (dataset->in_cache) Evict(run, dataset, "removed by the user");
  run->ledger.Forget(dataset->id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset->step});
  TidyPrefix(run);
  return absl::OkStatus();
}

}  // namespace cairn
