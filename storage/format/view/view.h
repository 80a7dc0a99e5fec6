// A checkpoint as BP5 shows it: metadata that points into the ranks' FTI-FF files, so that ADIOS2's tools list and
// read them as they are. No byte of data is written twice.
//
// The rules: one step, one writer per rank, each its own subfile, position 0, no flushes; a location is the offset in
// the rank's file; DataBlockSize is the end of the last block, rounded up to 16. A rank without variables has an empty
// record, and its subfile is not there.
//
//   arrays   global arrays; a rank's box is one block if it lies in one piece, else each run of it (catalogue.Run) is
//            cut into boxes
//   values   of one element: a global value of the lowest rank that stored it; of more: a global array of that rank
//   plain    a local array of one dimension, a block for each run: by its name, or `var_<id>`
//   others   what has no known type, or a run that is not cut at elements: as plain, but of uint8
//
// A block without elements is left out if the array has others in the step. A name that would mean two things is made
// two: names.h. Bounds of a block are those of its run, which may hold more than the block: then they are wider than
// they need to be. The directory has the attributes cairn/run, cairn/dataset, cairn/step and cairn/launch.
//
// Pure: made from the ranks' catalogues alone.
#ifndef CAIRN_STORAGE_FORMAT_VIEW_VIEW_H_
#define CAIRN_STORAGE_FORMAT_VIEW_VIEW_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"

namespace cairn::view {

struct Link {
  std::string name, target;  // data.<subfile>, relative to the directory
};
struct ViewFiles {
  std::string index, metadata, formats;  // md.idx, md.0, mmd.0
  std::vector<Link> links;
};

// The directory ckpt.<id>.bp/ of a dataset. `catalogues`: of all ranks, by rank.
//   kInvalidArgument     not all ranks of one dataset; the application's own files (`files`); a name that BP5 cannot
//                        have
//   kFailedPrecondition  a catalogue has no placement, or not the bytes of a value (Complete in folder.h gives both)
//   kDataLoss            a catalogue contradicts itself
absl::StatusOr<ViewFiles> BuildView(std::span<const catalogue::Catalogue> catalogues);

// A directory of several datasets, a step each, with a writer map before it and subfiles of its own. Attributes are
// those of each step.
class Steps {
 public:
  // `to_prefix`: how links in the directory call the prefix, as "..".
  explicit Steps(std::string to_prefix);
  ~Steps();
  Steps(Steps&&) noexcept;

  // The next step. Errors as BuildView; the directory is as it was then.
  absl::Status Add(std::span<const catalogue::Catalogue> catalogues);
  std::uint32_t size() const;
  ViewFiles Files() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cairn::view

#endif  // CAIRN_STORAGE_FORMAT_VIEW_VIEW_H_
