#include "daemon/core/rebuild_command.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "daemon/core/commands.h"
#include "storage/base/number_ranges.h"
#include "storage/base/status.h"

namespace cairn::commands {
namespace {

absl::Status WhyNotHere(const Run& run, DatasetId id) {
  const Launch* const newest = run.ledger.newest();
  if (newest != nullptr && !newest->ours) {
    return FailedPrecondition("the home of the run's newest launch is the daemon on {}: it is for that one to do",
                              newest->maker);
  }
  if (!run.gate.prefix()) return run.gate.OutOfReach();
  const DatasetPtr dataset = run.ledger.Get(id);
  if (!dataset) return absl::OkStatus();  // other nodes may know it
  if (dataset->in_prefix()) return FailedPrecondition("dataset {} is on the prefix, and is read there", id);
  if (dataset->in_folder()) return FailedPrecondition("dataset {} is in redundant.path, and is read there", id);
  if (dataset->in_cache() && !dataset->over_nodes()) {
    return FailedPrecondition("all of dataset {} is in this node's cache", id);
  }
  if (dataset->readers > 0) return Unavailable("dataset {} is being read or copied: ask again", id);
  return absl::OkStatus();
}

std::string LostRanks(const Dataset& dataset) {
  NumberRanges lost;
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    if (!dataset.parts[rank].known()) lost.Add(rank);
  }
  return TextOf(lost);
}

// All of it is there now, or why not.
absl::Status HowItEnded(const Run& run, DatasetId id, const OtherCaches::Brought& brought) {
  const DatasetPtr dataset = run.ledger.Get(id);
  if (dataset && dataset->can_be_read()) return absl::OkStatus();
  if (!brought.why_not.ok()) return brought.why_not;
  if (!dataset) return NotFound("no node that answers has anything of dataset {} that could be made whole", id);
  return DataLoss("no node has ranks {} of dataset {}, and not enough is left of any redundancy set of theirs{}",
                  LostRanks(*dataset), id, brought.unheard.empty() ? "" : "; not all nodes have answered");
}

admin::RebuildReply ReplyOf(const Run& run, DatasetId id, const OtherCaches::Brought& brought) {
  admin::RebuildReply reply;
  *reply.mutable_status() = StatusMessage(HowItEnded(run, id, brought));
  for (const OtherCaches::MadeAnew& made : brought.made) {
    admin::RebuiltRank& rank = *reply.add_ranks();
    rank.set_rank(made.rank);
    rank.set_bytes(made.bytes);
    *rank.mutable_set() = made.set;
    rank.mutable_nodes()->Add(made.hosts.begin(), made.hosts.end());
  }
  return reply;
}

bool HasPartsAt(const Dataset& dataset, const NodeId& node) {
  return std::ranges::any_of(dataset.parts, [&node](const Part& part) { return part.elsewhere && part.node == node; });
}

}  // namespace

void Rebuild(Run& run, const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) {
  const DatasetId id = request.dataset();
  if (const absl::Status why_not = WhyNotHere(run, id); !why_not.ok()) {
    admin::RebuildReply reply;
    *reply.mutable_status() = StatusMessage(why_not);
    return done(std::move(reply));
  }
  run.others.MakeAnew(
      id, [&run, id, done = std::move(done)](const OtherCaches::Brought& brought) { done(ReplyOf(run, id, brought)); });
}

// Redundant: each set bears the loss of any node. Should it fail all the same, what that node has is looked for again.
void Remake(Run& run, const peer::Remake& request, std::function<void(absl::StatusOr<peer::Answer>)> done) {
  const DatasetId id = request.dataset();
  const auto answer = [done](admin::RebuildReply reply) {
    peer::Answer answer;
    *answer.mutable_remade() = std::move(reply);
    done(std::move(answer));
  };
  const DatasetPtr dataset = run.ledger.Get(id);
  const auto nothing_missed = [&answer] {
    admin::RebuildReply nothing;
    *nothing.mutable_status() = StatusMessage(absl::OkStatus());
    return answer(std::move(nothing));
  };
  if (dataset && !dataset->followed && dataset->in_folder()) return nothing_missed();
  if (!dataset || dataset->followed || !dataset->in_cache() || dataset->unknown > 0) {
    return done(FailedPrecondition("this daemon does not decide about dataset {}", id));
  }
  if (!HasPartsAt(*dataset, request.node())) return nothing_missed();
  if (const absl::Status why_not = WhyNotHere(run, id); !why_not.ok()) return done(why_not);
  if (!dataset->redundant) return done(FailedPrecondition("dataset {} is not redundant", id));
  run.others.MakeAnewWithout(request.node(), id, [&run, id, answer](const OtherCaches::Brought& brought) {
    admin::RebuildReply reply = ReplyOf(run, id, brought);
    if (reply.status().code() == local::OK) return answer(std::move(reply));
    run.others.MakeAnew(id, [answer, reply](const OtherCaches::Brought&) { answer(reply); });
  });
}

}  // namespace cairn::commands
