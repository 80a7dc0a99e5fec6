// A run's directory on the parallel file system: identity, launches, ids, committed datasets and SCR's index.
//
//   .cairn/run, run.<k>, launch.<n>, launch.<n>.base, leases, ids.<n>             (0700)
//   .scr/index.scr, flush.scr, nodes.scr, .scr/scr.dataset.<id>/{rank2file*, summary.scr, commit.cairn}
//   ckpt.<id>/Ckpt<id>-Rank<r>.fti, ckpt.<id>/rank_<r>.cat; the application's own files under their own names
//   ckpt.<id>.bp/                               the same as BP5 shows it (storage/place/view)
//
// Order of a commit: data (by transfer/), rank2file parts and root, summary.scr, commit.cairn (exclusive link), a look
// whether it counts (launches.h), index.scr, view. Of files whose names others have: commit.cairn and the look come
// first, then the files (placing.h). Removal: mark and look, if it is by policy; index entry,
// commit.cairn renamed to removed.cairn, sync, view, bytes. All calls block: I/O pool.
//
// commit.cairn is the truth; the index is merged from it, never made anew: foreign entries, unknown keys, CURRENT,
// FAILED and FETCHED stay, and so does the removal of an entry by SCR's own tools (the index keeps a list
// CAIRN_COMMITTED of what was merged). What a crash left out is merged, and a removal that it cut short is
// finished, at the next Committed.
//
// Thread-safe. Index, flush file and nodes file may be changed by any number of processes on any nodes at the same time
// (changed_file.h).
#ifndef CAIRN_STORAGE_PLACE_PREFIX_PREFIX_H_
#define CAIRN_STORAGE_PLACE_PREFIX_PREFIX_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter_record.h"
#include "storage/place/prefix/id_blocks.h"
#include "storage/place/prefix/identity.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/launches.h"
#include "storage/place/prefix/lease.h"
#include "storage/place/prefix/placing.h"
#include "storage/place/prefix/settled.h"
#include "storage/place/prefix/waiting.h"

namespace cairn {

struct CommittedDataset {
  scr::Descriptor
      descriptor;         // of SCR's own, too: with ranks, step (its number as a checkpoint, else its id), own_files
  bool current = false;   // SCR's CURRENT names it
  bool by_cairn = false;  // has commit.cairn
};

// What a restart may choose from.
struct PrefixContents {
  std::map<DatasetId, CommittedDataset> datasets;  // as Prefix::Committed
  // Committed by Cairn under a launch, after a newer one had been made: whole, restorable by number, chosen by nobody.
  std::map<DatasetId, CommittedDataset> fenced;
  // No checkpoint newer than this one is to be chosen, here or in a cache, until one is committed; 0: no bound. From a
  // CURRENT that was set back.
  DatasetId bound = 0;
  std::int64_t bound_set_us = 0;         // what was made after this may be chosen all the same; 0: not known
  std::set<DatasetId> dropped;           // committed by Cairn, and taken out of the index
  std::set<DatasetId> removed;           // with their bytes, for good
  std::set<DatasetId> failed;            // marked FAILED
  std::set<DatasetId> refused;           // of those, by MarkRefused or SCR: the application could not use it, whichever
                                         // copy it is
  std::map<DatasetId, std::string> bad;  // SCR's own, complete by the index, that are not whole: why
  // All of SCR's own that the index has, whatever has become of them: their numbers are theirs.
  std::map<DatasetId, scr::IndexEntry> scrs;
};

struct PrefixOptions {
  // Between looks at a record that SCR may be writing just now, and is not whole (settled.h).
  Pause pause = {};
  // Where this node has last seen runs (identity.h). A copy of another's directory becomes a branch.
  identity::KnownPath known = {};
  // Borrowed until Open returns. OpenReadOnly asks no arbiter: it shows the leases that lie in the prefix, if any.
  const Arbiters* arbiters = &PrefixArbiters();
};

class Prefix {
 public:
  // Opens `path` (absolute, symbolic links resolved by the caller), making it and the run's identity if need be.
  // Old work files among its records go (storage/place/prefix/stale_work.h).
  //   kPermissionDenied    not writable, or .cairn belongs to another user or is open to others
  //   kFailedPrecondition  the run's arbiter is another than `arbiters` has (arbiter/arbiter_record.h)
  static absl::StatusOr<std::unique_ptr<Prefix>> Open(Disk& disk, const std::string& path,
                                                      const PrefixOptions& options = {});
  // Only looks: kNotFound if there is neither .cairn/run nor .scr/index.scr. Calls that change something are refused
  // with kPermissionDenied. The identity is all zeros if there is none, or it may not be read.
  static absl::StatusOr<std::unique_ptr<Prefix>> OpenReadOnly(Disk& disk, const std::string& path,
                                                              const PrefixOptions& options = {});
  // Which run lives there, by .cairn alone. kNotFound: none.
  static absl::StatusOr<RunId> RunAt(Disk& disk, const std::string& path);
  virtual ~Prefix() = default;

