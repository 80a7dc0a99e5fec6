// What of OtherCaches has to do with datasets that several nodes have in parts: other_caches.h.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/descriptor.h"
#include "daemon/core/in_parts.h"
#include "daemon/core/other_caches.h"
#include "daemon/peers/member.h"
#include "storage/base/status.h"
#include "storage/place/cache/cache_folder.h"

namespace cairn {
namespace {

// What is read of one node: its ranks' catalogues.
struct Reading {
  std::shared_ptr<Disk> disk;
  scr::Descriptor descriptor;
};
struct Described {
  std::vector<catalogue::Catalogue> ranks;
  std::vector<std::pair<Rank, absl::Status>> untrue;  // that are not there
};

bool SaysItIsNotThere(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status);
}

// Where something is wrong with one of a node's ranks, the others count.
absl::Status DescribeRankByRank(const Reading& reading, const std::string& folder, const RunIdentity& run,
                                Described* all) {
  for (const std::uint64_t rank : reading.descriptor.held->Numbers()) {
    scr::Descriptor one = reading.descriptor;
    one.held.emplace().Add(rank);
    auto catalogue = ReadCatalogues(*reading.disk, folder, run, one);
    if (catalogue.ok()) {
      std::ranges::move(*catalogue, std::back_inserter(all->ranks));
    } else if (SaysItIsNotThere(catalogue.status())) {
      all->untrue.emplace_back(static_cast<Rank>(rank), catalogue.status());
    } else {
      return catalogue.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Described> DescribeAll(const std::map<NodeId, Reading>& readings, const std::string& folder,
                                      const RunIdentity& run) {
  Described all;
  for (const auto& [node, reading] : readings) {
    auto ranks = ReadCatalogues(*reading.disk, folder, run, reading.descriptor);
    if (ranks.ok()) {
      std::ranges::move(*ranks, std::back_inserter(all.ranks));
    } else if (SaysItIsNotThere(ranks.status())) {
      CAIRN_RETURN_IF_ERROR(DescribeRankByRank(reading, folder, run, &all));
    } else {
      return ranks.status();
    }
  }
  return all;
}

}  // namespace

// The bytes stay where they are: only what describes them is read.
void OtherCaches::DescribeParts(const JobPtr& job, const Candidate& from) {
  std::map<NodeId, Reading> readings;
  for (const auto& [rank, member] : from.at) {
    Reading& reading = readings[member.node];
    if (!reading.disk) {
      reading = {.disk = given_.nodes.FilesOf(member), .descriptor = DescriptorOf(from.dataset, false)};
      reading.descriptor.held.emplace();
    }
    reading.descriptor.held->Add(rank);
  }
  auto read = [readings = std::move(readings), run = given_.cache.folder().record().run,
               folder = FolderOnOtherNode(from.dataset.id)] { return DescribeAll(readings, folder, run); };
  RunBlocking(context_.env.pools.far, from.member.address, context_.loop(), std::move(read),
              [this, job, from](absl::StatusOr<Described> described) {
                if (!described.ok()) return Failed(job, from, described.status());
                if (described->untrue.empty()) return PartsDescribed(job, from, std::move(described->ranks));
                DescribeWithout(job, from, {described->untrue.begin(), described->untrue.end()});
              });
}

// Nodes have not what they say: then it is lost, unless another has it, and may be made anew.
void OtherCaches::DescribeWithout(const JobPtr& job, const Candidate& from,
                                  const std::map<Rank, absl::Status>& untrue) {
  for (const auto& [rank, why] : untrue) {
    const Member& member = from.at.at(rank);
    context_.Warn(
        fmt::format("{}: {} has not what it says of rank {}: {}", TextOf(from), member.host, rank, MessageOf(why)));
    job->untrue.emplace(from.dataset.id, rank, member.node);
    const DatasetPtr known = given_.ledger.Get(from.dataset.id);
    const bool believed = known && known->in_cache() && rank < known->parts.size() && known->parts[rank].elsewhere &&
                          known->parts[rank].node == member.node;
    if (believed) given_.ledger.PartIsBad(*known, rank);
  }
  for (Candidate& again : InParts(job->holdings, given_.ledger, OptionsOf(*job))) {
    if (again.dataset.id == from.dataset.id && again.dataset.mark == from.dataset.mark) {
      return DescribeParts(job, again);
    }
  }
  Failed(job, from, DataLoss("too many parts are not where nodes say: {}", MessageOf(untrue.begin()->second)));
}

void OtherCaches::PartsDescribed(const JobPtr& job, const Candidate& from, std::vector<catalogue::Catalogue> ranks) {
  absl::Status may = CheckMayCome(from);
  for (const catalogue::Catalogue& rank : ranks) {
    if (rank.step() != from.dataset.step) may = DataLoss("the catalogue of rank {} is of another step", rank.rank());
  }
  if (!may.ok()) return Failed(job, from, may);
  DatasetPtr known = given_.ledger.Get(from.dataset.id);
  if (known && !known->in_cache()) {
    return Failed(job, from, AlreadyExists("the prefix has it, and it counts for nobody there"));
  }
  if (!known) known = given_.ledger.IsOnNodes(from.dataset);
  given_.ids.Seen(known->id);
  for (catalogue::Catalogue& catalogue : ranks) {
    const Rank rank = catalogue.rank();
    if (known->parts[rank].known()) continue;
    given_.ledger.PartFound(*known, rank, from.at.at(rank).node, std::move(catalogue));
    if (const auto set = from.keeps.find(rank); set != from.keeps.end()) {
      given_.ledger.Keeps(*known, rank, std::make_shared<const kept::Set>(set->second));
    }
  }
  from.lost.empty() ? PartsComplete(job, from, known) : DescribeLostParts(job, from, known);
}

void OtherCaches::PartsComplete(const JobPtr& job, const Candidate& from, const DatasetPtr& dataset) {
  job->brought.missed.erase(dataset->id);
  spdlog::info("{}: all of it is there, and is read there", TextOf(from));
  on_change_();
  Next(job);
}

}  // namespace cairn
