#include "daemon/core/in_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include "daemon/core/holdings.h"
#include "storage/base/number_ranges.h"
#include "storage/place/cache/redundancy_record.h"

namespace cairn {
namespace {

constexpr std::uint64_t kPartsMax = 1 << 20;  // that one node is believed to have, of all its datasets together

// By launch, too: the mark of its secret.
using Key = std::pair<DatasetId, std::string>;

// A set that any node has told, and those of its ranks that keep something for it.
struct Told {
  kept::Set set;
  std::set<Rank> keepers;
};

struct Found {
  Candidate candidate;
  std::set<Rank> here;
  std::vector<Told> sets;
  bool seen_to = false;

  Told& Of(const kept::Set& set) {
    const auto known = std::ranges::find_if(sets, [&set](const Told& told) { return AreSame(told.set, set); });
    return known != sets.end() ? *known : sets.emplace_back(Told{.set = set, .keepers = {}});
  }
};

// So many of a set's ranks may be missing for this one to be made anew, as far as numbers tell.
std::size_t MayMiss(const kept::Set& set) {
  if (set.scheme() == kept::RS) return set.checksums();
  return set.scheme() == kept::PARTNER ? static_cast<std::size_t>(set.ranks_size()) - 1 : 1;
}

void Add(const peer::Holding& holding, const Dataset& dataset, const Member& member, const NumberRanges& all_ranks,
         const InPartsOptions& options, Found& found) {
  NumberRanges ranks = all_ranks;
  for (const std::uint64_t rank : all_ranks.Numbers()) {
    if (options.bad && options.bad(dataset.id, static_cast<Rank>(rank), member.node)) ranks.Remove(rank);
  }
  Candidate& candidate = found.candidate;
  found.seen_to |= holding.seen_to();
  if (candidate.dataset.id == 0) {
    candidate.dataset = dataset;
    candidate.member = member;
    candidate.in_parts = true;
  }
  if (candidate.dataset.nranks != holding.nranks()) return;
  for (const std::uint64_t rank : ranks.Numbers()) candidate.at.try_emplace(static_cast<Rank>(rank), member);
  for (int i = 0; i < holding.sets_size(); ++i) {
    const kept::Set& set = holding.sets(i);
    const auto keepers = holding.keepers().empty()
                             ? ranks
                             : ParseNumberRanges(holding.keepers(i), holding.nranks()).value_or(NumberRanges());
    Told& told = found.Of(set);
    for (const Rank rank : set.ranks()) {
      if (!ranks.Contains(rank) || !keepers.Contains(rank) || candidate.at.at(rank).node != member.node) continue;
      candidate.keeps.try_emplace(rank, set);
      told.keepers.insert(rank);
    }
  }
}

// What is told of a dataset by others, too (holdings.h).
Dataset WithoutParts(const Dataset& of) {
  Dataset dataset;
  dataset.id = of.id;
  dataset.launch = of.launch;
  dataset.mark = of.mark;
  dataset.step = of.step;
  dataset.attempt = of.attempt;
  dataset.nranks = of.nranks;
  dataset.kind = of.kind;
  dataset.ordinal = of.ordinal;
  dataset.created_us = of.created_us;
  dataset.user = of.user;
  dataset.job = of.job;
  dataset.name = of.name;
  dataset.standing = of.standing;
  return dataset;
}

// What no other node may have anything of any more: the ranks whose parts are here may keep enough for all others.
void BeginWithOwn(const Ledger& ledger, const InPartsOptions& options, std::map<Key, Found>& all) {
  for (const auto& [id, dataset] : ledger.InPlay()) {
    if (!dataset->in_cache() || dataset->unknown == 0 || dataset->mark.empty()) continue;
    if (!options.wanted(*dataset) && !options.left(*dataset)) continue;
    Candidate& candidate = all[{id, dataset->mark}].candidate;
    candidate.dataset = WithoutParts(*dataset);
    candidate.member = options.own;
    candidate.in_parts = true;
  }
}

// What this cache has itself.
void AddOwn(const Ledger& ledger, Found& found) {
  Candidate& candidate = found.candidate;
  const DatasetPtr known = ledger.Get(candidate.dataset.id);
  if (!known || !known->in_cache() || known->mark != candidate.dataset.mark) return;
  for (Rank rank = 0; rank < known->parts.size(); ++rank) {
    if (known->parts[rank].elsewhere) continue;
    found.here.insert(rank);
    candidate.at.erase(rank);
    candidate.keeps.erase(rank);
    for (Told& told : found.sets) told.keepers.erase(rank);
  }
  for (const SetHere& here : SetsHere(*known)) {
    Told& told = found.Of(here.set);
    for (const std::uint64_t rank : here.keepers.Numbers()) told.keepers.insert(static_cast<Rank>(rank));
  }
}

// The sets that can make a lost rank's part anew, as far as numbers tell. Of old and new ones, which nodes may have
// come to know one after the other, that first of which the most members have their files, and keep what they should.
std::vector<kept::Set> SetsFor(Rank lost, const Found& found) {
  std::multimap<std::size_t, kept::Set> sets;
  for (const Told& told : found.sets) {
    if (std::ranges::find(told.set.ranks(), lost) == told.set.ranks().end()) continue;
    std::size_t missing = 0, useless = 0;
    for (const Rank rank : told.set.ranks()) {
      const bool there = found.here.contains(rank) || found.candidate.at.contains(rank);
      missing += there ? 0 : 1;
      useless += there && told.keepers.contains(rank) ? 0 : 1;
    }
    if (missing <= MayMiss(told.set)) sets.emplace(useless, told.set);
  }
  std::vector<kept::Set> best_first;
  for (auto& [useless, set] : sets) best_first.push_back(std::move(set));
  return best_first;
}

// False: parts are lost for which there is no set.
bool FindLost(Found& found) {
  Candidate& candidate = found.candidate;
  if (candidate.at.size() + found.here.size() == candidate.dataset.nranks) return true;
  if (found.sets.empty()) return false;
  for (Rank rank = 0; rank < candidate.dataset.nranks; ++rank) {
    if (found.here.contains(rank) || candidate.at.contains(rank)) continue;
    std::vector<kept::Set> sets = SetsFor(rank, found);
    if (sets.empty()) return false;
    candidate.lost.emplace(rank, std::move(sets));
  }
  return true;
}

std::uint32_t CountNowhere(const Found& found) {
  std::uint32_t nowhere = 0;
  for (Rank rank = 0; rank < found.candidate.dataset.nranks; ++rank) {
    nowhere += found.here.contains(rank) || found.candidate.at.contains(rank) ? 0 : 1;
  }
  return nowhere;
}

}  // namespace

std::vector<Candidate> InParts(const Nodes::Holdings& holdings, const Ledger& ledger, const InPartsOptions& options) {
  std::map<Key, Found> all;
  BeginWithOwn(ledger, options, all);
  for (const auto& [member, missing, told] : holdings) {
    if (!told.ok()) continue;
    std::uint64_t room = kPartsMax;
    for (int i = told->datasets_size(); i-- > 0;) {  // the newest first
      const peer::Holding& holding = told->datasets(i);
      const Dataset dataset = DatasetOf(holding);
      if (holding.ranks().empty() || holding.mark().empty()) continue;
      if (!options.wanted(dataset) && !options.left(dataset)) continue;
      const NumberRanges ranks = *ParseNumberRanges(holding.ranks(), holding.nranks());
      if (ranks.size() > room) break;
      room -= ranks.size();
      Add(holding, dataset, member, ranks, options, all[{holding.dataset(), holding.mark()}]);
    }
  }
  std::vector<Candidate> candidates;
  for (auto& [key, found] : all) {
    AddOwn(ledger, found);
    const bool lacks = !FindLost(found);
    if (lacks) found.candidate.nowhere = options.lacking ? CountNowhere(found) : 0;
    if (lacks && found.candidate.nowhere == 0) continue;
    if ((lacks || found.seen_to) && !options.wanted(found.candidate.dataset)) continue;
    if (!lacks && found.candidate.at.empty() && found.candidate.lost.empty()) continue;  // all of it is here
    candidates.push_back(std::move(found.candidate));
  }
  return candidates;
}

}  // namespace cairn
