#include "daemon/core/dataset.h"

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
  dataset.nranks = static_cast<std::uint32_t>(catalogues.size());
  dataset.parts.resize(catalogues.size());
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    Part& part = dataset.parts[rank];
    part.state = Part::State::kStored;
    part.catalogue = std::move(catalogues[rank]);
    part.bytes = FileBytes(part.catalogue);
  }
}

std::uint64_t Dataset::bytes() const {
  std::uint64_t sum = parts.empty() ? bytes_there : 0;
  for (const Part& part : parts) sum += part.bytes;
  return sum;
}

Level Dataset::level() const {
  if (in_prefix()) return Level::kPrefix;
  if (in_cache()) return Level::kLocal;
  return all_captured() && !damaged() ? Level::kCaptured : Level::kNone;
}

}  // namespace cairn
