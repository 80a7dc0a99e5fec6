// What of OtherCaches has to do with parts that are lost: other_caches.h.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "daemon/core/other_caches.h"
#include "daemon/core/rebuild.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {

// Parts of checkpoints with nodes that are not there any more, or have them no more: the launch that begins would find
// out when it restores, but others may keep enough to make them anew, of this one or of the next older one. `only`:
// of no other dataset, and not with nodes that are there and did not answer.
void OtherCaches::NoteLostParts(const Nodes::Holdings& holdings, DatasetId only) {
  std::map<NodeId, std::set<std::pair<DatasetId, std::string>>> there;
  std::set<NodeId> silent;
  for (const auto& [member, told] : holdings) {
    if (!told.ok()) silent.insert(member.node);
    if (!told.ok()) continue;
    for (const peer::Holding& holding : told->datasets()) there[member.node].emplace(holding.dataset(), holding.mark());
  }
  for (const auto& [id, dataset] : Datasets(given_.ledger.InPlay())) {
    if (!dataset->in_cache() || dataset->prefix != Place::kAbsent || !dataset->kind.checkpoint) continue;
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

void OtherCaches::DescribeLostParts(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset) {
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
      [this, parts] { return DescribeLost(parts, progress_); },
      [this, job, from, dataset, parts](absl::StatusOr<std::vector<catalogue::Catalogue>> ranks) mutable {
        given_.ledger.ReadEnded(*dataset);
        absl::Status may = ranks.status();
        if (may.ok()) may = given_.ledger.Has(dataset) ? CheckMayCome(from) : NotFound("it has left the cache");
        if (!may.ok()) return Failed(job, from, may);
        Rebuild(job, from, dataset, std::move(parts), *std::move(ranks));
      });
}

// Their room is taken by what the dataset keeps, until they are there.
void OtherCaches::Rebuild(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset, LostParts parts,
                          std::vector<catalogue::Catalogue> ranks) {
  context_.Warn(
      fmt::format("{}: no node has the parts of {} of its {} ranks any more: they are made anew of what the "
                  "others keep",
                  TextOf(from), ranks.size(), dataset->nranks));
  std::uint64_t bytes = 0;
  for (const catalogue::Catalogue& rank : ranks) bytes += FileBytes(rank) + CatalogueFileBytes(rank);
  given_.ledger.ReadBegan(*dataset);
  if (const absl::Status room = given_.cache.Reserve(bytes); !room.ok()) {
    given_.ledger.ReadEnded(*dataset);
    return Failed(job, from, room);
  }
  given_.ledger.KeepBegan(*dataset, dataset->kept_bytes + bytes);
  auto rebuild = [this, parts = std::move(parts), ranks] { return RebuildLost(parts, ranks, progress_); };
  given_.folders.WhenUnchanged(dataset->id, [this, job, from, dataset, bytes, rebuild = std::move(rebuild), ranks] {
    RunBlocking(context_.env.pools.far, from.member.address, context_.loop(), rebuild,
                [this, job, from, dataset, bytes, ranks](const absl::StatusOr<std::map<Rank, kept::Set>>& rebuilt) {
                  given_.ledger.KeepBegan(*dataset, dataset->kept_bytes - std::min(bytes, dataset->kept_bytes));
                  given_.ledger.ReadEnded(*dataset);
                  RebuiltHere(job, from, dataset, ranks, rebuilt);
                });
  });
}

void OtherCaches::RebuiltHere(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset,
                              const std::vector<catalogue::Catalogue>& ranks,
                              const absl::StatusOr<std::map<Rank, kept::Set>>& rebuilt) {
  if (!given_.ledger.Has(dataset)) return Unwanted(job, dataset->id);
  if (!rebuilt.ok()) return Failed(job, from, rebuilt.status());
  for (const catalogue::Catalogue& rank : ranks) {
    job->brought.made.push_back(TellMade(from, rank, rebuilt->at(rank.rank())));
    if (!dataset->parts[rank.rank()].known()) given_.ledger.Rebuilt(*dataset, rank.rank(), rank);
  }
  given_.folders.Known(dataset->id);
  given_.record.Store();
  PartsComplete(job, from, dataset);
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