  virtual const std::string& path() const = 0;
  virtual const RunIdentity& identity() const = 0;
  const RunId& run() const { return identity().run; }

  // The identity as it is on disk now: kNotFound if the prefix was removed, another one if it was made anew.
  virtual absl::StatusOr<RunId> CurrentRun() = 0;

  // The newest launch, if any. kDataLoss: its record is damaged; MakeLaunch goes past it.
  virtual absl::StatusOr<std::optional<LaunchRecord>> NewestLaunch() = 0;
  virtual absl::StatusOr<LaunchRecord> FindLaunch(LaunchId id) = 0;  // kNotFound, kDataLoss
  // By the mark that its datasets carry (storage/base/launch_mark.h). kNotFound.
  virtual absl::StatusOr<LaunchRecord> FindLaunchByMark(const std::string& mark) = 0;
  // A new one, as Launches::Make; `wanted.run` is filled in here.
  virtual absl::StatusOr<LaunchRecord> MakeLaunch(NewLaunch wanted, std::optional<LaunchId> after = {}) = 0;
  // One may act under it (Launches::EnsureBase).
  virtual absl::Status EnterLaunch(LaunchId id) = 0;
  // The next launch after `id`, by a look that comes from the server; none: it is the newest.
  virtual absl::StatusOr<std::optional<LaunchRecord>> LaunchAfter(LaunchId id) = 0;
  // Whose is a dataset in a cache, by the launch and the mark that it carries? kOurs: the launch is here, with the same
  // secret. kAbandoned: it is, and nothing of it counts (LaunchRecord::abandoned). kAnothers: it was made under another
  // directory's launch, or after this one was copied or restored.
  enum class Origin : std::uint8_t { kOurs, kAbandoned, kAnothers };
  virtual absl::StatusOr<Origin> OriginOf(LaunchId launch, const std::string& mark) = 0;

  // Who works under the launch (lease.h). By a look that comes from the server; none: nobody has said so.
  virtual absl::StatusOr<std::optional<LeaseSeen>> FindLease(LaunchId launch) = 0;
  virtual absl::StatusOr<LeaseRecord> MakeLease(LeaseRecord record) = 0;  // the run and the epoch are filled in here
  virtual absl::Status WriteLease(const LeaseRecord& record) = 0;

  // The run's arbiter, for what its nodes decide among themselves; launches, leases and ids are the calls here. As long
  // as the prefix. REQUIRES: not read-only.
  virtual Arbiter& arbiter() = 0;

  // Reserves the next block of ids above `above` and above everything that the prefix knows: [first, first + count).
  // kResourceExhausted: SCR and FTI keep ids in an int, so they end at 2^31 - 1.
  using IdBlock = cairn::IdBlock;
  virtual absl::StatusOr<IdBlock> ReserveIds(DatasetId above, std::uint64_t count = id_blocks::kBlock) = 0;
  virtual absl::Status ReturnIds(const IdBlock& rest) = 0;  // of the newest block: they are given out again

