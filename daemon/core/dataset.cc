#include "daemon/core/dataset.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "storage/place/cache/redundancy_record.h"

namespace cairn {

std::string_view NameOf(Place place) {
  constexpr std::string_view kNames[] = {"absent", "arriving", "whole", "leaving", "damaged"};
  return kNames[static_cast<std::size_t>(place)];
}

std::string_view NameOf(Standing standing) {
  constexpr std::string_view kNames[] = {"current",   "doubted",   "superseded", "gave way", "fenced",
                                         "another's", "taken out", "id taken",   "history"};
  return kNames[static_cast<std::size_t>(standing)];
}

Age AgeOf(const Dataset& dataset) {
  using Maker = Age::Maker;
  const Maker none = dataset.foreign ? Maker::kScr : Maker::kAdopted;
  return {.maker = dataset.launch != 0 ? Maker::kLaunch : none,
          .launch = dataset.launch,
          .created_us = dataset.created_us,
          .id = dataset.id};
}

std::uint64_t FileBytes(const catalogue::Catalogue& catalogue) {
  std::uint64_t bytes = 0;
  for (const catalogue::FileEntry& file : catalogue.file()) bytes += file.bytes();
  return bytes;
}

void LearnScheme(Dataset& dataset, const catalogue::Catalogue& catalogue) {
  const AskedScheme asked = AskedIn(catalogue);
  if (dataset.scheme.kind == local::SCHEME_NOT_GIVEN && CheckAsked(asked).ok()) dataset.scheme = asked;
}

void PutParts(Dataset& dataset, std::vector<catalogue::Catalogue> catalogues) {
  const auto nranks = static_cast<std::uint32_t>(catalogues.size());
  PutPartsHere(dataset, nranks, std::move(catalogues));
}

void PutPartsHere(Dataset& dataset, std::uint32_t nranks, std::vector<catalogue::Catalogue> catalogues) {
  dataset.nranks = nranks;
  dataset.unknown = dataset.undescribed = nranks - static_cast<std::uint32_t>(catalogues.size());
  const Part elsewhere{.state = Part::State::kStored, .catalogue = {}, .elsewhere = true, .described = false};
  dataset.parts.assign(nranks, elsewhere);
  for (catalogue::Catalogue& catalogue : catalogues) {
    Part& part = dataset.parts[catalogue.rank()];
    part.elsewhere = false;
    part.described = true;
    part.bytes = FileBytes(catalogue);
    LearnScheme(dataset, catalogue);
    part.catalogue = std::move(catalogue);
  }
}

std::vector<SetHere> SetsHere(const Dataset& dataset) {
  std::vector<SetHere> sets;
  std::size_t age = 0;  // first the newest of each rank, then the one before it, …
  for (bool more = true; more; ++age) {
    more = false;
    for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
      const Part& part = dataset.parts[rank];
      const bool has = !part.elsewhere && part.keeps && age <= part.kept_before.size();
      if (!has) continue;
      const kept::Set& set = age == 0 ? *part.keeps : *part.kept_before[age - 1];
      auto known = std::ranges::find_if(sets, [&set](const SetHere& here) { return AreSame(here.set, set); });
      if (known == sets.end()) known = sets.insert(sets.end(), SetHere{.set = set, .keepers = {}});
      known->keepers.Add(rank);
      more = true;
    }
  }
  return sets;
}

std::vector<kept::Set> SetsAt(const Dataset& dataset, const std::string& node) {
  std::vector<kept::Set> sets;
  std::set<const kept::Set*> seen;
  for (const Part& part : dataset.parts) {
    if (!part.keeps || part.node != node || part.elsewhere == node.empty()) continue;
    const auto same = [&part](const kept::Set& set) { return AreSame(set, *part.keeps); };
    if (seen.insert(part.keeps.get()).second && std::ranges::none_of(sets, same)) sets.push_back(*part.keeps);
  }
  return sets;
}

std::uint64_t Dataset::bytes() const {
  std::uint64_t sum = parts.empty() ? bytes_there : 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

std::uint64_t Dataset::bytes_here() const {
  std::uint64_t sum = parts.empty() ? bytes_there : 0;
  for (const Part& part : parts) sum += part.elsewhere ? 0 : part.bytes;
  return sum + kept_bytes;
}

Level Dataset::level() const {
  if (in_prefix()) return Level::kPrefix;
  if (in_folder()) return Level::kRedundant;
  if (in_cache() && safe()) return redundant ? Level::kRedundant : Level::kLocal;
  if (in_cache()) return Level::kNone;
  return all_captured() && !damaged() ? Level::kCaptured : Level::kNone;
}

}  // namespace cairn
