#include "daemon/core/levels.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

LevelAnswer Final(local::Code code, std::string message, Level level = Level::kNone) {
  LevelAnswer answer{.final = true, .status = {}, .level = level};
  answer.status.set_code(code);
  answer.status.set_message(std::move(message));
  return answer;
}

LevelAnswer WhyGone(DatasetId id, const Gone& gone) {
  switch (gone.why) {
    case Gone::Why::kFailed:
      return Final(local::FAILED, fmt::format("dataset {} (step {}) failed: {}", id, gone.step, gone.message));
    case Gone::Why::kSuperseded:
      return Final(local::SUPERSEDED,
                   fmt::format("dataset {} (step {}) was superseded by dataset {}", id, gone.step, gone.successor));
    case Gone::Why::kRemoved:
      break;
  }
  return Final(local::NOT_FOUND, fmt::format("dataset {} (step {}): {}", id, gone.step, gone.message));
}

// `to`: its name in SCR's records; empty: not known.
LevelAnswer NumberTaken(const Dataset& dataset, const std::string& to) {
  return Final(
      local::FAILED,
      fmt::format("dataset {} (step {}) will not go to the prefix: SCR has given its id to another dataset{}{}",
                  dataset.id, dataset.step, to.empty() ? "" : ", ", to),
      dataset.level());
}

absl::Status CheckLevel(int level) {
  if (local::Level_IsValid(level)) return absl::OkStatus();
  return InvalidArgument("{} is no level that this daemon knows", level);
}

local::Reply TestReply(const LevelAnswer& answer, bool reached) {
  local::Reply reply;
  reply.mutable_test()->set_reached(reached);
  reply.mutable_test()->set_level(static_cast<local::Level>(answer.level));
  return reply;
}

local::Reply LatestReply(const Dataset& dataset) {
  local::Reply reply;
  reply.mutable_latest()->set_dataset(dataset.id);
  reply.mutable_latest()->set_step(dataset.step);
  reply.mutable_latest()->set_files(dataset.kind.files);
  return reply;
}

local::Reply FindReply(const Dataset& dataset) {
  local::Reply reply;
  reply.mutable_find()->set_dataset(dataset.id);
  reply.mutable_find()->set_step(dataset.step);
  reply.mutable_find()->set_name(NameInRecords(dataset));
  return reply;
}

// Another rank's box is not this rank's.
void ClearBox(local::Variable& variable) {
  variable.set_count(0);
  variable.set_bytes(0);
  for (int d = 0; d < variable.box_start_size(); ++d) variable.set_box_start(d, 0);
  for (int d = 0; d < variable.box_count_size(); ++d) variable.set_box_count(d, 0);
}

// The rank's own variables, and what others have stored for all. An observer is no rank.
local::Reply StoredReply(const Dataset& dataset, const Session& session) {
  std::map<std::int32_t, local::Variable> variables;
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    for (const local::Variable& variable : dataset.parts[rank].catalogue.variables()) {
      if (rank == session.rank && !session.observer) {
        variables[variable.id()] = variable;
      } else if (variable.kind() != local::PLAIN && !variables.contains(variable.id())) {
        local::Variable& entry = variables[variable.id()] = variable;
        if (variable.kind() == local::ARRAY) ClearBox(entry);
      }
    }
  }
  local::Reply reply;
  local::StoredReply& out = *reply.mutable_stored();
  out.set_nranks(dataset.nranks);
  out.set_step(dataset.step);
  for (auto& [id, variable] : variables) *out.add_variables() = std::move(variable);
  return reply;
}

}  // namespace

