// Parts of a dataset, for one session alone: no launch, no pin. The rest is a restore's.
#include <spdlog/spdlog.h>

#include "daemon/core/core_impl.h"
#include "daemon/core/restore_plan.h"
#include "storage/base/status.h"

namespace cairn {

void CoreImpl::HandleRead(const SessionPtr& session, const CallPtr& call, const local::Read& read) {
  const RunPtr& run = session->run;
  if (session->ended) return call->Fail(local::FENCED, "the session ended meanwhile");
  if (quiescing_) return call->Fail(Unavailable("the daemon is going away"));
  const auto restoring = [&run, &session] {
    if (session->observer || !run->restore) return false;
    const auto part = run->restore->parts.find(session->rank);
    return part != run->restore->parts.end() && part->second->session == session;
  };
  if (session->reading || restoring()) return call->Fail(FailedPrecondition("this session is reading already"));
  const DatasetPtr dataset = run->ledger.Get(read.dataset());
  if (!dataset || !dataset->restorable()) {
    return call->Fail(NotFound("run {} has no restorable dataset {}", run->name, read.dataset()));
  }
  if (dataset->files) {
    return call->Fail(FailedPrecondition("dataset {} holds the application's own files, no variables", dataset->id));
  }
  if (!dataset->described) {
    return Describe(run, dataset, [this, session, call, read](const absl::Status& status) {
      if (!status.ok()) return call->Fail(status);
      HandleRead(session, call, read);
    });
  }
  auto match = MatchRead(*dataset, read);
  if (!match.ok()) return call->Fail(match.status());
  auto group = std::make_shared<RestoreGroup>();
  group->dataset = dataset;
  group->read = true;
  ++dataset->readers;
  auto part = std::make_shared<RestorePart>();
  part->session = session;
  part->call = call;
  *part->variables.Add() = std::move(match->variable);
  part->wanted = std::move(match->wanted);
  group->parts[session->rank] = part;
  session->reading = group;
  call->WaitingFor(fmt::format("\"{}\" of dataset {}", read.name(), dataset->id));
  call->OnExpired([this, run, group] {
    EndGroup(run, group, local::DEADLINE_EXCEEDED, "the read did not end before its deadline");
  });
  PlanPart(run, group, part);
}

void CoreImpl::ReadDone(const RunPtr& run, const std::shared_ptr<RestoreGroup>& group) {
  group->ended = true;
  const std::shared_ptr<RestorePart> part = group->parts.begin()->second;
  part->session->reading = nullptr;
  --group->dataset->readers;
  WithdrawDamaged(group);
  local::Reply reply;
  reply.mutable_restore_end()->set_tier(static_cast<local::Tier>(part->tier));
  part->call->Reply(std::move(reply));
  RemakeDamaged(run, group->dataset);
  Changed(run);
}

}  // namespace cairn
