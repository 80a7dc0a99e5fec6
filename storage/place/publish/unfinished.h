// What a flush, a bypass or an adopt leaves of a dataset that is never committed, and how that goes. Calls block on
// disk.
//
// Checkpoint files, catalogues and their work files lie in ckpt.<id> and are the dataset's by their names. A file of
// the application's waits, until its dataset is complete, under a work name beside its place (flush), in
// ckpt.<id>/files (bypass) or in ckpt.<id>/adopting (adopt): storage/place/prefix/waiting.h. One that does not wait any
// more is taken for put in its place, and goes from there if it still is what its catalogue says: of that size and
// time, and nobody else's.
#ifndef CAIRN_STORAGE_PLACE_PUBLISH_UNFINISHED_H_
#define CAIRN_STORAGE_PLACE_PUBLISH_UNFINISHED_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/prefix.h"

namespace cairn {

// The prefix is still the run's that it was opened for. Where files are changed that no call of Prefix knows of.
//   kFailedPrecondition  another run's
absl::Status CheckStillOwn(Prefix& prefix);

// Was it ever committed? What was dropped from the index, or failed, was: its files stay.
bool WasCommitted(const PrefixContents& contents, DatasetId id);

// The application's files of committed datasets, SCR's own, too: by name, whose. Of datasets whose catalogues or lists
// cannot be read nothing is known.
absl::StatusOr<std::map<std::string, DatasetId>> NamesOfCommitted(
    Disk& disk, Prefix& prefix, const std::map<DatasetId, CommittedDataset>& committed);

struct Leftovers {
  std::vector<catalogue::Catalogue> known = {};  // besides those that are stored on the prefix
  bool placed = false;                           // the files that `known` names may be in their places
  // Nobody else can commit it (adopts exclude each other). Then bytes go before records, each step durable: so a full
  // disk gets room first, and an interruption leaves nothing that the next call does not find. Otherwise the record
  // that it was removed comes first, since another node may be about to commit it.
  bool alone = false;
};

// Takes all of it away, by the catalogues that it has stored, and those that are known. After an error it may be called
// again. Application's files in their places that no catalogue names yet are left.
// REQUIRES: it was never committed (WasCommitted); that is Prefix::Remove's.
//   kFailedPrecondition  the prefix is another run's now, or the id is SCR's by now
absl::Status RemoveUnfinished(Disk& disk, Prefix& prefix, DatasetId id, const Leftovers& leftovers = {});

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PUBLISH_UNFINISHED_H_
