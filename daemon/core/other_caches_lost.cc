// What of OtherCaches has to do with parts that are lost: other_caches.h.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "daemon/core/other_caches.h"
#include "daemon/core/rebuild.h"
#include "daemon/core/rebuild_order.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {

// Parts of checkpoints with nodes that are not there any more, or have them no more: the launch that begins would find
// out when it restores, but others may keep enough to make them anew, of this one or of the next older one. `only`:
// of no other dataset, and not with nodes that are there and did not answer.
void OtherCaches::NoteLostParts(const Nodes::Holdings& holdings, DatasetId only) {
  std::map<NodeId, std::set<std::pair<DatasetId, std::string>>> there;
  std::set<NodeId> silent;
  for (const auto& [member, missing, told] : holdings) {
    if (!told.ok() && !missing) silent.insert(member.node);
    if (!told.ok()) continue;
    for (const peer::Holding& holding : told->datasets()) there[member.node].emplace(holding.dataset(), holding.mark());
  }
  for (const auto& [id, dataset] : Datasets(given_.ledger.InPlay())) {
    // A flush that is under way may be waiting for just these parts.
    if (!dataset->in_cache() || dataset->in_prefix() || !dataset->kind.checkpoint) continue;
    if (dataset->kind.output || dataset->readers > 0 || (only != 0 && id != only)) continue;
    std::set<NodeId> lost;
    for (const Part& part : dataset->parts) {
      if (part.elsewhere && part.known() && !there[part.node].contains({id, dataset->mark})) lost.insert(part.node);
    }
    for (const NodeId& node : lost) {
      if (only == 0 || !silent.contains(node)) given_.ledger.PartsLost(*dataset, node);
    }
  }
}

// A node of which nothing is known here may have the rest: the launch begins from an older one, but not in silence. Of
// older ones that lack parts nobody needs to know.
void OtherCaches::Lacks(const JobPtr& job, const Candidate& from) {
  job->brought.missed.insert(from.dataset.id);
  job->brought.lacks = fmt::format("the parts of {} of the {} ranks of dataset {} (step {})", from.nowhere,
                                   from.dataset.nranks, from.dataset.id, from.dataset.step);
  std::erase_if(job->candidates, [](const Candidate& older) { return older.nowhere > 0; });
  Next(job);
}

// Before a launch begins nobody knows where its ranks will be: it is enough then that the parts can be made.
void OtherCaches::DescribeLostParts(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset) {
  if (AwaitsRanks(*job, from)) {
    job->candidates.clear();
    return Next(job);
  }
  LostParts parts{.cache = given_.cache.shared_folder(),
                  .descriptor = DescriptorOf(*dataset, false),
                  .lost = from.lost,
                  .here = {},
                  .elsewhere = {}};
  std::map<NodeId, std::shared_ptr<Disk>> by_node;
  for (Rank rank = 0; rank < dataset->nranks; ++rank) {
    if (!dataset->parts[rank].elsewhere) parts.here.insert(rank);
  }
  for (const auto& [rank, member] : from.at) {
    std::shared_ptr<Disk>& disk = by_node[member.node];
    if (!disk) disk = given_.nodes.FilesOf(member);
    parts.elsewhere[rank] = disk;
  }
  given_.ledger.ReadBegan(*dataset);
  RunBlocking(
      context_.env.pools.far, from.member.address, context_.loop(),
      [this, parts = std::move(parts)] { return DescribeLost(parts, progress_); },
      [this, job, from, dataset](const absl::StatusOr<std::vector<catalogue::Catalogue>>& ranks) {
        given_.ledger.ReadEnded(*dataset);
        absl::Status may = ranks.status();
        if (may.ok()) may = given_.ledger.Has(dataset) ? CheckMayCome(from) : NotFound("it has left the cache");
        if (!may.ok()) return Failed(job, from, may);
        if (!job->look && !job->parts_only && !HasBegun(*job)) return Later(job, from);
        MakeLost(job, from, dataset, *ranks);
      });
}

// The launch for whose sake it is looked for.
bool OtherCaches::HasBegun(const Job& job) const {
  const Launch* const launch = given_.ledger.newest();
  return launch != nullptr && launch->ours && launch->id > job.launch;
}

void OtherCaches::Later(const JobPtr& job, const Candidate& from) {
  spdlog::info("{}: the parts of {} of its {} ranks are made anew where these ranks come", TextOf(from),
               from.lost.size(), from.dataset.nranks);
  later_ = true;
  job->brought.missed.erase(from.dataset.id);
  job->candidates.clear();
  Next(job);
}

bool OtherCaches::IsInCache(const DatasetPtr& dataset) const {
  return given_.ledger.Has(dataset) && dataset->in_cache();
}

// Where the rank runs now; nullopt: it has not come.
std::optional<NodeId> OtherCaches::PlaceOf(Rank rank) const {
  const Launch* const launch = given_.ledger.newest();
  if (launch == nullptr || !launch->ours || rank >= launch->nranks) return NodeId();
  if (launch->ranks[rank] == RankState::kUnknown) return std::nullopt;
  const auto node = launch->nodes.find(rank);
  return node == launch->nodes.end() || !given_.away.HasLink(node->second) ? NodeId() : node->second;
}

