// Which level has a dataset, which is the newest to restart from, what does it hold.
#include <algorithm>

#include "daemon/core/core_impl.h"
#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn {

CoreImpl::LevelAnswer CoreImpl::AskLevel(const RunPtr& run, DatasetId id, Level level) {
  LevelAnswer answer;
  auto say = [&answer](local::Code code, std::string message) {
    answer.final = true;
    answer.status.set_code(code);
    answer.status.set_message(std::move(message));
    return answer;
  };
  DatasetPtr dataset = run->ledger.Get(id);
  if (!dataset) {
    if (const Gone* gone = run->ledger.FindGone(id)) {
      if (gone->why == Gone::Why::kFailed) {
        return say(local::FAILED, fmt::format("dataset {} (step {}) failed: {}", id, gone->step, gone->message));
      }
      if (gone->why == Gone::Why::kSuperseded) {
        return say(local::SUPERSEDED,
                   fmt::format("dataset {} (step {}) was superseded by dataset {}", id, gone->step, gone->successor));
      }
      return say(local::NOT_FOUND, fmt::format("dataset {} (step {}): {}", id, gone->step, gone->message));
    }
    if (id != 0 && id < run->ids.first) {
      return say(local::FAILED, fmt::format("dataset {} failed: no record knows it any more", id));
    }
    return say(local::NOT_FOUND, fmt::format("run {} has no dataset {}", run->name, id));
  }
  answer.level = dataset->level();
  if (answer.level >= level) return say(local::OK, "");
  if (dataset->damaged) {
    const std::string& why = dataset->why_damaged;
    return say(local::DATA_LOSS, fmt::format("dataset {} is damaged{}{}", id, why.empty() ? "" : ": ", why));
  }
  if (level == Level::kRedundant) {
    return say(local::UNSUPPORTED, "`redundant` needs copies on other nodes; this daemon's scheme is `single`");
  }
  if (level == Level::kPrefix && dataset->id_taken) {
    return say(local::FAILED_PRECONDITION,
               fmt::format("dataset {} (step {}) will not go to the prefix: SCR has given its id to another one", id,
                           dataset->step));
  }
  if (level == Level::kPrefix && (run->flush_dropped.contains(id) || dataset->gave_way)) {
    DatasetPtr newest = run->ledger.NewestRestorable();
    return say(local::SUPERSEDED, fmt::format("dataset {} (step {}) will not go to the prefix: it was superseded by "
                                              "dataset {}",
                                              id, dataset->step, newest ? newest->id : 0));
  }
  if (run->replaced) return say(local::FAILED_PRECONDITION, "the prefix was made anew: this run is history");
  return answer;
}

namespace {

absl::Status CheckLevel(int level) {
  if (local::Level_IsValid(level)) return absl::OkStatus();
  return InvalidArgument("{} is no level that this daemon knows", level);
}

}  // namespace

void CoreImpl::HandleTest(const SessionPtr& session, const CallPtr& call, const local::Test& test) {
  if (absl::Status known = CheckLevel(test.level()); !known.ok()) return call->Fail(known);
  const LevelAnswer answer = AskLevel(session->run, test.dataset(), static_cast<Level>(test.level()));
  if (answer.final && answer.status.code() != local::OK)
    return call->Fail(answer.status.code(), answer.status.message());
  local::Reply reply;
  reply.mutable_test()->set_reached(answer.final);
  reply.mutable_test()->set_level(static_cast<local::Level>(answer.level));
  call->Reply(std::move(reply));
}

void CoreImpl::HandleWait(const SessionPtr& session, const CallPtr& call, const local::Wait& wait) {
  if (absl::Status known = CheckLevel(wait.level()); !known.ok()) return call->Fail(known);
  const Level level = static_cast<Level>(wait.level());
  const DatasetId id = wait.dataset();
  if (level == Level::kPrefix && !session->observer) WantFlushed(session->run, id);
  call->WaitingFor(fmt::format("level {} of dataset {}", NameOf(level), id));
  Watch(session->run, [this, run = session->run, call, id, level] {
    if (call->answered()) return true;
    const LevelAnswer answer = AskLevel(run, id, level);
    if (!answer.final) return false;
    if (answer.status.code() != local::OK) {
      call->Fail(answer.status.code(), answer.status.message());
      return true;
    }
    local::Reply reply;
    reply.mutable_test()->set_reached(true);
    reply.mutable_test()->set_level(static_cast<local::Level>(answer.level));
    call->Reply(std::move(reply));
    return true;
  });
}