LevelAnswer Levels::Ask(DatasetId id, Level level) const {
  const DatasetPtr dataset = given_.ledger.Get(id);
  if (!dataset) {
    if (const Gone* gone = given_.ledger.FindGone(id)) return WhyGone(id, *gone);
    if (given_.ids.WasGiven(id)) {
      return Final(local::FAILED, fmt::format("dataset {} failed: no record knows it any more", id));
    }
    return Final(local::NOT_FOUND, fmt::format("run {} has no dataset {}", given_.run_name, id));
  }
  const Level has = dataset->level();
  if (level == Level::kPrefix && dataset->standing == Standing::kFenced) {
    // It may lie there whole, but the promise of this level is that a restart anywhere chooses it or a newer one.
    return Final(local::FENCED,
                 fmt::format("dataset {} (step {}): a newer launch was made elsewhere before it was committed on the "
                             "prefix: no restart chooses it",
                             id, dataset->step),
                 has);
  }
  if (has >= level) return Final(local::OK, "", has);
  if (dataset->damaged()) {
    const std::string& why = dataset->why_damaged;
    return Final(local::DATA_LOSS, fmt::format("dataset {} is damaged{}{}", id, why.empty() ? "" : ": ", why), has);
  }
  if (level == Level::kRedundant) {
    const std::string why = given_.protector.WhyNot(*dataset);
    if (!why.empty()) return Final(local::UNSUPPORTED, fmt::format("dataset {}: {}", id, why), has);
  }
  if (level == Level::kPrefix && dataset->id_taken()) {
    return NumberTaken(*dataset, dataset->taken_by);
  }
  if (level == Level::kPrefix && dataset->dropped()) {
    return Final(local::SUPERSEDED,
                 fmt::format("dataset {} (step {}) will not go to the prefix: it was rejected, or taken out of the "
                             "prefix' index",
                             id, dataset->step),
                 has);
  }
  if (level == Level::kPrefix && (dataset->flush_dropped() || dataset->gave_way())) {
    const DatasetPtr newest = given_.ledger.NewestRestorable();
    return Final(local::SUPERSEDED,
                 fmt::format("dataset {} (step {}) will not go to the prefix: it was superseded by dataset {}", id,
                             dataset->step, newest ? newest->id : 0),
                 has);
  }
  const Launch* newest_launch = given_.ledger.newest();
  const bool shut_out = newest_launch != nullptr && !newest_launch->ours && !dataset->followed && !dataset->kind.output;
  if (level == Level::kPrefix && shut_out && dataset->prefix != Place::kArriving) {  // nobody begins its flush
    return Final(local::FENCED,
                 fmt::format("dataset {} (step {}) will not go to the prefix: launch {}, which is newer, was made "
                             "elsewhere",
                             id, dataset->step, newest_launch->id),
                 has);
  }
  if (given_.gate.replaced()) {
    return Final(local::FAILED_PRECONDITION, "the prefix was made anew: this run is history", has);
  }
  return {.final = false, .status = {}, .level = has};
}

void Levels::Test(const std::shared_ptr<Call>& call, const local::Test& test) const {
  if (absl::Status known = CheckLevel(test.level()); !known.ok()) return call->Fail(known);
  const LevelAnswer answer = Ask(test.dataset(), static_cast<Level>(test.level()));
  if (answer.final && answer.status.code() != local::OK) {
    return call->Fail(answer.status.code(), answer.status.message());
  }
  // Not known is not "no": the nodes that have the rest may not have come back to this daemon, just started.
  const DatasetPtr dataset = given_.ledger.Get(test.dataset());
  const bool rest_unknown = dataset && dataset->in_cache() && !dataset->followed && dataset->unknown > 0;
  if (!answer.final && rest_unknown && test.level() != local::PREFIX) {
    return call->Fail(Unavailable("dataset {}: the nodes that have its other parts have not come back", dataset->id));
  }
  call->Reply(TestReply(answer, answer.final));
}

void Levels::Wait(const Session& session, const std::shared_ptr<Call>& call, const local::Wait& wait) {
  if (absl::Status known = CheckLevel(wait.level()); !known.ok()) return call->Fail(known);
  const Level level = static_cast<Level>(wait.level());
  const DatasetId id = wait.dataset();
  if (level == Level::kPrefix && !session.observer) given_.flusher.Want(id);
  call->WaitingFor(fmt::format("level {} of dataset {}", NameOf(level), id));
  given_.waits.Wait([this, call, id, level, asked = given_.ledger.Get(id)] {
    if (call->answered()) return true;
    const DatasetPtr now = given_.ledger.Get(id);
    const bool another = asked && now && (now->launch != asked->launch || now->created_us != asked->created_us);
    const LevelAnswer answer = another ? NumberTaken(*asked, now->name) : Ask(id, level);
    if (!answer.final) return false;
    if (answer.status.code() == local::OK) {
      call->Reply(TestReply(answer, true));
    } else {
      call->Fail(answer.status.code(), answer.status.message());
    }
    return true;
  });
}