// Who does not come soon does not hold up the others: then its part is made here.
bool OtherCaches::AwaitsRanks(const Job& job, const Candidate& from) const {
  if (!job.look || context_.now() >= ranks_until_) return false;
  return std::ranges::any_of(from.lost, [this](const auto& lost) { return !PlaceOf(lost.first); });
}

struct OtherCaches::Making {
  JobPtr job;
  Candidate from;
  DatasetPtr dataset;
  std::map<Rank, catalogue::Catalogue> catalogues;  // of the lost ranks
  std::size_t nodes_left = 0;                       // that have not answered
  std::vector<Rank> here;                           // that another node could not make
  absl::Status failed;
};

// Each on the node on which its rank runs now; here, what cannot be made there.
void OtherCaches::MakeLost(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset,
                           const std::vector<catalogue::Catalogue>& ranks) {
  context_.Warn(
      fmt::format("{}: no node has the parts of {} of its {} ranks any more: they are made anew of what the "
                  "others keep",
                  TextOf(from), ranks.size(), dataset->nranks));
  const auto making = std::make_shared<Making>();
  making->job = job;
  making->from = from;
  making->dataset = dataset;
  std::map<NodeId, std::vector<Rank>> places;
  for (const catalogue::Catalogue& catalogue : ranks) {
    const Rank rank = catalogue.rank();
    making->catalogues[rank] = catalogue;
    places[job->only != 0 ? NodeId() : PlaceOf(rank).value_or("")].push_back(rank);
  }
  making->nodes_left = places.size();
  for (const auto& [node, at] : places) MakeAt(making, node, at);
}

void OtherCaches::MakeAt(const MakingPtr& making, const NodeId& node, const std::vector<Rank>& ranks) {
  const peer::Rebuild order = OrderOf(*making, ranks);
  auto ended = [this, making, node, ranks](const absl::StatusOr<std::map<Rank, kept::Set>>& by) {
    MadeAt(making, node, ranks, by);
  };
  node.empty() ? given_.rebuilder.Make(
                     order, [] {}, std::move(ended))
               : given_.away.Rebuild(node, order, std::move(ended));
}

peer::Rebuild OtherCaches::OrderOf(const Making& making, const std::vector<Rank>& ranks) const {
  std::map<Rank, std::vector<kept::Set>> lost;
  for (const Rank rank : ranks) lost[rank] = making.from.lost.at(rank);
  const auto counts = [&making](Rank rank) { return !making.from.lost.contains(rank); };
  return RebuildOrder(*making.dataset, lost, counts, context_.cache_id);
}

void OtherCaches::MadeAt(const MakingPtr& making, const NodeId& node, const std::vector<Rank>& ranks,
                         const absl::StatusOr<std::map<Rank, kept::Set>>& by) {
  const DatasetPtr& dataset = making->dataset;
  if (by.ok()) {
    for (const Rank rank : ranks) {
      const catalogue::Catalogue& catalogue = making->catalogues.at(rank);
      const auto set = by->find(rank);
      if (set == by->end()) {  // it does not say that it has made this one
        making->here.push_back(rank);
        continue;
      }
      making->job->brought.made.push_back(TellMade(making->from, catalogue, set->second));
      const bool to_note = !node.empty() && IsInCache(dataset) && !dataset->parts[rank].known();
      if (to_note) given_.ledger.Rebuilt(*dataset, rank, node, catalogue);
    }
  } else if (node.empty()) {
    making->failed = by.status();
  } else {
    spdlog::warn("{}: {} ranks' parts could not be made anew on their node {}, so they are made here: {}",
                 TextOf(making->from), ranks.size(), node, MessageOf(by.status()));
    making->here.insert(making->here.end(), ranks.begin(), ranks.end());
  }
  if (--making->nodes_left == 0) AllMade(making);
}

void OtherCaches::AllMade(const MakingPtr& making) {
  const std::vector<Rank> here = std::exchange(making->here, {});
  if (!here.empty() && making->failed.ok() && IsInCache(making->dataset)) {
    making->nodes_left = 1;
    return MakeAt(making, "", here);
  }
  if (!given_.ledger.Has(making->dataset)) return Unwanted(making->job, making->dataset->id);
  if (!IsInCache(making->dataset)) return Next(making->job);  // it is on the prefix by now
  if (making->failed.ok()) return PartsComplete(making->job, making->from, making->dataset);
  Failed(making->job, making->from, making->failed);
}

OtherCaches::MadeAnew OtherCaches::TellMade(const Candidate& from, const catalogue::Catalogue& rank,
                                            const kept::Set& set) const {
  std::set<std::string> hosts;
  for (const Rank member : set.ranks()) {
    if (member == rank.rank() || from.lost.contains(member)) continue;
    const auto there = from.at.find(member);
    hosts.insert(there != from.at.end() ? there->second.host : context_.env.process.host);
  }
  return {.rank = rank.rank(), .bytes = FileBytes(rank), .set = set, .hosts = {hosts.begin(), hosts.end()}};
}

}  // namespace cairn
