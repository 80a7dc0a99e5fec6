#include "daemon/core/keeping.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "daemon/core/descriptor.h"
#include "storage/base/status.h"
#include "storage/place/cache/cache_folder.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::size_t kEarlierMax = 2;  // the newest may be one that has nothing of use

bool IsHere(const Dataset& dataset, std::uint32_t rank) {
  return rank < dataset.parts.size() && !dataset.parts[rank].elsewhere && dataset.parts[rank].stored();
}

// What is there for other sets stays beside it.
std::uint64_t MoreFor(const peer::Keep& order, const Dataset& dataset) {
  const std::vector<SetHere> here = SetsHere(dataset);
  const auto is_here = [&here](const kept::Set& set) {
    return std::ranges::any_of(here, [&set](const SetHere& one) { return AreSame(one.set, set); });
  };
  if (!std::ranges::all_of(order.sets(), is_here)) return order.bytes();
  return order.bytes() - std::min<std::uint64_t>(order.bytes(), dataset.kept_bytes);
}

std::uint64_t BytesOf(const std::vector<SpareFile>& files) {
  std::uint64_t bytes = 0;
  for (const SpareFile& file : files) bytes += file.bytes;
  return bytes;
}

bool KeepsOneOf(const Dataset& dataset, const peer::Keep& order) {
  const auto is_ordered = [&order](const SetHere& here) {
    return std::ranges::any_of(order.sets(), [&here](const kept::Set& set) { return AreSame(set, here.set); });
  };
  return std::ranges::any_of(SetsHere(dataset), is_ordered);
}

}  // namespace

void Keeping::Keep(const peer::Keep& order, Then then) {
  const auto answer = [this, &then](absl::Status status) {
    context_.loop().Post([then = std::move(then), status = std::move(status)] { then(status); });
  };
  const DatasetPtr dataset = given_.ledger.Get(order.dataset());
  if (!dataset || !dataset->in_cache()) {
    return answer(NotFound("dataset {} is not whole in this node's cache", order.dataset()));
  }
  if (context_.quiescing()) return answer(Unavailable("the daemon is going away"));
  if (under_way_.contains(dataset->id)) {
    return answer(Unavailable("dataset {}: what it keeps is being made already", dataset->id));
  }
  if (absl::Status sound = Check(order, *dataset); !sound.ok()) return answer(std::move(sound));
  auto disks = DisksOf(order);
  if (!disks.ok()) return answer(disks.status());
  const std::uint64_t more = MoreFor(order, *dataset);
  std::vector<SpareFile> spares = SparesFor(more);  // first: they do not go for their own room
  given_.ledger.ReadBegan(*dataset);  // it does not go for the sake of what it is to keep
  absl::Status room = given_.cache.Reserve(more);
  given_.ledger.ReadEnded(*dataset);
  if (!room.ok()) {
    given_.cache.spares().Remove(std::move(spares));
    return answer(std::move(room));
  }
  Start(dataset, order, more, *std::move(disks), std::move(spares), std::move(then));
}

// Not more than what is to be kept, so that there is room for all of them.
std::vector<SpareFile> Keeping::SparesFor(std::uint64_t bytes) {
  std::vector<SpareFile> spares = given_.cache.spares().Take(), rest;
  while (!spares.empty() && BytesOf(spares) > bytes) {
    rest.push_back(std::move(spares.back()));
    spares.pop_back();
  }
  given_.cache.spares().Remove(std::move(rest));
  return spares;
}

