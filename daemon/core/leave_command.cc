#include "daemon/core/leave_command.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/commands.h"
#include "daemon/core/facts.h"
#include "daemon/core/rebuild_order.h"
#include "daemon/policy/policy.h"
#include "proto/peer.pb.h"
#include "proto/redundancy.pb.h"
#include "storage/base/number_ranges.h"
#include "storage/base/status.h"
#include "storage/place/prefix/prefix.h"

namespace cairn::commands {
namespace {

bool HasPartsHere(const Dataset& dataset) {
  return std::ranges::any_of(dataset.parts, [](const Part& part) { return !part.elsewhere && part.captured(); });
}

// Handed over, and not whole yet.
bool IsOnItsWay(const Dataset& dataset) {
  return dataset.cache == Place::kArriving || (dataset.kind.past_cache && dataset.prefix == Place::kArriving);
}

// What becomes of it is decided by another daemon, or by nobody just now: this one is not told everything.
bool OthersDecide(const Dataset& dataset) {
  return dataset.followed || (dataset.in_cache() && dataset.unknown > 0);
}

absl::Status CheckNobodyWorks(const Ledger& ledger) {
  const Launch* const newest = ledger.newest();
  if (newest == nullptr || newest->over()) return absl::OkStatus();
  NumberRanges live;
  for (Rank rank = 0; rank < newest->ranks.size(); ++rank) {
    if (newest->ranks[rank] == RankState::kLive) live.Add(rank);
  }
  return FailedPrecondition("ranks {} of launch {} are at work here, or by way of this node: they are to end first",
                            TextOf(live), newest->id);
}

// This node's parts, to be made anew on another of those that have parts.
peer::Rebuild OrderWithout(const Dataset& dataset, const NodeId& here) {
  std::map<Rank, std::vector<kept::Set>> lost;
  for (const SetHere& one : SetsHere(dataset)) {
    for (const Rank rank : one.set.ranks()) {
      if (!dataset.parts.at(rank).elsewhere) lost[rank].push_back(one.set);
    }
  }
  return RebuildOrder(
      dataset, lost, [](Rank) { return true; }, here);
}

class Leaving : public std::enable_shared_from_this<Leaving> {
 public:
  using Done = std::function<void(absl::StatusOr<OnlyHere>)>;
  Leaving(Run& run, const Context& context, const LeaveHow& how, Done done)
      : run_(run), context_(context), how_(how), done_(std::move(done)) {}

  void Start() {
    if (const absl::Status may = CheckMay(); !may.ok()) return done_(may);
    timer_ = context_.loop().After(how_.patience, [self = shared_from_this()] { self->Answer(); });
    LookAtPrefix([self = shared_from_this()] { self->Begin(); });
  }

 private:
  absl::Status CheckMay() const { return how_.to_prefix ? absl::OkStatus() : CheckNobodyWorks(run_.ledger); }

  // What other daemons decide about may have come to the prefix without this one hearing of it.
  void LookAtPrefix(std::function<void()> then) {
    const std::vector<DatasetPtr> missed = Missed();
    const std::shared_ptr<Prefix> prefix = run_.gate.prefix();
    const bool any = std::ranges::any_of(missed, [](const DatasetPtr& dataset) { return OthersDecide(*dataset); });
    if (!any || !prefix) return then();
    context_.OnPrefix(
        run_.gate.path(), [prefix] { return prefix->Contents(); },
        [self = shared_from_this(), then = std::move(then)](const absl::StatusOr<PrefixContents>& contents) {
          if (contents.ok()) self->Found(*contents);
          then();
        });
  }

  // Not one of SCR's that has its number, nor one whose copy there this daemon has found to be damaged.
  void Found(const PrefixContents& contents) {
    for (const DatasetPtr& dataset : Missed()) {
      const auto there = contents.datasets.find(dataset->id);
      const bool counts = there != contents.datasets.end() && there->second.by_cairn;
      if (counts && OthersDecide(*dataset) && dataset->prefix == Place::kAbsent) elsewhere_.insert(dataset->id);
    }
    for (const auto& [id, there] : contents.datasets) {
      if (!there.by_cairn || !there.descriptor.checkpoint) continue;
      newest_there_ = std::max(newest_there_, std::pair(there.descriptor.launch.value_or(0), id));
    }
  }

  void Begin() {
    for (const DatasetPtr& dataset : Missed()) {
      if (!dataset->in_cache()) continue;
      if (how_.to_prefix) {
        Order(dataset->id);
      } else if (dataset->followed && dataset->redundant) {
        Remake(dataset->id);
      } else if (dataset->over_nodes() && dataset->redundant) {
        HandOver(*dataset);
      } else {
        Order(dataset->id);
      }
    }
    run_.waits.Wait([self = shared_from_this()] {
      const bool coming = std::ranges::any_of(self->ordered_, [&self](DatasetId id) { return self->IsComing(id); });
      if (!self->answered_ && !coming && self->Missed().empty()) self->Answer();
      return self->answered_;
    });
  }

  void Order(DatasetId id) {
    admin::FlushRequest request;
    request.set_dataset(id);
    Flush(run_, request, [self = shared_from_this(), id](const admin::FlushReply& reply) {
      if (reply.status().code() == local::OK) {
        self->ordered_.insert(id);
      } else {
        self->why_[id] = reply.status().message();
      }
    });
  }

