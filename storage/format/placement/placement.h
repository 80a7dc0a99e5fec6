// Where a rank's variables lie in its checkpoint file. Pure.
#ifndef CAIRN_STORAGE_FORMAT_PLACEMENT_PLACEMENT_H_
#define CAIRN_STORAGE_FORMAT_PLACEMENT_PLACEMENT_H_

#include <absl/status/status.h>

#include <span>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/placement/bounds.h"

namespace cairn::view {

// For Catalogue.placement: of each variable the runs in order of its bytes, joined where they are contiguous in a file
// of this layout (its own offsets). A variable whose chunks in the layout do not follow each other has no run: nothing
// can be said of it. `bounds`: of each container, for the runs' min_max; none: without. A run has bounds if each of its
// containers has, begins and ends between elements, and not all of it is NaN.
std::vector<catalogue::Placement> PlacementOf(const catalogue::Catalogue& catalogue, const ftiff::FileLayout& layout,
                                              std::span<const Bounds> bounds = {});

// What a capture is to look for in each container: nothing, elements of the variable's type, or of a value of one
// element its bytes. As `layout.containers`.
std::vector<BoundsScan> ScansFor(const google::protobuf::RepeatedPtrField<local::Variable>& variables,
                                 const ftiff::FileLayout& layout);

// Are the runs of every variable as many bytes as it has, within the file, and min_max as long as it must be? kDataLoss
// naming what is not. No placement at all: OK.
absl::Status CheckPlacement(const catalogue::Catalogue& catalogue);

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_FORMAT_PLACEMENT_PLACEMENT_H_
