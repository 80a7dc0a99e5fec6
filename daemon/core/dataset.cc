#include "daemon/core/dataset.h"

#include <set>
#include <utility>

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
    part.catalogue = std::move(catalogue);
  }
}

std::vector<kept::Set> SetsHere(const Dataset& dataset) {
  std::vector<kept::Set> sets;
  std::set<std::uint32_t> seen;  // by number: what is here was made by one order
  for (const Part& part : dataset.parts) {
    if (!part.elsewhere && part.keeps && seen.insert(part.keeps->group()).second) sets.push_back(*part.keeps);
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
  if (in_cache() && safe()) return redundant ? Level::kRedundant : Level::kLocal;
  if (in_cache()) return Level::kNone;
  return all_captured() && !damaged() ? Level::kCaptured : Level::kNone;
}

}  // namespace cairn
