#include "daemon/core/rebuild.h"

#include <utility>

#include "daemon/core/fetch.h"
#include "daemon/core/nodes.h"
#include "storage/base/number_ranges.h"
#include "storage/base/status.h"
#include "storage/job/protect/rebuild.h"

namespace cairn {
namespace {

RebuildWish WishFor(const LostParts& parts, Rank rank, const kept::Set& set, std::set<Rank> without) {
  const DatasetId id = parts.descriptor.id;
  RebuildWish wish{.run = parts.cache->record().run,
                   .descriptor = parts.descriptor,
                   .step = parts.descriptor.step.value_or(0),
                   .set = set,
                   .lost = rank,
                   .at = {},
                   .without = std::move(without)};
  for (const Rank member : set.ranks()) {
    const auto there = parts.elsewhere.find(member);
    if (parts.here.contains(member)) {
      wish.at[member] = {.disk = &parts.cache->disk(), .folder = parts.cache->DatasetPath(id)};
    } else if (there != parts.elsewhere.end()) {
      wish.at[member] = {.disk = there->second.get(), .folder = FolderOnOtherNode(id)};
    }
  }
  return wish;
}

// Does `use` with what is rebuilt; once more without what proves to be bad, as long as there is any such.
template <typename Use>
absl::Status WithSet(const LostParts& parts, Rank rank, const kept::Set& set, TransferProgress& progress, Use& use) {
  Throttle throttle(0);
  std::set<Rank> without;
  while (true) {
    const RebuildWish wish = WishFor(parts, rank, set, without);
    absl::StatusOr<Rebuilt> rebuilt = OpenRebuilt(wish, throttle, progress);
    const absl::Status used = rebuilt.ok() ? use(*rebuilt) : rebuilt.status();
    if (!absl::IsDataLoss(used)) return used;
    CAIRN_ASSIGN_OR_RETURN(const std::set<Rank> damaged, FindDamagedMembers(wish, progress));
    const std::size_t before = without.size();
    without.insert(damaged.begin(), damaged.end());
    if (without.size() == before) return Annotate(used, fmt::format("rank {}", rank));
  }
}

// The same by the next set, if one proves to be of no use: nodes may be at different ones.
template <typename Use>
absl::Status WithRebuilt(const LostParts& parts, Rank rank, TransferProgress& progress, Use use,
                         kept::Set* by = nullptr) {
  absl::Status used = DataLoss("rank {}: no redundancy set", rank);
  std::string all;
  for (const kept::Set& set : parts.lost.at(rank)) {
    used = WithSet(parts, rank, set, progress, use);
    if (used.ok() && by != nullptr) *by = set;
    if (!absl::IsDataLoss(used)) return used;
    all += (all.empty() ? "" : "; by another set: ") + std::string(MessageOf(used));
  }
  return all.empty() ? used : DataLoss("{}", all);
}

// This cache holds them, besides the lost ones.
NumberRanges HeldThen(const LostParts& parts) {
  NumberRanges held;
  for (const Rank rank : parts.here) held.Add(rank);
  for (const auto& [rank, sets] : parts.lost) held.Add(rank);
  return held;
}

}  // namespace

absl::StatusOr<std::vector<catalogue::Catalogue>> DescribeLost(const LostParts& parts, TransferProgress& progress) {
  std::vector<catalogue::Catalogue> catalogues;
  for (const auto& [rank, sets] : parts.lost) {
    CAIRN_RETURN_IF_ERROR(WithRebuilt(parts, rank, progress, [&catalogues](Rebuilt& rebuilt) {
      catalogues.push_back(std::move(rebuilt.catalogue));
      return absl::OkStatus();
    }));
  }
  return catalogues;
}

absl::StatusOr<std::map<Rank, kept::Set>> RebuildLost(const LostParts& parts,
                                                      const std::vector<catalogue::Catalogue>& catalogues,
                                                      TransferProgress& progress) {
  CacheFolder& cache = *parts.cache;
  const bool more = !parts.here.empty();
  const absl::Status begun = more ? cache.Reopen(parts.descriptor) : cache.Begin(parts.descriptor);
  if (!begun.ok()) return begun;
  std::map<Rank, kept::Set> by;
  const auto bring = [&]() -> absl::Status {
    for (const catalogue::Catalogue& catalogue : catalogues) {
      const Rank rank = catalogue.rank();
      const auto use = [&](Rebuilt& rebuilt) {
        bool damaged = false;
        const FetchFrom from{.disk = *rebuilt.disk, .path_of = [&](const catalogue::FileEntry& file) {
                               return rebuilt.folder + "/" + file.name();
                             }};
        Throttle throttle(0);  // a launch waits for it
        return FetchRank(from, cache, catalogue, throttle, progress, &damaged);
      };
      CAIRN_RETURN_IF_ERROR(WithRebuilt(parts, rank, progress, use, &by[rank]));
    }
    scr::Descriptor complete = parts.descriptor;
    complete.held = HeldThen(parts);
    if (complete.held->size() == complete.ranks) complete.held.reset();
    return cache.Complete(complete);
  };
  const absl::Status brought = bring();
  if (brought.ok()) return by;
  if (more) {
    cache.EndReopened(parts.descriptor.id);
  } else {
    cache.Remove(parts.descriptor.id).IgnoreError();  // without COMPLETE the next start removes it
  }
  return brought;
}

}  // namespace cairn
