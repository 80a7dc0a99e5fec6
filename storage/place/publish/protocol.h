// The one commit protocol: how files that are whole on the prefix, but not in their places yet, become a dataset that
// anybody may restore. Flush, bypass, scavenge and adopt use it by publish.h; what SCR has brought, and what an index
// build finds, is committed by it below Prefix (storage/place/prefix/handed_over.h). Calls block on disk.
//
// The steps, in this order, and what is left if one of them fails or the process dies there:
//
//   1 places     every place is looked at: links, directories in the way
//                -> nothing has changed
//   2 folders    the folders of the places are made
//                -> empty folders stay, in nobody's way
//   3 withdraw   nobody has one of the names; it is looked whether it may be committed
//                -> nothing has changed
//   4 place      files are renamed and folders synced; md.idx, which shows the steps of a BP5 directory, last
//                -> some names have the new bytes; no entry that is COMPLETE has these names
//   5 describe   catalogues are stored: what they describe is there now
//                -> the same
//   6 commit     Prefix::Commit
//                -> it is committed if commit.cairn is there, else not
//   7 remove     the bytes of those withdrawn go, except what others name
//                -> they stay: a warning
//   8 view       the BP5 view is made
//                -> there is none: a warning of the prefix. The next MakeMissingViews makes it
//
// Where something lies under one of the names, an older dataset's file or anybody's, 3 to 6 are Prefix::Replace
// (storage/place/prefix/placing.h): commit first, then withdraw, then place. So at each instant the older dataset is
// committed and whole, or the newer one, and what is committed is finished by whoever looks next. A failure before the
// commit leaves the older as it was, one after it is finished later, too.
//
// Where SCR has put the files (`arrived`), the older bytes are gone already: step 3 withdraws those that had them.
// Directories that grow take their place by Prefix::Withdraw when they show their first step (storage/job/grow).
//
// So an entry that is COMPLETE names its own bytes at every instant, and what can fail without harm to older datasets
// fails before they give way. A user that was interrupted starts again at 1 (flush, scavenge), or takes away what is
// left (unfinished.h).
//
// State and owners: commit.cairn decides whether a dataset is committed, and only Prefix writes it. The bytes under a
// name belong to the committed dataset whose catalogues name them, but for those that still wait. Files that wait, and
// the folder where they wait, belong to the user until the commit. Inside one process only one such change of a prefix
// is under way at a time (daemon/core/prefix_gate.h). Other processes are not locked out. Of two that publish the same
// names the higher id stays, whole, whenever they come; only if the names were free when both looked, both may be
// committed with a mixture of their files, which the checksums show at the next restore.
#ifndef CAIRN_STORAGE_PLACE_PUBLISH_PROTOCOL_H_
#define CAIRN_STORAGE_PLACE_PUBLISH_PROTOCOL_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/file/transfer/transfer.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/prefix/placing.h"

namespace cairn {

// Datasets that gave way, with their catalogues: by these their bytes are removed. SCR's own have none, and stay.
using Withdrawn = std::map<DatasetId, std::vector<catalogue::Catalogue>>;

// All is borrowed but for what is small.
struct Publication {
  const scr::Descriptor& descriptor;
  const std::vector<catalogue::Catalogue>& catalogues;  // all ranks, by rank
  std::vector<CopiedFile> files = {};                   // that wait; or (empty `work`) were in their places before
  bool arrived = false;        // all files are in their places: others than Cairn have put them there
  std::set<Rank> stored = {};  // ranks whose catalogues are stored already
  std::string stage = {};      // a folder that goes when the files in it are in their places, before the commit
  const Withdrawn* gave_way = nullptr;  // to earlier tries, and not removed yet: they go with the others
  bool view = true;                     // where views are wanted
  LaunchId committer = 0;               // the launch under which this is done; 0: the user's will, or SCR's
};

struct Published {
  Withdrawn withdrawn;  // by this try, also if it failed later
  std::vector<std::string> warnings;
  bool too_late = false;   // never to be committed: removed there, or others have its id or names
  bool before = false;     // it had been committed already; all is done as for one that had not
  bool fenced = false;     // a newer launch was made before: it is whole, but nothing chooses it (prefix/launches.h)
  bool placing = false;    // files may be in their places, or are committed where they wait
  bool committed = false;  // it is, whatever failed after that: the next look at the prefix finishes it
};

// What the protocol changes besides files. As the calls of Prefix with these names.
class PublishRecords {
 public:
  virtual ~PublishRecords() = default;
  virtual const std::string& path() const = 0;  // of the prefix, without links
  virtual absl::StatusOr<Withdrawn> Withdraw(DatasetId by, const std::set<std::string>& names) = 0;
  virtual absl::Status Replace(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                               Replacement* replacement) = 0;
  virtual absl::Status StoreCatalogue(const catalogue::Catalogue& catalogue) = 0;
  virtual absl::Status Commit(const scr::Descriptor& descriptor,
                              const std::vector<catalogue::Catalogue>& catalogues) = 0;
  virtual absl::Status Remove(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) = 0;
  virtual void MakeView(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) = 0;
};

// As Publish of publish.h.
absl::Status Publish(Disk& disk, PublishRecords& records, const Publication& what, Published* published);

// Step 7. What cannot be removed is told in `warnings`.
void RemoveWithdrawn(PublishRecords& records, const Withdrawn& withdrawn, std::vector<std::string>* warnings);

// Looks at the directories of the application's files, each once.
//   kFailedPrecondition  a link leads out of the prefix, or something else is in the way (storage/place/prefix/place.h)
absl::Status CheckDirectories(Disk& disk, const std::string& prefix,
                              const std::vector<catalogue::Catalogue>& catalogues);

// Looks at the places of files that wait. Answers the names, below the prefix, that others have now.
//   kFailedPrecondition  a directory is in the way
absl::StatusOr<std::set<std::string>> NamesInTheWay(Disk& disk, const std::string& prefix,
                                                    const std::vector<CopiedFile>& files);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PUBLISH_PROTOCOL_H_