  // Committed, restorable datasets (COMPLETE 1, no FAILED), by id. Cairn's own by their commit.cairn; SCR's by index,
  // summary and rank2file, the newest of them also by a look at each file (what is left out is warned of). A damaged
  // index is moved aside and merged anew from what was committed. Merges (not if read-only).
  virtual absl::StatusOr<std::map<DatasetId, CommittedDataset>> Committed() = 0;
  // The same and what goes with it, from one look.
  virtual absl::StatusOr<PrefixContents> Contents() = 0;
  // Where CURRENT was set back, as the index says it now.
  using SetBack = index_rules::SetBack;
  virtual absl::StatusOr<std::vector<SetBack>> SetBacks() = 0;
  // A committed dataset's catalogues, all ranks, each checked. Those of SCR's own are made by reading all its files
  // once: launch 0, files, each under its path below the prefix.
  //   kNotFound  no such dataset; kDataLoss  damaged, or a file is missing: the message names it
  virtual absl::StatusOr<std::vector<catalogue::Catalogue>> Catalogues(DatasetId id) = 0;

  // SCR's own dataset of this descriptor, which lies in a cache: has it been here, whole, and did someone take it out
  // of the index since, or an application under SCR refuse it? Told by its number and the time when it was made.
  virtual absl::StatusOr<bool> WasTakenOut(const scr::Descriptor& scrs) = 0;

  // Absolute path of a rank's file in the prefix (`prefix_name` of its catalogue entry).
  virtual std::string FilePath(const std::string& prefix_name) const = 0;
  virtual std::string CataloguePath(DatasetId id, Rank rank) const = 0;  // ckpt.<id>/rank_<r>.cat

  // Writes ckpt.<id>/rank_<r>.cat, synced. The same again: OK.
  virtual absl::Status StoreCatalogue(const catalogue::Catalogue& catalogue) = 0;

  // A flush begins: SCR's index gets an entry with COMPLETE 0, which nothing restores. There already: OK.
  //   kAlreadyExists  the dataset is committed
  //   kAborted        it cannot be committed any more: it was removed, or SCR has given out its id again (TakenByScr)
  virtual absl::Status BeginFlush(const scr::Descriptor& descriptor) = 0;
  // Files of these names are about to be replaced by those of dataset `by`: every committed dataset of the
  // application's files that has one of them is taken out, durably, before. Its own files stay; Remove takes them.
  // SCR's own, which have no catalogues, are COMPLETE no more and are not to be removed. Answers whom, with their
  // catalogues. Nobody gives way to what cannot be committed, for Commit's reasons.
  // `committer`: the launch under which this is done; 0: it is the user's will.
  //   kAborted  `by` comes too late: a newer dataset has such a name, it was removed, or its id is SCR's now
  //   IsFenced  a newer launch was made before (launches.h): nobody gave way
  virtual absl::StatusOr<std::map<DatasetId, std::vector<catalogue::Catalogue>>> Withdraw(
      DatasetId by, const std::set<std::string>& names, LaunchId committer = 0) = 0;

