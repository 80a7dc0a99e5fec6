#include "daemon/core/protector.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/format/scr/sets.h"
#include "storage/job/protect/keep.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::uint64_t kForRecords = 64 << 10;  // headers, and what protects filemaps, of a rank

constexpr std::string_view kSingle = "single";

scr::SetWish WishOf(std::string_view name, const Config::Redundancy& redundancy) {
  scr::Scheme scheme = scr::Scheme::kSingle;
  if (name == "partner") scheme = scr::Scheme::kPartner;
  if (name == "xor") scheme = scr::Scheme::kXor;
  if (name == "rs") scheme = scr::Scheme::kRs;
  return {.scheme = scheme,
          .members_min = redundancy.members,
          .checksums = scheme == scr::Scheme::kRs ? redundancy.checksums : 0};
}

const NodeId& NodeOf(const Part& part, const NodeId& here) {
  return part.elsewhere ? part.node : here;
}

std::uint64_t BytesOf(const Part& part) {
  return part.bytes + CatalogueFileBytes(part.catalogue);
}

}  // namespace

// --- Which ---

// What the application has said counts more than what the site has.
std::string_view Protector::SchemeOf(const Dataset& dataset) const {
  const bool given = dataset.scheme != local::SCHEME_NOT_GIVEN;
  return given ? NameOfScheme(dataset.scheme) : context_.config.redundancy.scheme;
}

// Whole in the caches of several nodes, all of which are known, and not on the prefix, where it outlives all of them.
bool Protector::Wants(const Dataset& dataset) const {
  const Launch* const newest = given_.ledger.newest();
  if (newest == nullptr || !newest->ours || dataset.followed || SchemeOf(dataset) == kSingle) return false;
  if (!dataset.in_cache() || dataset.in_prefix() || dataset.unknown > 0 || !dataset.described()) return false;
  if (dataset.redundant || !dataset.over_nodes() || dataset.standing > Standing::kDoubted) return false;
  return std::ranges::all_of(HoldersOf(dataset), [this](const NodeId& node) { return given_.away.HasLink(node); });
}

std::string Protector::WhyNot(const Dataset& dataset) const {
  if (dataset.scheme == local::SCHEME_SINGLE) {
    return "`redundant` needs copies on other nodes, and its application has asked for `single`";
  }
  if (SchemeOf(dataset) == kSingle) {
    return "`redundant` needs copies on other nodes, and redundancy.scheme is `single`";
  }
  if (dataset.kind.past_cache) return "it goes past the cache: nothing of it is kept on other nodes";
  if (dataset.followed || !dataset.in_cache()) return "";
  if (!dataset.over_nodes()) return "all of it is on one node: ranks protect each other over several";
  const auto refused = refused_.find(dataset.id);
  return refused != refused_.end() && refused->second.for_good ? refused->second.why : "";
}

void Protector::Update() {
  std::erase_if(refused_, [this](const auto& item) { return given_.ledger.Get(item.first) == nullptr; });
  DatasetPtr next;
  const auto since = given_.ledger.SinceOldestInPlay();
  const std::vector<DatasetPtr> newest_first(since.rbegin(), since.rend());  // what is noted on the way changes them
  for (const DatasetPtr& dataset : newest_first) {
    const bool wants = Wants(*dataset);
    const auto refused = refused_.find(dataset->id);
    const bool awaits = wants && refused == refused_.end();
    if (dataset->awaits_redundancy != awaits) given_.ledger.AwaitsRedundancy(*dataset, awaits);
    if (dataset->redundant && dataset->keeping_before > 0 && !dataset->followed) {
      given_.keeping.AllKept(dataset, SetsAt(*dataset, ""));
    }
    const bool now =
        refused == refused_.end() || (!refused->second.for_good && context_.now() >= refused->second.until);
    if (!next && wants && now) next = dataset;
  }
  if (!next || under_way_ != 0 || context_.quiescing()) return;
  absl::StatusOr<Plan> plan = MakePlan(*next);
  under_way_ = next->id;
  if (!plan.ok()) {  // in a step of its own: this is a part of another change
    return context_.loop().Post([this, next, why = plan.status()] { Ended(next, {}, why); });
  }
  Start(next, *std::move(plan));
}

// --- How ---

