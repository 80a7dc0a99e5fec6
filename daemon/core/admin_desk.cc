#include "daemon/core/admin_desk.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "daemon/core/call.h"
#include "daemon/core/run.h"
#include "storage/base/status.h"
#include "storage/base/version.h"
#include "storage/format/catalogue/verified_by.h"

namespace cairn {
namespace {

local::Status StatusMessage(const absl::Status& status) {
  local::Status out;
  SetStatus(status, &out);
  return out;
}

// A reply that says how it went, and no more.
template <typename Reply>
std::function<void(const absl::Status&)> Answering(std::function<void(Reply)> done) {
  return [done = std::move(done)](const absl::Status& status) {
    Reply reply;
    *reply.mutable_status() = StatusMessage(status);
    done(std::move(reply));
  };
}

std::uint64_t BytesWritten(const Part& part) {
  std::uint64_t sum = 0;
  for (const catalogue::FileEntry& file : part.catalogue.file()) sum += file.bytes_written();
  return sum;
}

void SetRun(const Run& run, admin::DatasetRow* row) {
  row->set_run(run.id.Hex());
  row->set_prefix(run.gate.path());
}

admin::DatasetRow RowOf(const Run& run, const Dataset& dataset) {
  admin::DatasetRow row;
  SetRun(run, &row);
  row.set_dataset(dataset.id);
  row.set_launch(dataset.launch);
  row.set_step(dataset.step);
  row.set_nranks(dataset.nranks);
  row.set_checkpoint(dataset.kind.checkpoint);
  row.set_output(dataset.kind.output);
  row.set_files(dataset.kind.files);
  row.set_level(static_cast<local::Level>(dataset.level()));
  const bool rejected = run.record.rejected().contains(dataset.id);
  row.set_state(dataset.damaged()                 ? "damaged"
                : dataset.level() < Level::kLocal ? "writing"
                : dataset.of_no_line()            ? std::string(NameOf(dataset.standing))
                : rejected                        ? "rejected"
                : dataset.flush_dropped()         ? "superseded"
                                                  : "whole");
  row.set_pinned(dataset.pinned);
  row.set_in_cache(dataset.in_cache());
  row.set_in_prefix(dataset.in_prefix());
  row.set_bytes(dataset.bytes());
  for (const Part& part : dataset.parts) row.set_bytes_written(row.bytes_written() + BytesWritten(part));
  row.set_created_us(dataset.created_us);
  row.set_unverified_files(dataset.unverified_files);
  for (admin::GrowingDirectory& growing : run.growing.Describe(dataset.id)) *row.add_growing() = std::move(growing);
  return row;
}

// By id: those that are there, and those that failed.
std::map<DatasetId, admin::DatasetRow> RowsOf(const Run& run) {
  std::map<DatasetId, admin::DatasetRow> rows;
  for (const auto& [id, dataset] : run.ledger.datasets()) rows[id] = RowOf(run, *dataset);
  for (const auto& [id, gone] : run.ledger.gone()) {
    if (gone.why != Gone::Why::kFailed) continue;
    admin::DatasetRow& row = rows[id];
    SetRun(run, &row);
    row.set_dataset(id);
    row.set_step(gone.step);
    row.set_state("failed");
    row.set_error(gone.message);
  }
  return rows;
}

void DescribeAsides(const Asides& asides, admin::RunStatus* status) {
  for (const Aside& one : asides.all()) {
    admin::AsideStatus& described = *status->mutable_aside();
    if (one.kind == Aside::Kind::kTaken) {
      described.set_taken(described.taken() + 1);
      described.set_taken_bytes(described.taken_bytes() + one.bytes);
      continue;
    }
    if (described.damaged() == 0) described.set_damaged_since_us(one.since_us);
    described.set_damaged(described.damaged() + 1);
    described.set_damaged_bytes(described.damaged_bytes() + one.bytes);
    described.set_goes_us(asides.goes_us());
  }
}

std::int64_t SinceEpochUs(SteadyTime time, const Context& context) {
  return context.now_us() - std::chrono::duration_cast<std::chrono::microseconds>(context.now() - time).count();
}

admin::RunStatus StatusOf(const Run& run, const Context& context) {
  admin::RunStatus status;
  status.set_run(run.id.Hex());
  status.set_prefix(run.gate.path());
  if (const auto since = run.HungSince()) status.set_hung_since_us(SinceEpochUs(*since, context));
  status.set_lost_since_us(run.watch.lost_since_us());
  status.set_kept_until_us(run.watch.kept_until_us());
  status.set_cache_folder(run.folder->path());
  if (const Launch* launch = run.ledger.newest()) {
    status.set_launch(launch->id);
    status.set_nranks(launch->nranks);
    status.set_sessions(launch->live());
    status.set_provisional(launch->provisional);
    if (!launch->ours) status.set_served_by(launch->maker);
  }
  if (const auto& prefix = run.gate.prefix(); prefix && prefix->identity().parent) {
    status.set_branch_of(prefix->identity().parent->Hex());
  }
  if (const DatasetPtr newest = run.ledger.NewestRestorable()) status.set_newest_step(newest->step);
  DescribeAsides(run.cache.asides(), &status);
  run.steering.Describe(&status);
  for (admin::GrowingDirectory& growing : run.growing.DescribeAll()) *status.add_growing() = std::move(growing);
  for (admin::FlushStatus& flush : run.flusher.Describe()) *status.add_flushes() = std::move(flush);
  return status;
}

// What is in the way of a dataset that is to be on the prefix; empty: nothing that is known.
std::string HeldUpBy(const Run& run, DatasetId id) {
  if (run.watch.lost()) return fmt::format("{}: the run is not there any more", run.gate.path());
  if (run.HungSince()) return fmt::format("{}: the file system does not answer", run.gate.path());
  return run.flusher.ErrorOf(id);
}

local::Level LevelOf(const Dataset& dataset, const Part& part) {
  const local::Level own = part.stored() ? local::LOCAL : part.captured() ? local::CAPTURED : local::NONE;
  return std::max(static_cast<local::Level>(dataset.level()), own);
}

admin::ShowReply Shown(const Run& run, const Dataset& dataset) {
  admin::ShowReply reply;
  *reply.mutable_dataset() = RowOf(run, dataset);
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    const Part& part = dataset.parts[rank];
    admin::RankRow& row = *reply.add_ranks();
    row.set_rank(rank);
    row.set_bytes(part.bytes);
    row.set_bytes_written(BytesWritten(part));
    row.set_level(LevelOf(dataset, part));
    *row.mutable_variables() = part.catalogue.variables();
    for (const catalogue::FileEntry& file : part.catalogue.file()) row.add_files(file.prefix_name());
    *row.mutable_verified_by() = VerifiedByOf(part.catalogue);
  }
  return reply;
}

absl::StatusOr<DatasetPtr> WholeDataset(const Run& run, DatasetId id) {
  const DatasetPtr dataset = run.ledger.Get(id);
  if (dataset && dataset->level() >= Level::kLocal) return dataset;
  return NotFound("run {} has no whole dataset {}", run.name, id);
}

void RemoveSetAside(Run& run, bool whole_ones_too, std::function<void(admin::RemoveReply)> done) {
  run.cache.asides().RemoveByHand(whole_ones_too,
                                  [&run, done = std::move(done)](const absl::StatusOr<Asides::RemovedByHand>& removed) {
                                    admin::RemoveReply reply;
                                    *reply.mutable_status() = StatusMessage(removed.status());
                                    if (removed.ok()) {
                                      reply.set_set_aside(removed->count);
                                      reply.set_set_aside_bytes(removed->bytes);
                                      reply.set_in_use(removed->in_use);
                                    }
                                    done(std::move(reply));
                                    run.waits.Changed();
                                  });
}

absl::Status MayRemove(Run& run, const DatasetPtr& dataset) {
  if (dataset->pinned) return FailedPrecondition("dataset {} is pinned: unpin it first", dataset->id);
  if (dataset->readers > 0 || run.ledger.PinnedByLaunch(dataset->id)) {
    return FailedPrecondition("dataset {} is being restored", dataset->id);
  }
  if (dataset->in_prefix() && dataset->foreign) return Removals::IsScrs(dataset->id);
  if (dataset->in_prefix() && !run.gate.prefix()) return run.gate.OutOfReach();
  if (run.flusher.Cancel(dataset)) return absl::OkStatus();
  return Unavailable("dataset {} was being flushed; the flush is stopped, ask again", dataset->id);
}

// What the user has removed, once the prefix has it no more.
absl::Status RemoveFromCache(Run& run, const DatasetPtr& dataset) {
  if (dataset->in_cache() && (dataset->readers > 0 || dataset->pinned)) {  // since it was asked for
    return FailedPrecondition("dataset {} is pinned or being restored: it stays in the cache", dataset->id);
  }
  run.cache.Evict(dataset, "removed by the user");
  run.ledger.Forget(dataset->id, {.why = Gone::Why::kRemoved, .message = "was removed", .step = dataset->step});
  run.removals.Tidy();
  return absl::OkStatus();
}

}  // namespace