  // Commits a dataset of the application's files whose files wait on the prefix, whole and synced (waiting.h), and
  // brings them to their names, which others may have: these give way once it is committed, not before, so that at each
  // instant one of them can be restored (placing.h). What remains after an error is finished by the next Contents, if
  // it was committed. Status as ReplaceDatasets; `committer`: as Withdraw's.
  virtual absl::Status Replace(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                               LaunchId committer, Replacement* replacement) = 0;
  // Files of a committed dataset that are not under their names yet: by name below the prefix, where each waits now.
  // Nearly always none. Who may write brings them there at each Contents; who only reads finds them here, and under
  // their names as soon as they are not here any more.
  virtual absl::StatusOr<WaitingFiles> Waiting(const std::vector<catalogue::Catalogue>& catalogues) = 0;
  // All files are in place and synced; catalogues that are not are stored. Writes records in their order; a second
  // commit is kAlreadyExists if the dataset is committed, kFailedPrecondition if it was removed; kAborted: SCR has
  // given out its id again. `catalogues`: all ranks of the dataset, by rank (kInvalidArgument). FILES and SIZE are
  // counted here, the catalogues with them, as SCR would. CURRENT names the dataset afterwards, if it is a checkpoint
  // and newer than the one that CURRENT named. A FAILED that MarkFailed has set goes, also if it is committed already:
  // its files are whole now.
  // `committer`: as Withdraw's. IsFenced: it is there, whole, but a newer launch was made before that does not count
  // it.
  virtual absl::Status Commit(const scr::Descriptor& descriptor, const std::vector<catalogue::Catalogue>& catalogues,
                              LaunchId committer = 0) = 0;
  // Makes the BP5 view of a committed dataset, or makes it anew; the application's own files have none. `catalogues`:
  // as Commit's. What goes wrong is no harm to the dataset: it is a warning (TakeWarnings).
  virtual void MakeView(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) = 0;
  // Makes views that committed datasets with ids below `below` do not have, newest first, at most `at_most`; warnings
  // as MakeView. Answers where to go on: ids below that are left; 0: none.
  virtual absl::StatusOr<DatasetId> MakeMissingViews(DatasetId below, std::size_t at_most) = 0;
  // Removes a committed or half-flushed dataset as ordered above; only files that its catalogues name, and of those not
  // what another committed dataset has under the same name. Nothing there: OK; after an error it may be called again.
  // Directories that are empty then go, too. kFailedPrecondition: the dataset is SCR's own.
  // `committer`: as Withdraw's, of a removal by policy. IsFenced: nothing was removed.
  virtual absl::Status Remove(DatasetId id, const std::vector<catalogue::Catalogue>& catalogues,
                              LaunchId committer = 0) = 0;
  // The user has removed a dataset that is not committed here, wherever it is: durably. It cannot be committed any
  // more, and who has something of it in a cache lets go of that. kFailedPrecondition: it is committed.
  virtual absl::Status NoteRemovedByUser(DatasetId id) = 0;
  virtual absl::StatusOr<bool> WasRemovedByUser(DatasetId id) = 0;
  // Marks a dataset FAILED in the index: a restart from it failed on the prefix' bytes, another copy may be whole
  // (SCR's own FAILED says that of no copy: PrefixContents::refused). If CURRENT named it, none is current. kNotFound:
  // it is not in the index.
  virtual absl::Status MarkFailed(DatasetId id) = 0;
  // Marks it FAILED as SCR does: the application could not use it, whichever copy it was. CURRENT as above. It stays so
  // until someone adds it to the index again. kNotFound: it is not in the index, or not complete there.
  virtual absl::Status MarkRefused(DatasetId id) = 0;
  // Notes in the index that a restart reads the dataset from the prefix now. kNotFound.
  virtual absl::Status MarkFetched(DatasetId id) = 0;

  // SCR's flush file: where a dataset is now (CACHE, FLUSHING, PFS).
  virtual absl::Status PutFlush(DatasetId id, const scr::FlushEntry& entry) = 0;
  virtual absl::Status EraseFlush(DatasetId id) = 0;
  // SCR's nodes file: how many nodes the run uses.
  virtual absl::Status PutNodes(std::uint32_t nodes) = 0;
  // Several entries at once, those of `node` (a text of the caller's, kept with each); nullopt: it goes. `only_these`:
  // all others of that node go, too. SCR's own and other nodes' entries stay.
  virtual absl::Status UpdateFlushFile(std::string_view node,
                                       const std::map<DatasetId, std::optional<scr::FlushEntry>>& entries,
                                       bool only_these) = 0;

  // What was found damaged and moved aside or left out, and views that could not be made, since the last call, for log
  // and `cairn status`.
  virtual std::vector<std::string> TakeWarnings() = 0;

  // From now on a long index.scr is not written anew with each change (changed_file.h): all that is Cairn's reads it as
  // it should be, SCR and its tools after IndexCatchUp. Who asks for this calls that when it is behind, and at his end.
  virtual void LeaveIndexBehind() = 0;
  virtual std::uint64_t IndexBehind() const = 0;  // a number that grows with each such change; 0: it is not
  virtual absl::Status IndexCatchUp() = 0;
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_PREFIX_H_
