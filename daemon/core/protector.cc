#include "daemon/core/protector.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/catalogue/scheme.h"
#include "storage/format/scr/sets.h"
#include "storage/job/protect/keep.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::uint64_t kForRecords = 64 << 10;  // headers, and what protects filemaps, of a rank

constexpr std::string_view kSingle = "single", kFolder = "folder";

scr::SetWish WishOf(const AskedScheme& asked, const Config::Redundancy& redundancy) {
  scr::Scheme scheme = scr::Scheme::kSingle;
  if (asked.kind == local::SCHEME_PARTNER) scheme = scr::Scheme::kPartner;
  if (asked.kind == local::SCHEME_XOR) scheme = scr::Scheme::kXor;
  if (asked.kind == local::SCHEME_RS) scheme = scr::Scheme::kRs;
  const std::uint32_t checksums = asked.has_size() ? asked.checksums : redundancy.checksums;
  return {.scheme = scheme,
          .members_min = asked.has_size() ? asked.members : redundancy.members,
          .checksums = scheme == scr::Scheme::kRs ? checksums : 0};
}

const NodeId& NodeOf(const Part& part, const NodeId& here) {
  return part.elsewhere ? part.node : here;
}

std::uint64_t BytesOf(const Part& part) {
  return part.bytes + CatalogueFileBytes(part.catalogue);
}

}  // namespace

// --- Which ---

// What the application has said counts more than what the site has, which has its folder for use.
AskedScheme Protector::AskedFor(const Dataset& dataset) const {
  if (dataset.scheme != local::SCHEME_NOT_GIVEN) return dataset.scheme;
  const absl::StatusOr<AskedScheme> configured = ParseScheme(context_.config.redundancy.scheme);
  CAIRN_CHECK(configured.ok());  // ValidateConfig
  return configured->kind == local::SCHEME_SINGLE && given_.tier.configured() ? AskedScheme(local::SCHEME_FOLDER)
                                                                              : *configured;
}

std::string_view Protector::SchemeOf(const Dataset& dataset) const {
  return NameOfScheme(AskedFor(dataset).kind);
}

// Whole in the caches of several nodes, all of which are known, and not on the prefix, where it outlives all of them.
// To the folder it goes from one node, too.
bool Protector::Wants(const Dataset& dataset) const {
  const Launch* const newest = given_.ledger.newest();
  const std::string_view scheme = SchemeOf(dataset);
  if (newest == nullptr || !newest->ours || dataset.followed || scheme == kSingle) return false;
  if (!dataset.in_cache() || dataset.in_prefix() || dataset.unknown > 0 || !dataset.described()) return false;
  if (dataset.is_redundant() || dataset.standing > Standing::kDoubted) return false;
  const bool folder = scheme == kFolder;
  if (folder ? dataset.launch == 0 || !given_.tier.configured() || !given_.tier.Belongs(dataset)
             : !dataset.over_nodes()) {
    return false;
  }
  return std::ranges::all_of(HoldersOf(dataset), [this](const NodeId& node) { return given_.away.HasLink(node); });
}

bool Protector::Brings(const Dataset& dataset) const {
  return dataset.awaits_redundancy && SchemeOf(dataset) == kFolder;
}

bool Protector::IsToCome(const Dataset& dataset) const {
  if (dataset.id == under_way_ || dataset.id == under_way_in_folder_) return true;
  const auto refused = refused_.find(dataset.id);
  return Wants(dataset) && (refused == refused_.end() || !refused->second.for_good);
}

std::string Protector::WhyNot(const Dataset& dataset) const {
  if (dataset.scheme == local::SCHEME_SINGLE) {
    return "`redundant` needs copies on other nodes, and its application has asked for `single`";
  }
  const bool folder = SchemeOf(dataset) == kFolder;
  if (folder && !given_.tier.configured()) {
    return dataset.scheme == local::SCHEME_FOLDER
               ? "its application has asked for `folder`, and redundant.path is not set"
               : "redundancy.scheme is `folder`, and redundant.path was not set when this daemon was started";
  }
  if (SchemeOf(dataset) == kSingle) {
    return "`redundant` needs copies on other nodes, and redundancy.scheme is `single`";
  }
  if (dataset.kind.past_cache) return "it goes past the cache: nothing of it is kept on other nodes";
  if (dataset.followed || !dataset.in_cache()) return "";
  if (!folder && !dataset.over_nodes()) return "all of it is on one node: ranks protect each other over several";
  const auto refused = refused_.find(dataset.id);
  return refused != refused_.end() && refused->second.for_good ? refused->second.why : "";
}

void Protector::Update() {
  std::erase_if(refused_, [this](const auto& item) { return given_.ledger.Get(item.first) == nullptr; });
  const auto since = given_.ledger.SinceOldestInPlay();
  const std::vector<DatasetPtr> newest_first(since.rbegin(), since.rend());  // what is noted on the way changes them
  for (const DatasetPtr& dataset : newest_first) {
    const bool wants = Wants(*dataset);
    const auto refused = refused_.find(dataset->id);
    const bool away = wants && SchemeOf(*dataset) == kFolder && given_.tier.IsAway();
    const bool awaits = wants && !away && refused == refused_.end();
    if (dataset->awaits_redundancy != awaits) given_.ledger.AwaitsRedundancy(*dataset, awaits);
    if (dataset->is_redundant() && dataset->keeping_before > 0 && !dataset->followed) {
      given_.keeping.AllKept(dataset, SetsAt(*dataset, ""));
    }
    const bool now =
        refused == refused_.end() || (!refused->second.for_good && context_.now() >= refused->second.until);
    if (wants && now && !context_.quiescing() && MayStart(*dataset)) Begin(dataset);
  }
}