AdminDesk::AdminDesk(const Context& context, Runs& runs, const CacheRoom& room, const ImageStore& images,
                     std::uint64_t incarnation)
    : context_(context),
      runs_(runs),
      room_(room),
      images_(images),
      incarnation_(incarnation),
      started_(context.now()) {}

admin::StatusReply AdminDesk::Status() const {
  using std::chrono::milliseconds;
  admin::StatusReply reply;
  reply.set_version(std::string("cairn ") + kVersion);
  reply.set_pid(context_.env.process.pid);
  reply.set_host(context_.env.process.host);
  reply.set_uptime_ms(
      static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(context_.now() - started_).count()));
  reply.set_incarnation(incarnation_);
  reply.set_quiescing(context_.quiescing());
  reply.set_cache(context_.config.cache.path);
  reply.set_cache_bytes_used(room_.BytesUsed());
  reply.set_cache_bytes_max(room_.bytes_max());
  reply.set_image_bytes_used(images_.used());
  reply.set_image_bytes_max(images_.bytes_max());
  for (const auto& [id, run] : runs_.all()) *reply.add_runs() = StatusOf(*run, context_);
  for (const auto& [prefix, since] : context_.env.pools.prefix.BusySince()) {
    if (context_.now() < since + kHangsAfter || runs_.AnyAt(prefix)) continue;
    admin::HungPrefix& hung = *reply.add_hung();
    hung.set_prefix(prefix);
    hung.set_since_us(SinceEpochUs(since, context_));
  }
  for (const std::string& warning : context_.warnings->all()) reply.add_warnings(warning);
  return reply;
}