// A wait for `prefix` keeps a flush from being dropped, and asks for one that the rhythm would have left out.
void CoreImpl::WantFlushed(const RunPtr& run, DatasetId id) {
  DatasetPtr dataset = run->ledger.Get(id);
  if (!dataset || dataset->in_prefix || run->flush_dropped.contains(id)) return;
  run->asked.insert(id);
  ApplyPolicy(run);
}

// Datasets of earlier launches whose bytes are all in the daemon's hands, but which are not yet whole: they may become
// the newest to restart from.
bool CoreImpl::Settling(const Run& run, LaunchId before) const {
  return std::any_of(run.ledger.datasets().begin(), run.ledger.datasets().end(), [before](const auto& item) {
    return item.second->launch < before && item.second->level() == Level::kCaptured && item.second->checkpoint;
  });
}

void CoreImpl::HandleLatest(const SessionPtr& session, const CallPtr& call) {
  call->WaitingFor("the last launch's captured datasets on their way to `local`");
  Watch(session->run, [this, session, call] { return TryLatest(session, call); });
}

bool CoreImpl::TryLatest(const SessionPtr& session, const CallPtr& call) {
  if (call->answered()) return true;
  const RunPtr& run = session->run;
  Launch* launch = run->ledger.Find(session->launch);
  if (launch == nullptr || session->ended) {
    call->Fail(local::FENCED, "the session ended while it asked");
    return true;
  }
  DatasetPtr dataset;
  if (launch->pin) {
    dataset = run->ledger.Get(*launch->pin);
    if (*launch->pin != 0 && (!dataset || !dataset->restorable())) {
      dataset = run->ledger.NewestRestorableFor(*launch, *launch->pin);
    }
  } else {
    if (Settling(*run, launch->id)) return false;
    dataset = run->ledger.NewestRestorableFor(*launch);
  }
  if (!launch->pin_ended) launch->pin = dataset ? dataset->id : 0;
  FailBad(run, *launch, dataset ? dataset->id : 0);
  if (!dataset) {
    const DatasetId bound = run->ledger.BoundOf(*launch);
    call->Fail(local::NOT_FOUND,
               bound == 0
                   ? fmt::format("run {} has no checkpoint to restart from", run->name)
                   : fmt::format("run {} has no checkpoint to restart from up to dataset {}, to which the prefix' "
                                 "index was set back",
                                 run->name, bound));
    return true;
  }
  local::Reply reply;
  reply.mutable_latest()->set_dataset(dataset->id);
  reply.mutable_latest()->set_step(dataset->step);
  reply.mutable_latest()->set_files(dataset->files);
  call->Reply(std::move(reply));
  return true;
}

// What a restart would have chosen before `chosen`, had it been whole on the prefix, is not to be tried by SCR either.
void CoreImpl::FailBad(const RunPtr& run, const Launch& launch, DatasetId chosen) {
  for (auto at = run->bad.upper_bound(chosen); at != run->bad.end();) {
    if (launch.bound != 0 && at->first > launch.bound) break;
    MarkFailed(run, at->first);
    at = run->bad.erase(at);
  }
}

void CoreImpl::HandleStored(const SessionPtr& session, const CallPtr& call, const local::Stored& stored) {
  DatasetPtr dataset = session->run->ledger.Get(stored.dataset());
  if (!dataset || dataset->damaged || dataset->level() < Level::kLocal) {
    return call->Fail(NotFound("run {} has no whole dataset {}", session->run->name, stored.dataset()));
  }
  if (!dataset->described) {
    return Describe(session->run, dataset, [this, session, call, stored](const absl::Status& status) {
      if (!status.ok()) return call->Fail(status);
      HandleStored(session, call, stored);
    });
  }
  std::map<std::int32_t, local::Variable> variables;
  for (Rank rank = 0; rank < dataset->nranks; ++rank) {
    for (const local::Variable& variable : dataset->parts[rank].catalogue.variables()) {
      if (rank == session->rank && !session->observer) {
        variables[variable.id()] = variable;
      } else if (variable.kind() != local::PLAIN && !variables.contains(variable.id())) {
        local::Variable& entry = variables[variable.id()] = variable;
        if (variable.kind() != local::ARRAY) continue;
        // Another rank's box is not this rank's.
        entry.set_count(0);
        entry.set_bytes(0);
        for (int d = 0; d < entry.box_start_size(); ++d) entry.set_box_start(d, 0);
        for (int d = 0; d < entry.box_count_size(); ++d) entry.set_box_count(d, 0);
      }
    }
  }
  local::Reply reply;
  local::StoredReply& out = *reply.mutable_stored();
  out.set_nranks(dataset->nranks);
  out.set_step(dataset->step);
  for (auto& [id, variable] : variables) *out.add_variables() = std::move(variable);
  call->Reply(std::move(reply));
}

}  // namespace cairn