absl::StatusOr<std::vector<std::string>> Protector::GroupsOf(const Dataset& dataset) const {
  std::map<NodeId, std::string> by_node;
  const std::string& own = context_.config.redundancy.group;
  by_node[context_.cache_id] = own.empty() ? context_.env.process.host : own;
  std::vector<std::string> groups;
  for (const Part& part : dataset.parts) {
    const NodeId& node = NodeOf(part, context_.cache_id);
    if (const auto known = by_node.find(node); known == by_node.end()) {
      const auto member = given_.nodes.Find(node);
      if (!member) return Unavailable("node {} is not reached", node.substr(0, 8));
      by_node[node] = member->group.empty() ? member->host : member->group;
    }
    groups.push_back(by_node.at(node));
  }
  return groups;
}

//   kFailedPrecondition, kInvalidArgument  no such sets can be made of these nodes
absl::StatusOr<Protector::Plan> Protector::MakePlan(const Dataset& dataset) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> groups, GroupsOf(dataset));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<scr::SetDescriptor> by_rank,
                         scr::MakeSets(WishOf(SchemeOf(dataset), context_.config.redundancy), groups));
  Plan plan;
  plan.sets = SetsOf(by_rank);
  if (plan.sets.empty()) {
    return FailedPrecondition("all its ranks are in one failure group, {}: ranks protect each other over several",
                              groups.front());
  }
  for (const kept::Set& set : plan.sets) {
    std::map<Rank, std::uint64_t> bytes;
    std::map<NodeId, std::uint64_t> kept;
    for (const Rank rank : set.ranks()) bytes[rank] = BytesOf(dataset.parts[rank]);
    for (const Rank rank : set.ranks()) {
      kept[NodeOf(dataset.parts[rank], context_.cache_id)] += KeptBytesOf(set, bytes, rank) + kForRecords;
    }
    for (const auto& [node, more] : kept) {
      peer::Keep& order = plan.orders[node];
      order.set_dataset(dataset.id);
      order.set_bytes(order.bytes() + more);
      *order.add_sets() = set;
      for (const Rank rank : set.ranks()) {
        peer::Keep::Member& member = *order.add_members();
        member.set_rank(rank);
        member.set_node(NodeOf(dataset.parts[rank], context_.cache_id));
      }
    }
  }
  return plan;
}

// Nobody lets go of its parts meanwhile: the dataset is being read.
void Protector::Start(const DatasetPtr& dataset, Plan plan) {
  spdlog::info("run {}: dataset {} (step {}): its ranks on {} nodes are to protect each other ({})", given_.run_name,
               dataset->id, dataset->step, plan.orders.size(), SchemeOf(*dataset));
  struct Gathered {
    std::size_t left = 0;
    absl::Status status;
  };
  const auto gathered = std::make_shared<Gathered>();
  const auto sets = std::make_shared<const std::vector<kept::Set>>(std::move(plan.sets));
  gathered->left = plan.orders.size();
  given_.ledger.ReadBegan(*dataset);
  for (auto& [node, order] : plan.orders) {
    const auto ended = [this, dataset, gathered, sets, node = node](const absl::Status& status) {
      if (gathered->status.ok() && !status.ok()) {
        gathered->status = Annotate(status, fmt::format("node {}", node.substr(0, 8)));
      }
      if (--gathered->left > 0) return;
      given_.ledger.ReadEnded(*dataset);
      Ended(dataset, *sets, gathered->status);
    };
    if (node == context_.cache_id) {
      given_.keeping.Keep(order, ended);
    } else {
      given_.away.Keep(node, order, ended);
    }
  }
}

void Protector::Ended(const DatasetPtr& dataset, const std::vector<kept::Set>& sets, const absl::Status& status) {
  under_way_ = 0;
  const bool there = given_.ledger.Has(dataset) && Wants(*dataset);
  if (there && status.ok()) {
    refused_.erase(dataset->id);
    given_.ledger.AllKeep(*dataset, sets);
    given_.away.AllKept(*dataset);
    spdlog::info("run {}: dataset {} (step {}) is redundant", given_.run_name, dataset->id, dataset->step);
  } else if (there) {
    Refused& refused = refused_[dataset->id];
    refused.why = std::string(MessageOf(status));
    refused.for_good = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
    const Config::Flush& flush = context_.config.flush;
    const std::chrono::milliseconds pause(
        std::min(flush.retry_ms_min << std::min(refused.times++, 20u), flush.retry_ms_max));
    refused.until = context_.now() + pause;
    context_.Warn(fmt::format(
        "run {}: dataset {} (step {}) does not become redundant{}: {}", given_.run_name, dataset->id, dataset->step,
        refused.for_good ? "" : fmt::format(", next try in {} s", pause.count() / 1000.0), refused.why));
    if (!refused.for_good) context_.loop().After(pause, look_again_);
  }
  given_.waits.Changed();
}

}  // namespace cairn
