// Which node has which part of a dataset, and what the parts keep for others of their sets: ledger.h.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/ledger.h"
#include "storage/base/check.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

void SetKeptBefore(Dataset& dataset, Rank rank, std::vector<std::shared_ptr<const kept::Set>> sets) {
  std::vector<std::shared_ptr<const kept::Set>>& before = dataset.parts[rank].kept_before;
  if (!before.empty()) --dataset.keeping_before;
  before = std::move(sets);
  if (!before.empty()) ++dataset.keeping_before;
}

// Nobody knows any more where it is.
void Lose(Dataset& dataset, Rank rank) {
  Part& part = dataset.parts[rank];
  part.elsewhere = true;
  part.node.clear();
  ++dataset.unknown;
  if (std::exchange(part.keeps, nullptr)) --dataset.keeping;
  SetKeptBefore(dataset, rank, {});
  dataset.redundant = false;
}

// REQUIRES: each part keeps something.
bool MembersAgree(const Dataset& dataset) {
  return std::ranges::all_of(dataset.parts, [&dataset](const Part& part) {
    return std::ranges::all_of(part.keeps->ranks(), [&](Rank member) {
      if (member >= dataset.parts.size()) return false;
      const auto& other = dataset.parts[member].keeps;
      return other == part.keeps || AreSame(*other, *part.keeps);
    });
  });
}

}  // namespace

void Ledger::PartFound(const Dataset& given, Rank rank, const std::string& node, catalogue::Catalogue catalogue) {
  Dataset& dataset = Own(given);
  Part& part = dataset.parts[rank];
  CAIRN_CHECK(!part.known() && part.stored());
  --dataset.unknown;
  if (!std::exchange(part.described, true)) --dataset.undescribed;
  part.node = node;
  part.bytes = FileBytes(catalogue);
  LearnScheme(dataset, catalogue);
  part.catalogue = std::move(catalogue);
}

void Ledger::PartsLost(const Dataset& given, const std::string& node) {
  Dataset& dataset = Own(given);
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    const Part& part = dataset.parts[rank];
    if (part.elsewhere && part.node == node) Lose(dataset, rank);
  }
}

void Ledger::PartLost(const Dataset& given, Rank rank) {
  CAIRN_CHECK(given.parts.at(rank).known() && given.parts.at(rank).stored());
  Lose(Own(given), rank);
}

void Ledger::PartIsBad(const Dataset& given, Rank rank) {
  CAIRN_CHECK(given.parts.at(rank).elsewhere);
  Own(given).bad_parts.emplace(rank, given.parts[rank].node);
  PartLost(given, rank);
}

// --- Redundancy ---

void Ledger::AwaitsRedundancy(const Dataset& dataset, bool awaits) {
  Own(dataset).awaits_redundancy = awaits;
}

void Ledger::KeepBegan(const Dataset& dataset, std::uint64_t bytes) {
  Own(dataset).kept_bytes = bytes;
}

void Ledger::KeptHere(const Dataset& given, const kept::Record& record) {
  Dataset& dataset = Own(given);
  dataset.kept_bytes = KeptBytes(record);
  std::vector<std::shared_ptr<const kept::Set>> known;  // each once
  const auto shared = [&known](const kept::Set& set) {
    const auto found = std::ranges::find_if(known, [&set](const auto& one) { return AreSame(*one, set); });
    return found != known.end() ? *found : known.emplace_back(std::make_shared<const kept::Set>(set));
  };
  auto sets = SetsByRank(record);
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    if (dataset.parts[rank].elsewhere) continue;
    std::vector<std::shared_ptr<const kept::Set>> of_rank;
    for (const kept::Set& set : sets[rank]) of_rank.push_back(shared(set));
    if (dataset.parts[rank].keeps || !of_rank.empty()) Keeps(dataset, rank, of_rank.empty() ? nullptr : of_rank[0]);
    if (!of_rank.empty()) of_rank.erase(of_rank.begin());
    SetKeptBefore(dataset, rank, std::move(of_rank));
  }
}

bool Ledger::OlderSetsGo(const Dataset& given, const std::vector<kept::Set>& than) {
  Dataset& dataset = Own(given);
  bool any = false;
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    const Part& part = dataset.parts[rank];
    if (part.kept_before.empty()) continue;
    const auto is_named = [&than](const std::shared_ptr<const kept::Set>& set) {
      return std::ranges::any_of(than, [&set](const kept::Set& one) { return AreSame(one, *set); });
    };
    auto stay = part.kept_before.begin();
    if (!is_named(part.keeps)) {
      stay = std::find_if(part.kept_before.begin(), part.kept_before.end(), is_named);
      if (stay == part.kept_before.end()) continue;
      ++stay;
    }
    any |= stay != part.kept_before.end();
    SetKeptBefore(dataset, rank, {part.kept_before.begin(), stay});
  }
  return any;
}

void Ledger::SetsHereAtMost(const Dataset& given, std::size_t count) {
  Dataset& dataset = Own(given);
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    auto sets = dataset.parts[rank].kept_before;
    if (sets.size() < count) continue;
    while (sets.size() >= count) {  // besides the newest one, and counted with the one that is to come
      sets.erase(sets.begin() + static_cast<std::ptrdiff_t>(OneToGo(sets.size() + 2) - 2));
    }
    SetKeptBefore(dataset, rank, std::move(sets));
  }
}

void Ledger::Keeps(const Dataset& given, Rank rank, std::shared_ptr<const kept::Set> set) {
  Dataset& dataset = Own(given);
  CAIRN_CHECK(dataset.parts.at(rank).stored());
  const bool keeps = set != nullptr;
  const bool did = std::exchange(dataset.parts[rank].keeps, std::move(set)) != nullptr;
  if (keeps && !did) ++dataset.keeping;
  if (!keeps && did) --dataset.keeping;
  JudgeRedundancy(dataset);
}

// After a loss sets are made anew, node by node: until all have done so, some say one thing and some another.
void Ledger::JudgeRedundancy(Dataset& dataset) {
  dataset.redundant = dataset.keeping == dataset.nranks && MembersAgree(dataset);
}

void Ledger::AllKeep(const Dataset& dataset, const std::vector<kept::Set>& sets) {
  for (const kept::Set& set : sets) {
    const auto shared = std::make_shared<const kept::Set>(set);
    for (const Rank rank : set.ranks()) Keeps(dataset, rank, shared);
  }
}

void Ledger::HomeSaysRedundant(const Dataset& dataset) {
  CAIRN_CHECK(dataset.followed);
  Own(dataset).redundant = true;
}

void Ledger::OwnPartsLost(const Dataset& given) {
  Dataset& dataset = Own(given);
  CAIRN_CHECK(dataset.in_cache() && dataset.over_nodes());
  dataset.kept_bytes = 0;
  dataset.redundant = false;
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    if (!dataset.parts[rank].elsewhere) Lose(dataset, rank);
  }
}

void Ledger::Rebuilt(const Dataset& given, Rank rank, const std::string& node, catalogue::Catalogue catalogue) {
  PartFound(given, rank, node, std::move(catalogue));
  Part& part = Own(given).parts[rank];
  part.elsewhere = !node.empty();
  part.rebuilt = true;
}

}  // namespace cairn
