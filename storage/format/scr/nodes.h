// How many nodes a run has: nodes.scr, by which launch scripts know what a restart needs. SCR specification, 7.2.
#ifndef CAIRN_STORAGE_FORMAT_SCR_NODES_H_
#define CAIRN_STORAGE_FORMAT_SCR_NODES_H_

#include <absl/status/statusor.h>

#include <cstdint>

#include "storage/format/kvtree/tree.h"

namespace cairn::scr {

// Other keys stay.
void PutNodes(std::uint32_t nodes, kvtree::Tree& tree);

//   kNotFound  no NODES
//   kDataLoss  NODES is no such number, or out of range
absl::StatusOr<std::uint32_t> GetNodes(const kvtree::Tree& tree);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_NODES_H_