absl::StatusOr<admin::ListReply> AdminDesk::List(const admin::ListRequest& request) const {
  admin::ListReply reply;
  const auto add = [&reply](const Run& run) {
    for (auto& [id, row] : RowsOf(run)) *reply.add_datasets() = std::move(row);
  };
  if (request.run().empty()) {
    for (const auto& [id, run] : runs_.all()) add(*run);
  } else {
    CAIRN_ASSIGN_OR_RETURN(const Run* run, runs_.FindNamed(request.run()));
    add(*run);
  }
  return reply;
}

void AdminDesk::Show(const admin::DatasetRequest& request,
                     std::function<void(absl::StatusOr<admin::ShowReply>)> done) const {
  const auto run = runs_.FindNamed(request.run());
  if (!run.ok()) return done(run.status());
  const DatasetPtr dataset = (*run)->ledger.Get(request.dataset());
  if (!dataset) {
    const LevelAnswer answer = (*run)->levels.Ask(request.dataset(), Level::kCaptured);
    return done(NotFound("{}", answer.status.message()));
  }
  (*run)->inventory.Describe(dataset, [run = *run, dataset, done](const absl::Status& status) {
    if (!status.ok()) return done(status);
    done(Shown(*run, *dataset));
  });
}

void AdminDesk::Wait(const admin::WaitRequest& request, std::function<void(admin::WaitReply)> done) const {
  const auto answer = [done](const local::Status& status, Level level, std::string held_up_by = "") {
    admin::WaitReply reply;
    *reply.mutable_status() = status;
    reply.set_level(static_cast<local::Level>(level));
    reply.set_held_up_by(std::move(held_up_by));
    done(std::move(reply));
  };
  const auto found = runs_.FindNamed(request.run());
  if (!found.ok()) return answer(StatusMessage(found.status()), Level::kNone);
  if (!local::Level_IsValid(request.level())) {
    const int level = static_cast<int>(request.level());
    return answer(StatusMessage(InvalidArgument("{} is no level that this daemon knows", level)), Level::kNone);
  }
  Run* const run = *found;
  const DatasetId id = request.dataset();
  const Level level = static_cast<Level>(request.level());
  if (level == Level::kPrefix) run->flusher.Want(id);
  struct State {
    bool answered = false;
    Loop::TimerId timer = 0;
  };
  auto state = std::make_shared<State>();
  constexpr std::uint64_t kWeekMs = 7ull * 24 * 3600 * 1000;
  const std::uint64_t asked_ms = request.timeout_ms() != 0 ? request.timeout_ms() : context_.config.call_ms_default;
  const std::uint64_t ms = std::min(asked_ms, kWeekMs);
  state->timer = context_.loop().After(std::chrono::milliseconds(ms), [state, answer, run, id, level, ms] {
    if (std::exchange(state->answered, true)) return;
    const LevelAnswer now = run->levels.Ask(id, level);
    answer(StatusMessage(DeadlineExceeded("dataset {} did not reach level {} within {} ms", id, NameOf(level), ms)),
           now.level, level == Level::kPrefix ? HeldUpBy(*run, id) : "");
  });
  run->waits.Wait([this, state, answer, run, id, level] {
    if (state->answered) return true;
    const LevelAnswer now = run->levels.Ask(id, level);
    if (!now.final) return false;
    state->answered = true;
    context_.loop().Cancel(state->timer);
    answer(now.status, now.level);
    return true;
  });
}

