#include "daemon/core/restore_copies.h"

#include <set>
#include <utility>

#include "proto/catalogue.pb.h"
#include "storage/base/status.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

absl::StatusOr<ChosenCopies> RestoreCopies::Choose(RestoreGroup& group, const std::vector<Wanted>& wanted) const {
  std::set<Rank> ranks;
  for (const Wanted& one : wanted) {
    if (one.bytes > 0) ranks.insert(one.rank);
  }
  ChosenCopies chosen;
  chosen.prefix = given_.gate.path();
  for (Rank from : ranks) {
    const catalogue::Catalogue& catalogue = group.dataset->parts[from].catalogue;
    if (catalogue.file_size() != 1) {
      group.damaged.insert({from, Tier::kCache});
      group.damaged.insert({from, Tier::kPrefix});
      return DataLoss("the catalogue of rank {} names {} checkpoint files", from, catalogue.file_size());
    }
    RestoreSource source;
    CAIRN_ASSIGN_OR_RETURN(const Tier tier, ChooseOne(group, from, &source));
    chosen.sources.push_back(std::move(source));
    chosen.ranks.push_back(from);
    chosen.tiers.push_back(tier);
  }
  return chosen;
}

absl::StatusOr<Tier> RestoreCopies::ChooseOne(const RestoreGroup& group, Rank from, RestoreSource* source) const {
  const Dataset& dataset = *group.dataset;
  const catalogue::FileEntry& file = dataset.parts[from].catalogue.file(0);
  source->file_bytes = file.bytes();
  source->crc32c.assign(file.crc32c().begin(), file.crc32c().end());
  const auto usable = [&](Tier tier) { return !group.bad.contains({from, tier}); };
  if (auto kept = given_.images.KeptOf(given_.run, dataset.id, from); kept && usable(Tier::kImage)) {
    source->kept = std::move(kept);
    return Tier::kImage;
  }
  if (dataset.in_cache() && usable(Tier::kCache)) {
    source->path = given_.cache.folder().DatasetPath(dataset.id) + "/" + file.name();
    return Tier::kCache;
  }
  if (dataset.in_prefix() && given_.gate.prefix() && usable(Tier::kPrefix)) {
    source->path = given_.gate.prefix()->FilePath(file.prefix_name());
    source->disk = &context_.env.prefix_disk;
    return Tier::kPrefix;
  }
  return DataLoss("no copy of rank {}'s bytes is whole", from);
}

void RestoreCopies::NoteFetch(RestoreGroup& group) {
  if (!std::exchange(group.fetched, true)) given_.inventory.MarkFetched(group.dataset->id);
}

void RestoreCopies::FoundBad(RestoreGroup& group, Rank rank, Tier tier, const absl::Status& why) {
  if (!group.bad.insert({rank, tier}).second) return;
  const Dataset& dataset = *group.dataset;
  context_.Warn(fmt::format("run {}: dataset {}: the copy of rank {} in the {} is bad: {}", given_.run_name, dataset.id,
                            rank, NameOf(tier), MessageOf(why)));
  if (tier == Tier::kImage) return given_.images.DropKept(given_.run, dataset.id, rank);
  if (!absl::IsDataLoss(why) && !absl::IsNotFound(why) && !absl::IsInvalidArgument(why)) return;
  group.damaged.insert({rank, tier});
  if (tier == Tier::kPrefix) return given_.inventory.MarkFailed(dataset.id);
  given_.cache.NoteForRefetch(dataset.id);
  given_.bases.Distrust();
  // Which of the application's files is bad is not known here: they go aside together when they are fetched anew.
  const catalogue::Catalogue& catalogue = dataset.parts[rank].catalogue;
  if (dataset.kind.files || catalogue.file_size() == 0) return;
  given_.cache.SetAside(dataset, catalogue.file(0).name(), std::string(MessageOf(why)));
}

void RestoreCopies::WithdrawDamaged(const RestoreGroup& group) {
  const Dataset& dataset = *group.dataset;
  for (const auto& [rank, tier] : group.damaged) {
    // A copy may have been fetched anew, or have left, meanwhile; and several ranks' may be damaged.
    if (tier == Tier::kCache && dataset.in_cache()) given_.ledger.CacheDamaged(dataset, "");
    if (tier == Tier::kPrefix && dataset.in_prefix()) given_.ledger.PrefixDamaged(dataset);
  }
}

}  // namespace cairn
