#include "daemon/core/in_parts.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

#include "daemon/core/holdings.h"
#include "storage/base/number_ranges.h"

namespace cairn {
namespace {

constexpr std::uint64_t kPartsMax = 1 << 20;  // that one node is believed to have, of all its datasets together

// By launch, too: the mark of its secret.
using Key = std::pair<DatasetId, std::string>;

struct Found {
  Candidate candidate;
  std::set<Rank> here;
  std::vector<kept::Set> sets;  // that any node has told
  bool seen_to = false;
};

// So many of a set's ranks may be missing for this one to be made anew, as far as numbers tell.
std::size_t MayMiss(const kept::Set& set) {
  if (set.scheme() == kept::RS) return set.checksums();
  return set.scheme() == kept::PARTNER ? static_cast<std::size_t>(set.ranks_size()) - 1 : 1;
}

void Add(const peer::Holding& holding, const Dataset& dataset, const Member& member, const NumberRanges& ranks,
         Found& found) {
  Candidate& candidate = found.candidate;
  found.seen_to |= holding.seen_to();
  if (candidate.dataset.id == 0) {
    candidate.dataset = dataset;
    candidate.member = member;
    candidate.in_parts = true;
  }
  if (candidate.dataset.nranks != holding.nranks()) return;
  for (const std::uint64_t rank : ranks.Numbers()) candidate.at.try_emplace(static_cast<Rank>(rank), member);
  for (const kept::Set& set : holding.sets()) {
    found.sets.push_back(set);
    for (const Rank rank : set.ranks()) {
      if (ranks.Contains(rank) && candidate.at.at(rank).node == member.node) candidate.keeps.try_emplace(rank, set);
    }
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
  }
  for (const kept::Set& set : SetsHere(*known)) found.sets.push_back(set);
}

// The set that can make a lost rank's part anew, if there is one.
const kept::Set* SetFor(Rank lost, const Found& found) {
  for (const kept::Set& set : found.sets) {
    if (std::ranges::find(set.ranks(), lost) == set.ranks().end()) continue;
    const auto missing = std::ranges::count_if(
        set.ranks(), [&found](Rank rank) { return !found.here.contains(rank) && !found.candidate.at.contains(rank); });
    if (static_cast<std::size_t>(missing) <= MayMiss(set)) return &set;
  }
  return nullptr;
}

// False: parts are lost for which there is no set.
bool FindLost(Found& found) {
  Candidate& candidate = found.candidate;
  if (candidate.at.size() + found.here.size() == candidate.dataset.nranks) return true;
  if (found.sets.empty()) return false;
  for (Rank rank = 0; rank < candidate.dataset.nranks; ++rank) {
    if (found.here.contains(rank) || candidate.at.contains(rank)) continue;
    const kept::Set* const set = SetFor(rank, found);
    if (set == nullptr) return false;
    candidate.lost.emplace(rank, *set);
  }
  return true;
}

}  // namespace

std::vector<Candidate> InParts(const Nodes::Holdings& holdings, const Ledger& ledger, const InPartsOptions& options) {
  std::map<Key, Found> all;
  for (const auto& [member, told] : holdings) {
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
      Add(holding, dataset, member, ranks, all[{holding.dataset(), holding.mark()}]);
    }
  }
  std::vector<Candidate> whole;
  for (auto& [key, found] : all) {
    AddOwn(ledger, found);
    if (!FindLost(found)) continue;
    if (found.seen_to && !options.wanted(found.candidate.dataset)) continue;
    if (found.candidate.at.empty() && found.candidate.lost.empty()) continue;  // all of it is here
    whole.push_back(std::move(found.candidate));
  }
  return whole;
}

}  // namespace cairn