  // What others keep is enough to do without the parts that are here. Else it is flushed; not before, since what is
  // being copied is not made anew.
  void Remake(DatasetId id) {
    peer::Question question;
    question.mutable_remake()->set_dataset(id);
    question.mutable_remake()->set_node(context_.cache_id);
    run_.nodes.Ask(run_.home.node(), question, [self = shared_from_this(), id](const auto& answer) {
      if (IsUnavailable(answer.status()) || IsDeadlineExceeded(answer.status())) {  // it is being copied, or made anew
        self->why_[id] = std::string(MessageOf(answer.status()));
      } else if (!answer.ok() || answer->remade().status().code() != local::OK) {
        self->Order(id);
      } else {
        self->elsewhere_.insert(id);
        self->run_.waits.Ask();
      }
    });
  }

  // A restart would choose a newer one, which is safe there; this daemon has not been told.
  bool HasANewerOneThere(const Dataset& dataset) const {
    const bool only_checkpoint = dataset.kind.checkpoint && !dataset.kind.output && !dataset.pinned;
    return only_checkpoint && OthersDecide(dataset) && std::pair(dataset.launch, dataset.id) < newest_there_;
  }

  // Its flush is under way or to come: without this daemon nobody would see to it until the next launch.
  bool Comes(DatasetId id) const {
    const std::vector<DatasetFacts> facts = AllFactsOf(run_.ledger, context_.config.flush);
    const auto of_it = std::ranges::find(facts, id, &DatasetFacts::id);
    return of_it != facts.end() && ComesToPrefix(*of_it, context_.config.flush);
  }

  bool IsComing(DatasetId id) const {
    const DatasetPtr dataset = run_.ledger.Get(id);
    return dataset && !dataset->in_prefix() && Comes(id);
  }

  // The same, where this daemon is the home.
  void HandOver(const Dataset& dataset) {
    const std::set<NodeId> holders = HoldersOf(dataset);
    const auto to = std::ranges::find_if(holders, [this](const NodeId& node) { return run_.away.HasLink(node); });
    if (to == holders.end()) return Order(dataset.id);
    run_.away.Rebuild(*to, OrderWithout(dataset, context_.cache_id),
                      [self = shared_from_this(), id = dataset.id](const auto& by) {
                        if (by.ok()) self->elsewhere_.insert(id);
                        if (!by.ok() || self->Comes(id)) self->Order(id);
                        self->run_.waits.Ask();
                      });
  }

  std::vector<DatasetPtr> Missed() const {
    const std::vector<DatasetId> order = EvictionOrder(AllFactsOf(run_.ledger, context_.config.flush));
    const std::set<DatasetId> may_go(order.begin(), order.end());
    std::vector<DatasetPtr> missed;
    for (const auto& [id, dataset] : run_.ledger.InPlay()) {
      const bool in_folder = dataset->in_folder() && !how_.to_prefix;
      const bool elsewhere = dataset->in_prefix() || in_folder || elsewhere_.contains(id);
      if (dataset->foreign || elsewhere || !HasPartsHere(*dataset) || HasANewerOneThere(*dataset)) continue;
      if (IsOnItsWay(*dataset) || (dataset->in_cache() && !may_go.contains(id))) missed.push_back(dataset);
    }
    return missed;
  }

  std::string WhyMissed(const Dataset& dataset) const {
    if (const auto why = why_.find(dataset.id); why != why_.end()) return why->second;
    if (IsOnItsWay(dataset)) return "not all ranks' parts are stored yet";
    const std::string held_up = run_.HeldUpBy(dataset.id);
    return held_up.empty() ? "it is on its way to the prefix" : held_up;
  }

  void Answer() {
    if (std::exchange(answered_, true)) return;
    context_.loop().Cancel(timer_);
    if (const absl::Status may = CheckMay(); !may.ok()) return done_(may);  // some may have come
    OnlyHere only_here;
    for (const DatasetPtr& dataset : Missed()) {
      admin::OnlyHere& one = only_here.emplace_back();
      one.set_run(run_.id.Hex());
      one.set_prefix(run_.gate.path());
      one.set_dataset(dataset->id);
      one.set_step(dataset->step);
      one.set_bytes(dataset->bytes_here());
      one.set_why(WhyMissed(*dataset));
    }
    done_(std::move(only_here));
  }

  Run& run_;
  const Context& context_;
  const LeaveHow how_;
  const Done done_;
  Loop::TimerId timer_ = 0;
  bool answered_ = false;
  std::set<DatasetId> ordered_;                  // to the prefix
  std::pair<LaunchId, DatasetId> newest_there_;  // committed checkpoint, as the prefix says; 0: not looked at, or none
  std::set<DatasetId> elsewhere_;                // all of it, as the prefix says, or the launch's home
  std::map<DatasetId, std::string> why_;         // why it was not ordered there, or is not elsewhere yet
};

}  // namespace

void Leave(Run& run, const Context& context, const LeaveHow& how, std::function<void(absl::StatusOr<OnlyHere>)> done) {
  std::make_shared<Leaving>(run, context, how, std::move(done))->Start();
}

}  // namespace cairn::commands
