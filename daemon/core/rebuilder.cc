#include "daemon/core/rebuilder.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "daemon/core/descriptor.h"
#include "daemon/core/holdings.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

std::uint64_t BytesOf(const std::vector<catalogue::Catalogue>& catalogues) {
  std::uint64_t bytes = 0;
  for (const catalogue::Catalogue& catalogue : catalogues)
    bytes += FileBytes(catalogue) + CatalogueFileBytes(catalogue);
  return bytes;
}

// By rank the sets that may make it.
absl::StatusOr<std::map<Rank, std::vector<kept::Set>>> LostOf(const peer::Rebuild& order) {
  std::map<Rank, std::vector<kept::Set>> lost;
  for (const peer::Rebuild::Lost& one : order.lost()) {
    const Rank rank = one.rank();
    if (rank >= order.dataset().nranks() || lost.contains(rank)) {
      return InvalidArgument("rebuild.lost.rank: {} is none of {}, or told twice", rank, order.dataset().nranks());
    }
    if (one.sets().empty()) return InvalidArgument("rebuild.lost.sets: none for rank {}", rank);
    for (const kept::Set& set : one.sets()) {
      const absl::Status sound = CheckSet(set, order.dataset().nranks());
      if (!sound.ok()) return InvalidArgument("rebuild.lost.sets: {}", MessageOf(sound));
      if (std::ranges::find(set.ranks(), rank) == set.ranks().end()) {
        return InvalidArgument("rebuild.lost.sets: rank {} is no member", rank);
      }
      lost[rank].push_back(set);
    }
  }
  if (lost.empty()) return InvalidArgument("rebuild.lost: none");
  return lost;
}

bool IsHere(const DatasetPtr& dataset, Rank rank) {
  return dataset && !dataset->parts[rank].elsewhere;
}

}  // namespace

void Rebuilder::Make(const peer::Rebuild& order, std::function<void()> goes_on, Then then) {
  const auto refuse = [this, &then](absl::Status why) {
    context_.loop().Post([then = std::move(then), why = std::move(why)] { then(why); });
  };
  if (context_.quiescing()) return refuse(Unavailable("the daemon is going away"));
  if (const absl::Status sound = Check(order.dataset()); !sound.ok()) {
    return refuse(InvalidArgument("rebuild.dataset.{}", MessageOf(sound)));
  }
  auto lost = LostOf(order);
  if (!lost.ok()) return refuse(lost.status());
  const auto work = std::make_shared<Work>();
  work->description = DatasetOf(order.dataset());
  if (absl::Status may = CheckPlace(work->description); !may.ok()) return refuse(std::move(may));
  work->dataset = given_.ledger.Get(work->description.id);
  const Dataset& begun = work->dataset ? *work->dataset : work->description;
  work->parts = {.cache = given_.cache.shared_folder(),
                 .descriptor = DescriptorOf(begun, false),
                 .lost = *std::move(lost),
                 .here = {},
                 .elsewhere = {}};
  if (absl::Status members = TakeMembers(order, *work); !members.ok()) return refuse(std::move(members));
  work->goes_on = std::move(goes_on);
  work->then = std::move(then);
  under_way_[begun.id] = work;
  LookAt(work);
  if (work->dataset) given_.ledger.ReadBegan(*work->dataset);
  RunBlocking(
      context_.env.pools.far, "what is made anew in " + given_.cache.folder().path(), context_.loop(),
      [parts = work->parts, progress = work->progress] { return DescribeLost(parts, *progress); },
      [this, work](absl::StatusOr<std::vector<catalogue::Catalogue>> catalogues) {
        if (!catalogues.ok()) return End(work, catalogues.status());
        work->catalogues = *std::move(catalogues);
        if (absl::Status ready = Reserve(work); !ready.ok()) return End(work, ready);
        Rebuild(work);
      });
}

// Who has ordered it gives up what says nothing for flush.stalled.
void Rebuilder::LookAt(const WorkPtr& work) {
  if (work->progress->GotOn(work->seen)) work->goes_on();
  const std::chrono::milliseconds pause(std::max<std::uint64_t>(context_.config.flush.stalled_ms / 4, 1));
  work->timer = context_.loop().After(pause, [this, weak = std::weak_ptr<Work>(work)] {
    if (const WorkPtr still = weak.lock()) LookAt(still);
  });
}

void Rebuilder::Stop() {
  for (const auto& [id, work] : under_way_) work->progress->stop = true;
}

// Nothing is known here that speaks against it.
absl::Status Rebuilder::CheckPlace(const Dataset& wanted) const {
  if (under_way_.contains(wanted.id)) return Unavailable("dataset {} is being made anew already", wanted.id);
  const DatasetPtr known = given_.ledger.Get(wanted.id);
  if (!known) {
    if (given_.cache.HoldsScrs(wanted.id)) return AlreadyExists("SCR's own files have dataset {}'s number", wanted.id);
    return absl::OkStatus();
  }
  const bool same = known->nranks == wanted.nranks && known->launch == wanted.launch && known->mark == wanted.mark;
  if (!same || !known->in_cache() || known->unknown == 0) {
    return AlreadyExists("this node has something else, or something that is not whole, under number {}", wanted.id);
  }
  return known->readers == 0 ? absl::OkStatus() : Unavailable("dataset {} is in use", wanted.id);
}