absl::Status Keeping::Check(const peer::Keep& order, const Dataset& dataset) const {
  if (order.sets().empty()) return InvalidArgument("keep.sets: none");
  if (const std::uint64_t max = given_.cache.bytes_max(); order.bytes() > max) {
    return ResourceExhausted("keep.bytes: {}, and the cache of {} may hold {}", order.bytes(),
                             context_.env.process.host, max);
  }
  std::set<Rank> members;
  for (const kept::Set& set : order.sets()) {
    if (const absl::Status sound = CheckSet(set, dataset.nranks); !sound.ok()) {
      return InvalidArgument("keep.sets: {}", MessageOf(sound));
    }
    bool here = false;
    for (const Rank rank : set.ranks()) {
      if (!members.insert(rank).second) return InvalidArgument("keep.sets: rank {} is in two of them", rank);
      here |= IsHere(dataset, rank);
    }
    if (!here) return InvalidArgument("keep.sets: set {} has no member here", set.group());
  }
  std::set<Rank> told;
  for (const peer::Keep::Member& member : order.members()) {
    if (!members.contains(member.rank()) || !told.insert(member.rank()).second) {
      return InvalidArgument("keep.members: rank {} is no member, or told twice", member.rank());
    }
    if (IsHere(dataset, member.rank()) != (member.node() == context_.cache_id)) {
      return InvalidArgument("keep.members: the files of rank {} are not where it says", member.rank());
    }
  }
  return told == members ? absl::OkStatus() : InvalidArgument("keep.members: not all members of the sets");
}

absl::StatusOr<std::map<Rank, std::shared_ptr<Disk>>> Keeping::DisksOf(const peer::Keep& order) const {
  std::map<NodeId, std::shared_ptr<Disk>> by_node;
  std::map<Rank, std::shared_ptr<Disk>> disks;
  for (const peer::Keep::Member& member : order.members()) {
    if (member.node() == context_.cache_id) continue;
    std::shared_ptr<Disk>& disk = by_node[member.node()];
    if (!disk) {
      const auto there = given_.nodes.Find(member.node());
      if (!there)
        return Unavailable("node {}, which has rank {}'s files, is not reached", member.node(), member.rank());
      disk = given_.nodes.FilesOf(*there);
    }
    disks[member.rank()] = disk;
  }
  return disks;
}

KeepWish Keeping::WishFor(const Dataset& dataset) const {
  KeepWish wish{.here = {.disk = &context_.env.cache_disk, .folder = given_.cache.folder().DatasetPath(dataset.id)},
                .run = given_.cache.folder().record().run,
                .descriptor = DescriptorOf(dataset, false),
                .step = dataset.step,
                .sets = {},
                .elsewhere = {},
                .earlier = {}};
  wish.descriptor.held = HeldHere(dataset);
  return wish;
}

// The newest ones for which the same ranks keep something here.
std::vector<EarlierDataset> Keeping::EarlierThan(const DatasetPtr& dataset, const peer::Keep& order) const {
  std::vector<EarlierDataset> earlier;
  bool older = false;
  for (const DatasetPtr& other : given_.ledger.ByAge() | std::views::reverse) {
    if (older && other->in_cache() && KeepsOneOf(*other, order)) {
      earlier.push_back({.folder = given_.cache.folder().DatasetPath(other->id),
                         .descriptor = DescriptorOf(*other, false),
                         .step = other->step});
      if (earlier.size() == kEarlierMax) break;
    }
    older |= other == dataset;
  }
  return earlier;
}

void Keeping::Start(const DatasetPtr& dataset, const peer::Keep& order, std::uint64_t more,
                    std::map<Rank, std::shared_ptr<Disk>> disks, std::vector<SpareFile> spares, Then then) {
  const std::uint64_t before = dataset->kept_bytes;
  given_.ledger.KeepBegan(*dataset, before + more);
  given_.ledger.SetsHereAtMost(*dataset, kSetsOfRankMax - 1);  // what may leave the disk is not counted on before
  throttle_.SetLimit(context_.config.redundancy.bytes_per_s);
  KeepWish wish = WishFor(*dataset);
  wish.sets = {order.sets().begin(), order.sets().end()};
  wish.earlier = EarlierThan(dataset, order);
  wish.spares = std::move(spares);
  wish.bytes_max = order.bytes();
  for (const auto& [rank, disk] : disks) {
    wish.elsewhere[rank] = {.disk = disk.get(), .folder = FolderOnOtherNode(dataset->id)};
  }
  Run(
      dataset, [this, wish = std::move(wish), disks = std::move(disks)] { return Make(wish); },
      [this, dataset, before, then = std::move(then)](const absl::StatusOr<kept::Record>& record) {
        Ended(dataset, record, before, then);
      });
}

