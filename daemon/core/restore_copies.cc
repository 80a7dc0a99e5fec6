#include "daemon/core/restore_copies.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "proto/catalogue.pb.h"
#include "storage/base/status.h"
#include "storage/place/names.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {
namespace {

constexpr std::chrono::seconds kAwayAtMost(5);  // as a link to the home waits for its node

}  // namespace

std::string PathOnOtherNode(DatasetId dataset, const std::string& file) {
  return fmt::format("{}/{}", FolderOnOtherNode(dataset), file);
}

absl::StatusOr<ChosenCopies> RestoreCopies::Choose(RestoreGroup& group, const std::vector<Wanted>& wanted,
                                                   const NodeId& reader) const {
  std::set<Rank> ranks;
  for (const Wanted& one : wanted) {
    if (one.bytes > 0) ranks.insert(one.rank);
  }
  ChosenCopies chosen;
  chosen.lane = given_.gate.path();
  for (Rank from : ranks) {
    const catalogue::Catalogue& catalogue = group.dataset->parts[from].catalogue;
    if (catalogue.file_size() != 1) {
      group.damaged.insert({from, Tier::kCache});
      group.damaged.insert({from, Tier::kPrefix});
      return DataLoss("the catalogue of rank {} names {} checkpoint files", from, catalogue.file_size());
    }
    CAIRN_RETURN_IF_ERROR(ChooseOne(group, from, reader, &chosen));
  }
  return chosen;
}

// What another daemon reads is only named here.
absl::Status RestoreCopies::ChooseOne(const RestoreGroup& group, Rank from, const NodeId& reader,
                                      ChosenCopies* chosen) const {
  const Dataset& dataset = *group.dataset;
  const Part& part = dataset.parts[from];
  const catalogue::FileEntry& file = part.catalogue.file(0);
  const bool here = reader.empty();
  const NodeId& holder = part.elsewhere ? part.node : context_.cache_id;
  const auto usable = [&](Tier tier) { return !group.bad.contains({from, tier}); };
  RestoreSource source;
  source.file_bytes = file.bytes();
  source.crc32c.assign(file.crc32c().begin(), file.crc32c().end());
  const auto take = [&](Tier tier, const NodeId& node = "", Tier read_from = Tier::kNone) {
    chosen->sources.push_back(std::move(source));
    chosen->ranks.push_back(from);
    chosen->tiers.push_back(tier);
    chosen->from.push_back(read_from == Tier::kNone ? tier : read_from);
    chosen->nodes.push_back(node);
    return absl::OkStatus();
  };
  if (auto copy = here ? given_.images.KeptOf(given_.run, dataset.id, from) : ImageStore::KeptCopy{};
      copy.kept && usable(Tier::kImage)) {
    source.kept = std::move(copy.kept);
    return take(Tier::kImage, "", copy.from);
  }
  const bool near = holder == (here ? context_.cache_id : reader);
  if (dataset.in_cache() && near && usable(Tier::kCache)) {
    if (here) source.path = given_.cache.folder().DatasetPath(dataset.id) + "/" + file.name();
    return take(Tier::kCache);
  }
  const auto member = near || !part.known() ? std::nullopt : given_.nodes.Find(holder);
  if (dataset.in_cache() && (member || (!here && !part.elsewhere)) && !near && usable(Tier::kPartner)) {
    if (here) {
      source.lives_with = given_.nodes.FilesOf(*member);
      source.disk = source.lives_with.get();
      source.path = PathOnOtherNode(dataset.id, file.name());
      chosen->lane = holder;
    }
    return take(Tier::kPartner, holder);
  }
  if (dataset.in_folder() && usable(Tier::kRedundant)) {
    source.disk = &given_.tier.disk();
    source.path = given_.tier.PathOf(dataset.id) + "/" + file.name();
    chosen->lane = given_.tier.lane();
    return take(Tier::kRedundant);
  }
  if (dataset.in_prefix() && given_.gate.prefix() && usable(Tier::kPrefix)) {
    source.path = given_.gate.prefix()->FilePath(file.prefix_name());
    source.disk = &context_.env.prefix_disk;
    return take(Tier::kPrefix);
  }
  return DataLoss("no copy of rank {}'s bytes is whole", from);
}

Tier RestoreCopies::HowFound(const Dataset& dataset, const ChosenCopies& copies) {
  for (std::size_t i = 0; i < copies.ranks.size(); ++i) {
    const bool cached = copies.from[i] == Tier::kCache || copies.from[i] == Tier::kPartner;
    if (cached && dataset.parts[copies.ranks[i]].rebuilt) return Tier::kRebuilt;
  }
  return Tier::kNone;
}

