#include "daemon/core/run_report.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/holdings.h"
#include "storage/base/ids.h"
#include "storage/base/launch_key.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/verified_by.h"

namespace cairn {
namespace {

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
  row.set_in_folder(dataset.in_folder());
  row.set_bytes(dataset.bytes());
  for (const Part& part : dataset.parts) row.set_bytes_written(row.bytes_written() + BytesWritten(part));
  row.set_created_us(dataset.created_us);
  row.set_unverified_files(dataset.unverified_files);
  for (admin::GrowingDirectory& growing : run.growing.Describe(dataset.id)) *row.add_growing() = std::move(growing);
  return row;
}

std::map<DatasetId, admin::DatasetRow> RowsOf(const Run& run, const Datasets& datasets) {
  std::map<DatasetId, admin::DatasetRow> rows;
  for (const auto& [id, dataset] : datasets) rows[id] = RowOf(run, *dataset);
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

// On the prefix, or in the folder that is redundant itself: of that a node that follows is only told that the dataset
// is redundant, and nothing is kept for others beside its parts.
bool OutlivesNodes(const Dataset& dataset) {
  return dataset.in_prefix() || dataset.in_folder() || (dataset.redundant && dataset.kept_bytes == 0);
}

// Another node may want it of this cache: a checkpoint that is no older than the newest one that outlives this node, or
// an output. `outlived`: such a newer one was seen.
bool IsOnlyHere(const Dataset& dataset, bool outlived) {
  if (!dataset.in_cache() || OutlivesNodes(dataset)) return false;
  if (dataset.of_no_line() || dataset.dropped()) return false;
  return (dataset.kind.checkpoint && !outlived) || (dataset.kind.output && !dataset.flush_dropped());
}

// By this the supervisor of many users knows whether it may end a daemon that nobody uses.
void DescribeWork(const Run& run, admin::RunStatus* status) {
  std::uint32_t at_work = run.rebuilder.at_work() || run.others.at_work() ? 1 : 0, only_here = 0;
  bool outlived = false;
  const std::vector<DatasetPtr>& by_age = run.ledger.ByAge();
  for (auto at = by_age.rbegin(); at != by_age.rend(); ++at) {
    const Dataset& dataset = **at;
    const bool moves = dataset.readers > 0 || dataset.cache == Place::kArriving;
    if (moves || run.protector.IsToCome(dataset)) ++at_work;
    if (IsOnlyHere(dataset, outlived)) ++only_here;
    outlived |= dataset.restorable() && !dataset.of_no_line() && OutlivesNodes(dataset);
  }
  status->set_at_work(at_work);
  status->set_only_here(only_here);
}

local::Level LevelOf(const Dataset& dataset, const Part& part) {
  const local::Level own = part.stored() ? local::LOCAL : part.captured() ? local::CAPTURED : local::NONE;
  return std::max(static_cast<local::Level>(dataset.level()), own);
}

// A copy that comes back from the prefix is none before it is whole.
bool IsInCache(const Dataset& dataset, const Part& part) {
  return part.stored() && (dataset.in_cache() || (dataset.cache == Place::kArriving && !dataset.in_prefix()));
}

}  // namespace

std::int64_t SinceEpochUs(SteadyTime time, const Context& context) {
  return context.now_us() - std::chrono::duration_cast<std::chrono::microseconds>(context.now() - time).count();
}

std::map<DatasetId, admin::DatasetRow> RowsOf(const Run& run) {
  return RowsOf(run, run.ledger.datasets());
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
    status.set_job(SlurmJobOf(launch->key));
    status.set_nranks(launch->nranks);
    status.set_sessions(launch->live());
    status.set_provisional(launch->provisional);
    if (!launch->ours) status.set_served_by(launch->maker);
  } else {  // no daemon since this one's start was asked to open it
    status.set_job(run.folder->record().job);
  }
  if (const auto& prefix = run.gate.prefix(); prefix && prefix->identity().parent) {
    status.set_branch_of(prefix->identity().parent->Hex());
  }
  if (const DatasetPtr newest = run.ledger.NewestRestorable()) status.set_newest_step(newest->step);
  DescribeAsides(run.cache.asides(), &status);
  DescribeWork(run, &status);
  run.steering.Describe(&status);
  for (admin::GrowingDirectory& growing : run.growing.DescribeAll()) *status.add_growing() = std::move(growing);
  for (admin::FlushStatus& flush : run.flusher.Describe()) *status.add_flushes() = std::move(flush);
  return status;
}

admin::ShowReply Shown(const Run& run, const Dataset& dataset) {
  admin::ShowReply reply;
  *reply.mutable_dataset() = RowOf(run, dataset);
  ShowAsked(dataset.scheme, reply);
  if (dataset.level() < Level::kRedundant) reply.set_not_redundant(run.protector.WhyNot(dataset));
  if (dataset.parts.empty()) return reply;
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    const Part& part = dataset.parts[rank];
    if (!part.described) continue;  // another node tells of it
    admin::RankRow& row = *reply.add_ranks();
    row.set_rank(rank);
    row.set_bytes(part.bytes);
    row.set_bytes_written(BytesWritten(part));
    row.set_level(LevelOf(dataset, part));
    row.set_in_cache(!part.elsewhere && IsInCache(dataset, part));
    *row.mutable_variables() = part.catalogue.variables();
    for (const catalogue::FileEntry& file : part.catalogue.file()) row.add_files(file.prefix_name());
    *row.mutable_verified_by() = VerifiedByOf(part.catalogue);
    if (!part.elsewhere && part.keeps) *row.mutable_set() = *part.keeps;
  }
  return reply;
}

absl::StatusOr<peer::Answer> AnswerOf(const Run& run, const Context& context, const peer::Question& question) {
  peer::Answer answer;
  switch (question.body_case()) {
    case peer::Question::kList:
      answer.mutable_list();
      for (auto& [id, row] : RowsOf(run, run.ledger.InPlay())) {
        *answer.mutable_list()->add_datasets() = std::move(row);
      }
      return answer;
    case peer::Question::kShow: {
      const DatasetPtr dataset = run.ledger.Get(question.show().dataset());
      if (!dataset) return NotFound("there is no dataset {}", question.show().dataset());
      *answer.mutable_show() = Shown(run, *dataset);
      return answer;
    }
    case peer::Question::kStatus:
      *answer.mutable_status() = StatusOf(run, context);
      *answer.mutable_status()->add_nodes() = run.nodes.Own();
      return answer;
    case peer::Question::kHoldings: {
      std::set<DatasetId> rejected;
      for (const auto& [id, marked] : run.record.rejected()) rejected.insert(id);
      *answer.mutable_holdings() = HoldingsOf(run.ledger, rejected);
      return answer;
    }
    default:
      return Unimplemented("question {} is not known here", static_cast<int>(question.body_case()));
  }
}

}  // namespace cairn
