#include "storage/format/scr/nodes.h"

#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {

void PutNodes(std::uint32_t nodes, kvtree::Tree& tree) {
  tree.Set("NODES", std::uint64_t{nodes});
}

absl::StatusOr<std::uint32_t> GetNodes(const kvtree::Tree& tree) {
  std::optional<std::uint32_t> nodes;
  CAIRN_RETURN_IF_ERROR(TakeUpTo(kIntMax, tree, "NODES", nodes));
  if (!nodes) return NotFound("no NODES");
  return *nodes;
}

}  // namespace cairn::scr