void Levels::Latest(const SessionPtr& session, const std::shared_ptr<Call>& call) {
  if (session->observer) return ObserveLatest(call);
  call->WaitingFor("the last launch's captured datasets on their way to `local`");
  given_.waits.Wait([this, session, call] { return TryLatest(*session, call); });
}

bool Levels::TryLatest(const Session& session, const std::shared_ptr<Call>& call) {
  if (call->answered()) return true;
  const Launch* launch = given_.ledger.Find(session.launch);
  if (launch == nullptr || session.ended) {
    call->Fail(local::FENCED, "the session ended while it asked");
    return true;
  }
  if (given_.ledger.LatestIsSettling(*launch)) return false;
  const DatasetPtr dataset = given_.ledger.PinLatest(*launch);
  if (const absl::Status newest = given_.inventory.CheckNewest(*launch, dataset); !newest.ok()) {
    call->Fail(newest);
    return true;
  }
  given_.inventory.MarkUnusable(*launch, dataset ? dataset->id : 0);
  if (dataset) {
    call->Reply(LatestReply(*dataset));
    return true;
  }
  if (const std::string dirty = given_.ledger.WhyDirty(launch->id); !dirty.empty()) {
    call->Fail(local::DIRTY, fmt::format("run {} has no checkpoint to restart from, and {}", given_.run_name, dirty));
    return true;
  }
  const DatasetId bound = given_.ledger.BoundOf(*launch);
  call->Fail(local::NOT_FOUND,
             bound == 0 ? fmt::format("run {} has no checkpoint to restart from", given_.run_name)
                        : fmt::format("run {} has no checkpoint to restart from up to dataset {}, to which the prefix' "
                                      "index was set back",
                                      given_.run_name, bound));
  return true;
}

// What a launch that began now would be told, as far as it is whole: nothing becomes whole for it, and nothing is
// pinned.
void Levels::ObserveLatest(const std::shared_ptr<Call>& call) const {
  const Launch* newest = given_.ledger.newest();
  Launch mine;
  mine.id = std::numeric_limits<LaunchId>::max();  // nothing is its own
  mine.bound = newest != nullptr ? given_.ledger.BoundOf(*newest) : given_.inventory.bound();
  mine.bound_set_us = newest != nullptr ? newest->bound_set_us : given_.inventory.bound_set_us();
  const DatasetPtr dataset = given_.ledger.NewestRestorableFor(mine);
  if (const absl::Status newest = given_.inventory.CheckNewest(mine, dataset); !newest.ok()) return call->Fail(newest);
  if (dataset) return call->Reply(LatestReply(*dataset));
  call->Fail(NotFound("run {} has no checkpoint that can be restored", given_.run_name));
}

void Levels::Find(const std::shared_ptr<Call>& call, const local::Find& find) const {
  if (find.name().empty() == (find.dataset() == 0)) {
    return call->Fail(InvalidArgument("a dataset is asked for by its name or by its number"));
  }
  const DatasetPtr found = find.name().empty() ? given_.ledger.Get(find.dataset()) : FindNamed(find.name());
  if (found) return call->Reply(FindReply(*found));
  if (find.name().empty()) return call->Fail(NotFound("{}", Ask(find.dataset(), Level::kCaptured).status.message()));
  call->Fail(NotFound("run {} has no whole dataset of the name {}", given_.run_name, Quoted(find.name())));
}

// The newest that has it. What was rejected, or taken out of the prefix' index, has none.
DatasetPtr Levels::FindNamed(const std::string& name) const {
  const std::vector<DatasetPtr>& all = given_.ledger.ByAge();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&name](const DatasetPtr& dataset) {
    return dataset->whole() && !dataset->dropped() && dataset->standing != Standing::kAnothers &&
           NameInRecords(*dataset) == name;
  });
  return found == all.rend() ? nullptr : *found;
}

void Levels::Stored(const SessionPtr& session, const std::shared_ptr<Call>& call, const local::Stored& stored) {
  const DatasetPtr dataset = given_.ledger.Get(stored.dataset());
  if (!dataset || dataset->level() < Level::kLocal) {
    return call->Fail(NotFound("run {} has no whole dataset {}", given_.run_name, stored.dataset()));
  }
  given_.inventory.Describe(dataset, [session, call, dataset](const absl::Status& status) {
    if (!status.ok()) return call->Fail(status);
    call->Reply(StoredReply(*dataset, *session));
  });
}

}  // namespace cairn
