#include "daemon/core/descriptor.h"

#include <fmt/format.h>

#include <cstdint>

#include "storage/format/catalogue/catalogue.h"
#include "storage/place/names.h"

namespace cairn {

std::string NameInRecords(const Dataset& dataset) {
  return dataset.name.empty() ? DatasetName(dataset.id) : dataset.name;
}

scr::Descriptor DescriptorOf(const Dataset& dataset, bool complete) {
  scr::Descriptor descriptor;
  descriptor.id = dataset.id;
  descriptor.name = NameInRecords(dataset);
  descriptor.checkpoint = dataset.kind.checkpoint;
  descriptor.output = dataset.kind.output;
  descriptor.created_us = dataset.created_us;
  descriptor.user = dataset.user;
  descriptor.job_id = dataset.job;
  descriptor.launch = dataset.launch;
  descriptor.mark = dataset.mark;
  descriptor.step = dataset.step;
  descriptor.ranks = dataset.nranks;
  descriptor.own_files = dataset.kind.files;
  descriptor.unverified_files = dataset.unverified_files;
  if (complete) {
    descriptor.complete = true;
    for (const Part& part : dataset.parts) {
      // The catalogue is one of a rank's files, too.
      descriptor.files += static_cast<std::uint64_t>(part.catalogue.file_size()) + 1;
      descriptor.bytes += part.bytes + CatalogueFileBytes(part.catalogue);
    }
  }
  return descriptor;
}

std::optional<NumberRanges> HeldHere(const Dataset& dataset) {
  if (!dataset.over_nodes()) return std::nullopt;
  NumberRanges held;
  for (Rank rank = 0; rank < dataset.nranks; ++rank) {
    if (!dataset.parts[rank].elsewhere) held.Add(rank);
  }
  return held;
}

std::vector<catalogue::Catalogue> CataloguesOf(const Dataset& dataset) {
  std::vector<catalogue::Catalogue> catalogues;
  catalogues.reserve(dataset.parts.size());
  for (const Part& part : dataset.parts) catalogues.push_back(part.catalogue);
  return catalogues;
}

std::vector<catalogue::Catalogue> CataloguesHere(const Dataset& dataset) {
  std::vector<catalogue::Catalogue> catalogues(dataset.parts.size());
  for (Rank rank = 0; rank < dataset.parts.size(); ++rank) {
    if (!dataset.parts[rank].elsewhere) catalogues[rank] = dataset.parts[rank].catalogue;
  }
  return catalogues;
}

}  // namespace cairn
