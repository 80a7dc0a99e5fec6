// A checkpoint as BP5 shows it: metadata that points into the ranks' FTI-FF files, so that ADIOS2's tools list and
// read them as they are. No byte of data is written twice.
//
// The rules: one step, one writer per rank, each its own subfile, position 0, no flushes; a location is the offset in
// the rank's file; DataBlockSize is the end of the last block, rounded up to 16. Global arrays are such. A value with
// one element is a global value of the lowest rank that stored it, with more a global array from that rank. A plain
// variable is a local array `var_<id>` (or of its name), one block for each contiguous run; runs that are not cut at
// elements, or of unknown type, are shown as uint8. A rank without variables has an empty record and no subfile.
//
// Pure: made from the ranks' catalogues alone.
#ifndef CAIRN_STORAGE_VIEW_VIEW_H_
#define CAIRN_STORAGE_VIEW_VIEW_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/bp5/encode.h"
#include "storage/ftiff/layout.h"

namespace cairn::view {

// Where the variables' bytes lie in a file of this layout (its own offsets), for Catalogue.placement: runs in order of
// the variable's bytes, joined where they are contiguous. Without min and max.
std::vector<catalogue::Placement> PlacementOf(const catalogue::Catalogue& catalogue, const ftiff::FileLayout& layout);

// One rank's record. kFailedPrecondition: the catalogue has no placement. kDataLoss: it contradicts itself.
struct RankView {
  bp5::EncodedStep step;
  bool has_data = false;
};
absl::StatusOr<RankView> EncodeRank(const catalogue::Catalogue& catalogue, bp5::WriterEncoder& encoder);

struct Link {
  std::string name, target;  // data.<writer>, relative to the view's directory
};
struct ViewFiles {
  std::string index, metadata, formats;
  std::vector<Link> links;
};
// The directory ckpt.<id>.bp/ of a dataset. `catalogues`: of all ranks, by rank; the application's own files
// (`files`): kInvalidArgument.
absl::StatusOr<ViewFiles> BuildView(std::span<const catalogue::Catalogue> catalogues);

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_VIEW_VIEW_H_