absl::Status Rebuilder::TakeMembers(const peer::Rebuild& order, Work& work) const {
  for (const auto& [rank, sets] : work.parts.lost) {
    if (IsHere(work.dataset, rank)) return InvalidArgument("rebuild.lost.rank: the files of rank {} are here", rank);
  }
  for (Rank rank = 0; work.dataset && rank < work.dataset->nranks; ++rank) {
    if (IsHere(work.dataset, rank)) work.parts.here.insert(rank);
  }
  std::map<NodeId, std::shared_ptr<Disk>> by_node;
  for (const peer::Keep::Member& member : order.members()) {
    const Rank rank = member.rank();
    if (rank >= order.dataset().nranks() || work.parts.lost.contains(rank)) {
      return InvalidArgument("rebuild.members: rank {} is lost, or none of the dataset", rank);
    }
    if (IsHere(work.dataset, rank)) continue;
    if (member.node() == context_.cache_id) {
      return InvalidArgument("rebuild.members: the files of rank {} are not here", rank);
    }
    std::shared_ptr<Disk>& disk = by_node[member.node()];
    const auto there = disk ? std::nullopt : given_.nodes.FindNamed(member.node());
    if (!disk && !there) return Unavailable("node {}, which has rank {}'s files, is not reached", member.node(), rank);
    if (!disk) disk = given_.nodes.FilesOf(*there);
    work.parts.elsewhere[rank] = disk;
  }
  return absl::OkStatus();
}

// Of what is here in part, their room is taken by what the dataset keeps, until they are there.
absl::Status Rebuilder::Reserve(const WorkPtr& work) {
  const std::uint64_t bytes = BytesOf(work->catalogues);
  for (const catalogue::Catalogue& catalogue : work->catalogues) {
    if (catalogue.step() == work->description.step) continue;
    return DataLoss("the catalogue of rank {} is of step {}", catalogue.rank(), catalogue.step());
  }
  if (work->dataset) {
    if (!given_.ledger.Has(work->dataset)) return NotFound("it has left the cache");
    CAIRN_RETURN_IF_ERROR(given_.cache.Reserve(bytes));
    given_.ledger.KeepBegan(*work->dataset, work->dataset->kept_bytes + bytes);
    return absl::OkStatus();
  }
  if (given_.ledger.Get(work->description.id)) return Unavailable("something of it has come meanwhile");
  CAIRN_RETURN_IF_ERROR(given_.cache.Reserve(bytes));
  Dataset coming = work->description;
  PutPartsHere(coming, coming.nranks, work->catalogues);
  given_.ids.Seen(coming.id);
  work->dataset = given_.ledger.ComesFromNode(std::move(coming));
  given_.ledger.ReadBegan(*work->dataset);
  return absl::OkStatus();
}

void Rebuilder::Rebuild(const WorkPtr& work) {
  given_.folders.WhenUnchanged(work->description.id, [this, work] {
    RunBlocking(
        context_.env.pools.far, "what is made anew in " + given_.cache.folder().path(), context_.loop(),
        [parts = work->parts, catalogues = work->catalogues, progress = work->progress] {
          return RebuildLost(parts, catalogues, *progress);
        },
        [this, work](const absl::StatusOr<std::map<Rank, kept::Set>>& by) { Rebuilt(work, by); });
  });
}

void Rebuilder::Rebuilt(const WorkPtr& work, const absl::StatusOr<std::map<Rank, kept::Set>>& by) {
  const DatasetPtr& dataset = work->dataset;
  const DatasetId id = work->description.id;
  const bool is_new = work->parts.here.empty() && dataset->cache == Place::kArriving;
  if (!is_new) {
    const std::uint64_t bytes = BytesOf(work->catalogues);
    given_.ledger.KeepBegan(*dataset, dataset->kept_bytes - std::min(bytes, dataset->kept_bytes));
  }
  if (!given_.ledger.Has(dataset)) {  // it was removed from the prefix meanwhile
    given_.folders.Change(id, [&cache = given_.cache.folder(), id] { return cache.Remove(id); });
    return End(work, NotFound("dataset {} was given up meanwhile", id));
  }
  if (by.ok() && is_new) {
    given_.ledger.Refetched(*dataset);
  } else if (by.ok()) {
    for (const catalogue::Catalogue& catalogue : work->catalogues) {
      if (dataset->parts[catalogue.rank()].known()) continue;  // a node has come that has it after all
      given_.ledger.Rebuilt(*dataset, catalogue.rank(), "", catalogue);
    }
  }
  if (by.ok()) {
    given_.folders.Known(id);
    given_.record.Store();
  }
  End(work, by);
}

void Rebuilder::End(const WorkPtr& work, const absl::StatusOr<std::map<Rank, kept::Set>>& by) {
  under_way_.erase(work->description.id);
  context_.loop().Cancel(work->timer);
  const DatasetPtr& dataset = work->dataset;
  if (dataset) given_.ledger.ReadEnded(*dataset);
  if (dataset && given_.ledger.Has(dataset) && dataset->cache == Place::kArriving) {
    // It may have been seen on the prefix meanwhile.
    dataset->prefix == Place::kAbsent ? given_.ledger.DidNotCome(*dataset) : given_.ledger.RefetchFailed(*dataset);
  }
  work->then(by);
  on_change_();
}

}  // namespace cairn