// After an error the folder has what it had before: what was made of it is named by no record, and goes.
absl::StatusOr<kept::Record> Keeping::Make(const KeepWish& wish) {
  CacheFolder& folder = given_.cache.folder();
  absl::StatusOr<kept::Record> record = MakeKept(wish, throttle_, *progress_);
  absl::Status put = record.ok() ? folder.Protect(wish.descriptor, *record) : record.status();
  if (put.ok()) return record;
  const absl::StatusOr<kept::Record> there = ReadKept(wish);
  const absl::Status tidied = there.ok() ? folder.Protect(wish.descriptor, *there) : there.status();
  if (!tidied.ok()) spdlog::warn("{}: it waits for the next start: {}", wish.here.folder, MessageOf(tidied));
  return put;
}

void Keeping::Run(const DatasetPtr& dataset, std::function<absl::StatusOr<kept::Record>()> work,
                  std::function<void(const absl::StatusOr<kept::Record>&)> then) {
  under_way_.insert(dataset->id);
  given_.ledger.ReadBegan(*dataset);
  RunBlocking(context_.env.pools.flush, "redundancy of " + given_.cache.folder().path(), context_.loop(),
              std::move(work),
              [this, dataset, lease = given_.folders.Lease(dataset->id),
               then = std::move(then)](const absl::StatusOr<kept::Record>& record) {
                under_way_.erase(dataset->id);
                given_.ledger.ReadEnded(*dataset);
                then(record);
                const auto told = all_kept_.extract(dataset->id);
                if (told) AllKept(dataset, told.mapped());
                on_change_();
              });
}

void Keeping::Ended(const DatasetPtr& dataset, const absl::StatusOr<kept::Record>& record, std::uint64_t kept_before,
                    const Then& then) {
  const bool known = given_.ledger.Has(dataset) && dataset->in_cache();
  if (known && record.ok()) {
    given_.ledger.KeptHere(*dataset, *record);
  } else if (known) {
    given_.ledger.KeepBegan(*dataset, kept_before);
  }
  if (record.ok() && !known) {
    then(NotFound("dataset {} has left this node's cache meanwhile", dataset->id));
  } else {
    then(record.status());
  }
}

// They are not counted on any more before they begin to go.
void Keeping::AllKept(const DatasetPtr& dataset, const std::vector<kept::Set>& sets) {
  if (!given_.ledger.Has(dataset) || !dataset->in_cache() || context_.quiescing()) return;
  if (under_way_.contains(dataset->id)) {
    all_kept_[dataset->id] = sets;
    return;
  }
  if (!given_.ledger.OlderSetsGo(*dataset, sets)) return;
  auto work = [this, wish = WishFor(*dataset), sets]() -> absl::StatusOr<kept::Record> {
    CAIRN_ASSIGN_OR_RETURN(const kept::Record record, ReadKept(wish));
    kept::Record rest = WithoutOlder(record, sets);
    CAIRN_RETURN_IF_ERROR(given_.cache.folder().Protect(wish.descriptor, rest));
    return rest;
  };
  Run(dataset, std::move(work), [this, dataset](const absl::StatusOr<kept::Record>& record) {
    if (!given_.ledger.Has(dataset) || !dataset->in_cache()) return;
    if (record.ok()) return given_.ledger.KeptHere(*dataset, *record);
    context_.Warn(
        fmt::format("run {}: dataset {}: what it kept for older redundancy sets stays until the next start: {}",
                    given_.run_name, dataset->id, MessageOf(record.status())));
  });
}

}  // namespace cairn
