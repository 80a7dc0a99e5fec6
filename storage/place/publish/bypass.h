// Datasets that are written straight to the prefix, since the cache is too small for them.
//
// Who owns the truth: as for every dataset of the prefix, commit.cairn. Begin enters the dataset in SCR's index with
// COMPLETE 0; checkpoint files are written under work names in ckpt.<id>, the application's own files as
// ckpt.<id>/files/<name>. Complete is Publish (publish.h), which puts those in their places. What a crash leaves is
// never restored, and RemoveUnfinished (unfinished.h) takes it.
#ifndef CAIRN_STORAGE_PLACE_PUBLISH_BYPASS_H_
#define CAIRN_STORAGE_PLACE_PUBLISH_BYPASS_H_

#include <absl/status/status.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/cache/dataset_store.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

class Bypass : public DatasetStore {
 public:
  // `disk` is borrowed, and the prefix is on it. `views`: Complete makes the dataset's BP5 view, too
  // (Prefix::MakeView).
  static std::unique_ptr<Bypass> Make(Disk& disk, std::shared_ptr<Prefix> prefix, bool views = true);

  // Of DatasetStore: RouteFile answers where the file is to be until the dataset is complete, of the same base name;
  // kFailedPrecondition: a link or something else is in the way of its own place (place.h). Complete first withdraws
  // the datasets that had one of the names, and answers as Publish does: kAborted, never; kFailedPrecondition,
  // something is in the way. Remove is for what is not complete: the committed is Prefix::Remove's. It waits for a
  // Complete of the dataset. Where Begin failed it takes away nothing that was there.

  // Datasets that have given way since the last call, each with the one that it gave way to.
  virtual std::vector<std::pair<DatasetId, DatasetId>> TakeWithdrawn() = 0;
  // What went wrong without harm since the last call: bytes of those that could not be removed.
  virtual std::vector<std::string> TakeWarnings() = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PUBLISH_BYPASS_H_
