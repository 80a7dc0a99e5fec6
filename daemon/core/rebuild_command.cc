#include "daemon/core/rebuild_command.h"

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
                  LostRanks(*dataset), id, brought.all_answered ? "" : "; not all nodes have answered");
}

}  // namespace

void Rebuild(Run& run, const admin::RebuildRequest& request, std::function<void(admin::RebuildReply)> done) {
  const DatasetId id = request.dataset();
  if (const absl::Status why_not = WhyNotHere(run, id); !why_not.ok()) {
    admin::RebuildReply reply;
    *reply.mutable_status() = StatusMessage(why_not);
    return done(std::move(reply));
  }
  run.others.MakeAnew(id, [&run, id, done = std::move(done)](const OtherCaches::Brought& brought) {
    admin::RebuildReply reply;
    *reply.mutable_status() = StatusMessage(HowItEnded(run, id, brought));
    for (const OtherCaches::MadeAnew& made : brought.made) {
      admin::RebuiltRank& rank = *reply.add_ranks();
      rank.set_rank(made.rank);
      rank.set_bytes(made.bytes);
      *rank.mutable_set() = made.set;
      rank.mutable_nodes()->Add(made.hosts.begin(), made.hosts.end());
    }
    done(std::move(reply));
  });
}

}  // namespace cairn::commands