admin::FlushReply AdminDesk::Flush(const admin::FlushRequest& request) const {
  admin::FlushReply reply;
  const auto flush = [&]() -> absl::Status {
    CAIRN_ASSIGN_OR_RETURN(Run* const run, runs_.FindNamed(request.run()));
    const bool newest = request.dataset() == 0;
    const DatasetPtr dataset = newest ? run->ledger.NewestRestorable() : run->ledger.Get(request.dataset());
    if (!dataset && newest) return NotFound("run {} has no whole checkpoint", run->name);
    if (!dataset) return NotFound("run {} has no dataset {}", run->name, request.dataset());
    reply.set_dataset(dataset->id);
    run->flusher.Order(dataset->id);
    return absl::OkStatus();
  };
  *reply.mutable_status() = StatusMessage(flush());
  return reply;
}

void AdminDesk::Pin(const admin::PinRequest& request, std::function<void(admin::PinReply)> done) const {
  const auto answer = Answering(std::move(done));
  const auto run = runs_.FindNamed(request.run());
  if (!run.ok()) return answer(run.status());
  const auto dataset = WholeDataset(**run, request.dataset());
  if (!dataset.ok()) return answer(dataset.status());
  (*run)->ledger.SetPinned(**dataset, request.pinned());
  if (request.pinned()) (*run)->ledger.FlushOrdered(**dataset);
  (*run)->record.Store(answer);  // a pin holds over a restart
  (*run)->waits.Changed();
}

void AdminDesk::Remove(const admin::RemoveRequest& request, std::function<void(admin::RemoveReply)> done) const {
  const auto answer = Answering(done);
  const auto found = runs_.FindNamed(request.run());
  if (!found.ok()) return answer(found.status());
  Run& run = **found;
  if (request.set_aside() != admin::RemoveRequest::NONE) {
    if (request.dataset() != 0) return answer(InvalidArgument("a dataset, or what was set aside: not both"));
    return RemoveSetAside(run, request.set_aside() == admin::RemoveRequest::ALL, std::move(done));
  }
  const auto dataset = WholeDataset(run, request.dataset());
  if (!dataset.ok()) return answer(dataset.status());
  if (const absl::Status may = MayRemove(run, *dataset); !may.ok()) return answer(may);
  if (!(*dataset)->in_prefix()) {
    answer(RemoveFromCache(run, *dataset));
    return run.waits.Changed();
  }
  run.removals.Remove(*dataset, [&run, dataset = *dataset, answer](const absl::Status& removed) {
    answer(removed.ok() ? RemoveFromCache(run, dataset) : removed);
    run.waits.Changed();
  });
}

absl::StatusOr<admin::NodesReply> AdminDesk::Nodes(const admin::NodesRequest& request) const {
  admin::NodesReply reply;
  if (!request.run().empty()) {
    CAIRN_ASSIGN_OR_RETURN(const Run* const run, runs_.FindNamed(request.run()));
    *reply.add_runs() = run->nodes.Describe();
    return reply;
  }
  for (const auto& [id, run] : runs_.all()) *reply.add_runs() = run->nodes.Describe();
  return reply;
}

}  // namespace cairn