void RestoreCopies::AskForAway(const RestoreGroupPtr& group, std::function<void(bool)> then) {
  const auto on_prefix = [](const auto& copy) { return copy.second == Tier::kPrefix; };
  if (std::ranges::none_of(group->away, on_prefix)) return then(WaitForAway(*group));
  auto ask = [visit = given_.gate.MakeVisitor()] { return visit([](Prefix&) { return absl::OkStatus(); }); };
  context_.OnPrefix(given_.gate.path(), std::move(ask),
                    [this, group, then = std::move(then)](const PrefixGate::Visited& visited) {
                      given_.gate.VisitEnded(visited);
                      if (absl::IsUnavailable(visited.status)) group->waits_until.reset();
                      then(WaitForAway(*group));
                    });
}

bool RestoreCopies::WaitForAway(RestoreGroup& group) const {
  if (group.away.empty()) return false;
  if (!group.waits_until) group.waits_until = context_.now() + kAwayAtMost;
  if (context_.now() >= *group.waits_until) return false;
  for (const auto& copy : group.away) group.bad.erase(copy);
  return true;
}

void RestoreCopies::NoteFetch(RestoreGroup& group) {
  if (!std::exchange(group.fetched, true)) given_.inventory.MarkFetched(group.dataset->id);
}

void RestoreCopies::FoundBad(RestoreGroup& group, Rank rank, Tier tier, const absl::Status& why) {
  if (!group.bad.insert({rank, tier}).second) return;
  if (tier == Tier::kImage && absl::IsResourceExhausted(why)) return;  // it is whole, and in its own way
  const bool in_folder = tier == Tier::kRedundant;
  const bool may_come_back = tier == Tier::kPartner || tier == Tier::kPrefix || in_folder;
  // That there is nothing may mean that nothing is mounted there.
  const bool unseen = in_folder && absl::IsNotFound(why);
  if (unseen || (in_folder && absl::IsUnavailable(why))) given_.tier.LookAgain();
  if (unseen && !group.away.insert({rank, tier}).second) return;
  if (may_come_back && absl::IsUnavailable(why) && !group.away.insert({rank, tier}).second) return;
  const Dataset& dataset = *group.dataset;
  context_.Warn(fmt::format("run {}: dataset {}: the copy of rank {} in the {} is bad: {}", given_.run_name, dataset.id,
                            rank, NameOf(tier), MessageOf(why)));
  if (tier == Tier::kImage) return given_.images.DropKept(given_.run, dataset.id, rank);
  if (unseen) return;
  if (!absl::IsDataLoss(why) && !absl::IsNotFound(why) && !absl::IsInvalidArgument(why)) return;
  group.damaged.insert({rank, tier});
  if (tier == Tier::kPrefix) return given_.inventory.MarkFailed(dataset.id);
  if (in_folder) return;                                       // it goes aside when nobody reads there any more
  if (tier == Tier::kPartner || dataset.over_nodes()) return;  // its own daemon sees to it
  given_.cache.NoteForRefetch(dataset.id);
  given_.bases.Distrust();
  // Which of the application's files is bad is not known here: they go aside together when they are fetched anew.
  const catalogue::Catalogue& catalogue = dataset.parts[rank].catalogue;
  if (dataset.kind.files || catalogue.file_size() == 0) return;
  given_.cache.SetAside(dataset, catalogue.file(0).name(), std::string(MessageOf(why)));
}

bool RestoreCopies::LoseDamaged(const RestoreGroup& group) {
  const DatasetPtr& dataset = group.dataset;
  if (!MayBeMadeAnew(*dataset)) return false;
  for (const auto& [rank, tier] : group.damaged) {
    if (tier == Tier::kRedundant) continue;
    const Part& part = dataset->parts[rank];
    if (part.elsewhere && part.known()) {
      given_.ledger.PartIsBad(*dataset, rank);
    } else if (!part.elsewhere) {
      given_.cache.LosePart(dataset, rank, "a restore could not read it");
    }
  }
  return dataset->unknown > 0;
}

void RestoreCopies::WithdrawDamaged(const RestoreGroup& group) {
  const Dataset& dataset = *group.dataset;
  const bool in_parts = dataset.over_nodes() && std::ranges::any_of(group.damaged, [](const auto& copy) {
                          return copy.second == Tier::kCache || copy.second == Tier::kPartner;
                        });
  if (in_parts) given_.cache.GiveUpParts(group.dataset, "a restore could not read it");
  for (const auto& [rank, tier] : group.damaged) {
    // A copy may have been fetched anew, or have left, meanwhile; and several ranks' may be damaged.
    if ((tier == Tier::kCache || tier == Tier::kPartner) && dataset.in_cache()) given_.ledger.CacheDamaged(dataset, "");
    if (tier == Tier::kPrefix && dataset.in_prefix()) given_.ledger.PrefixDamaged(dataset);
    if (tier == Tier::kRedundant) given_.tier.FoundDamaged(group.dataset, "a restore could not read it");
  }
}

}  // namespace cairn
