// What SCR's records say of a dataset. Pure.
#ifndef CAIRN_DAEMON_CORE_DESCRIPTOR_H_
#define CAIRN_DAEMON_CORE_DESCRIPTOR_H_

#include <string>
#include <vector>

#include "daemon/core/dataset.h"
#include "proto/catalogue.pb.h"
#include "storage/format/scr/records.h"

namespace cairn {

// The dataset's name there.
std::string NameInRecords(const Dataset& dataset);

// `complete`: with the number of its files and bytes. REQUIRES: then it is described.
scr::Descriptor DescriptorOf(const Dataset& dataset, bool complete);

std::vector<catalogue::Catalogue> CataloguesOf(const Dataset& dataset);  // by rank

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_DESCRIPTOR_H_
