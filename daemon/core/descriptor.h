// What SCR's records say of a dataset. Pure.
#ifndef CAIRN_DAEMON_CORE_DESCRIPTOR_H_
#define CAIRN_DAEMON_CORE_DESCRIPTOR_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/core/dataset.h"
#include "proto/catalogue.pb.h"
#include "storage/base/number_ranges.h"
#include "storage/format/scr/records.h"

namespace cairn {

// The dataset's name there.
std::string NameInRecords(const Dataset& dataset);

// `complete`: with the number of its files and bytes. REQUIRES: then it is described.
scr::Descriptor DescriptorOf(const Dataset& dataset, bool complete);
// Of a dataset that has parts in other nodes' caches: the ranks whose parts are here (Descriptor::held of its record in
// this cache). None: all of them.
std::optional<NumberRanges> HeldHere(const Dataset& dataset);

std::vector<catalogue::Catalogue> CataloguesOf(const Dataset& dataset);    // by rank
std::vector<catalogue::Catalogue> CataloguesHere(const Dataset& dataset);  // the same; of parts elsewhere empty ones

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DESCRIPTOR_H_