bool Protector::MayStart(const Dataset& dataset) const {
  if (SchemeOf(dataset) != kFolder) return under_way_ == 0;
  return under_way_in_folder_ == 0 && given_.tier.MayBring(dataset.id);
}

void Protector::Begin(const DatasetPtr& dataset) {
  if (SchemeOf(*dataset) == kFolder) {
    under_way_in_folder_ = dataset->id;
    given_.tier.Begun(dataset->id);
    return Start(dataset, PlanForFolder(*dataset));
  }
  under_way_ = dataset->id;
  absl::StatusOr<Plan> plan = MakePlan(*dataset);
  if (plan.ok()) return Start(dataset, *std::move(plan));
  // In a step of its own: this is a part of another change.
  context_.loop().Post([this, dataset, why = plan.status()] { Ended(dataset, {}, why); });
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

// Smaller sets than were asked for are none of them. But what nodes were lost of is protected over those that are left:
// it bears as many further losses as was asked for.
absl::Status Protector::CheckSize(const Dataset& dataset, const std::vector<std::string>& groups) const {
  const AskedScheme asked = AskedFor(dataset);
  if (!asked.has_size()) return absl::OkStatus();
  const bool was_redundant = std::ranges::any_of(dataset.parts, [](const Part& part) { return part.keeps != nullptr; });
  const std::size_t count = std::set(groups.begin(), groups.end()).size();
  if (was_redundant || count >= asked.members) return absl::OkStatus();
  const bool by_application = dataset.scheme != local::SCHEME_NOT_GIVEN;
  return FailedPrecondition("{} `{}`, which needs ranks in {} failure groups; they are in {}",
                            by_application ? "its application has asked for" : "redundancy.scheme is",
                            TextOfScheme(asked), asked.members, count);
}

//   kFailedPrecondition, kInvalidArgument  no such sets can be made of these nodes
absl::StatusOr<Protector::Plan> Protector::MakePlan(const Dataset& dataset) const {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> groups, GroupsOf(dataset));
  CAIRN_RETURN_IF_ERROR(CheckSize(dataset, groups));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<scr::SetDescriptor> by_rank,
                         scr::MakeSets(WishOf(AskedFor(dataset), context_.config.redundancy), groups));
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

// Each node that has parts brings them.
Protector::Plan Protector::PlanForFolder(const Dataset& dataset) const {
  Plan plan;
  for (const Part& part : dataset.parts) {
    peer::Keep& order = plan.orders[NodeOf(part, context_.cache_id)];
    order.set_dataset(dataset.id);
    order.set_in_folder(true);
  }
  return plan;
}

// Nobody lets go of its parts meanwhile: the dataset is being read.
void Protector::Start(const DatasetPtr& dataset, Plan plan) {
  const bool folder = plan.sets.empty();
  spdlog::info("run {}: dataset {} (step {}): its ranks on {} nodes are to {} ({})", given_.run_name, dataset->id,
               dataset->step, plan.orders.size(), folder ? "bring it to a folder" : "protect each other",
               SchemeOf(*dataset));
  struct Gathered {
    std::size_t left = 0;
    absl::Status status;
  };
  const auto gathered = std::make_shared<Gathered>();
  const auto sets = std::make_shared<const std::vector<kept::Set>>(std::move(plan.sets));
  gathered->left = plan.orders.size();
  given_.ledger.ReadBegan(*dataset);
  for (auto& [node, order] : plan.orders) {
    const auto ended = [this, dataset, gathered, sets, folder, node = node](const absl::Status& status) {
      if (gathered->status.ok() && !status.ok()) {
        gathered->status = Annotate(status, fmt::format("node {}", node.substr(0, 8)));
      }
      if (--gathered->left > 0) return;
      if (folder) return AllBrought(dataset, gathered->status);
      given_.ledger.ReadEnded(*dataset);
      Ended(dataset, *sets, gathered->status);
    };
    if (node == context_.cache_id && folder) {
      given_.tier.Bring(dataset->id, ended);
    } else if (node == context_.cache_id) {
      given_.keeping.Keep(order, ended);
    } else {
      given_.away.Keep(node, order, ended);
    }
  }
}

// All nodes have: then it is `redundant` once the record says so.
void Protector::AllBrought(const DatasetPtr& dataset, const absl::Status& status) {
  const auto ended = [this, dataset](const absl::Status& how) {
    given_.ledger.ReadEnded(*dataset);
    Ended(dataset, {}, how);
  };
  if (absl::IsResourceExhausted(status)) given_.tier.IsFull(dataset->id);
  if (!status.ok()) return ended(status);
  if (!given_.ledger.Has(dataset) || !Wants(*dataset)) return ended(Unavailable("parts of it were lost meanwhile"));
  given_.tier.Complete(dataset, ended);
}

void Protector::Ended(const DatasetPtr& dataset, const std::vector<kept::Set>& sets, const absl::Status& status) {
  (under_way_in_folder_ == dataset->id ? under_way_in_folder_ : under_way_) = 0;
  const bool in_folder = given_.ledger.Has(dataset) && dataset->in_folder();
  const bool there = in_folder || (given_.ledger.Has(dataset) && Wants(*dataset));
  if (there && status.ok()) {
    refused_.erase(dataset->id);
    if (!in_folder) given_.ledger.AllKeep(*dataset, sets);
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
