// What the core keeps of one run, and of each session of it. Owned and touched by the strand only.
#ifndef CAIRN_DAEMON_CORE_RUN_H_
#define CAIRN_DAEMON_CORE_RUN_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/call.h"
#include "daemon/core/container_list.h"
#include "daemon/core/door.h"
#include "daemon/core/ledger.h"
#include "daemon/core/loop.h"
#include "daemon/core/restore_plan.h"
#include "daemon/core/steering.h"
#include "daemon/data/capture.h"
#include "daemon/data/restore.h"
#include "daemon/flusher/flush_file.h"
#include "storage/bpdir/follow.h"
#include "storage/cache/cache_folder.h"
#include "storage/prefix/bypass.h"
#include "storage/prefix/prefix.h"
#include "storage/transfer/transfer.h"

namespace cairn {

struct RestoreGroup;
struct FlushJob;
struct Session;
struct Run;

// One rank's protected memory on its way from Begin to `local`. Kept alive by the session, then by the capture.
struct PartWriter {
  std::shared_ptr<Run> run;
  std::shared_ptr<Dataset> dataset;
  Rank rank = 0;
  std::weak_ptr<Session> session;
  VariableList variables;
  std::shared_ptr<ContainerList> list;  // of this checkpoint
  std::shared_ptr<ContainerList> last;  // of the one before it; null: none, or not needed any more
  std::shared_ptr<const std::vector<PlanPiece>> plan;
  std::shared_ptr<Image> image;  // null: no bytes
  bool ring = false;
  ftiff::Letter letter = ftiff::Letter::kF;  // of its file
  std::string work_path;
  std::uint64_t begin_call = 0;                // Released replies carry its number
  std::weak_ptr<Connection> begin_connection;  // that the Begin came over
  std::shared_ptr<Capture> capture;            // from when the dataset's directory is there
  std::uint64_t filled = 0;                    // told before the capture was there
  bool committed = false;
  bool ended = false;           // failed or given up: nothing more comes of it
  std::uint64_t released = 0;   // windows of the ring, as told
  std::uint32_t digest = 0;     // over the pieces' CRCs (gRPC)
  std::shared_ptr<void> lease;  // of the dataset's folder
};

struct RoutedFile {
  std::string path;   // where it is written
  std::string given;  // the name as the application gave it
};

// A BP5 directory of an output that goes to the prefix while it grows.
struct GrowingDirectory {
  std::shared_ptr<bpdir::Follower> follower;  // null: left by a daemon before this one
  bool placed = false;                        // its place on the prefix is the dataset's
  bool given_up = false;                      // the place is someone else's by now
  bpdir::Followed followed;                   // as of the last look
  std::string error;                          // of it
};
struct Growth {
  std::map<std::string, GrowingDirectory> directories;  // by name below the prefix
  std::shared_ptr<TransferProgress> progress = std::make_shared<TransferProgress>();
  bool working = false;
  std::string error;                             // of taking places or of closing
  std::shared_ptr<FlushJob> too_late = nullptr;  // given up: removed once the directories are closed
};

// A file as it was when its output ended.
struct ListedFile {
  RoutedFile routed;
  FileInfo info;
};
using ListedFiles = std::map<std::string, ListedFile>;  // by normalized name

// A directory that ranks write into as they like.
struct RoutedDirectory {
  RoutedFile routed;
  std::set<Rank> ranks;  // that have routed it
};
// Those of one dataset. What is in them is taken when the last rank has ended the output.
struct RoutedDirectories {
  std::map<std::string, RoutedDirectory> by_name;
  std::set<Rank> ended;  // the output
  bool taken = false;
  std::map<Rank, ListedFiles> files;              // once they are taken: each the lowest rank's that routed it
  std::map<Rank, std::function<void()>> waiting;  // ranks whose own files are listed
};

// An open output of the application's own files.
struct FilesWriter {
  std::shared_ptr<Dataset> dataset;
  bool failed = false;
  bool ended = false;                        // what is routed now comes too late
  std::map<std::string, RoutedFile> routed;  // by normalized name
  bool has_directories = false;
  std::set<std::string> checked;  // directories below the prefix that are where they seem to be
  std::shared_ptr<void> lease;    // of the dataset's folder
};

struct Session {
  std::uint64_t id = 0;
  std::shared_ptr<Run> run;
  LaunchId launch = 0;
  Rank rank = 0;
  Connection::Peer peer;
  std::shared_ptr<Connection> connection;  // null: broken, may be resumed
  Loop::TimerId resume_timer = 0;
  bool ended = false;
  bool used = false;  // a request came after Open: the client has had the token
  // Its last request was the restore of this dataset, which all ranks ended well, and over which stream it was told.
  DatasetId restored = 0;
  std::weak_ptr<Connection> restored_over;

  bool observer = false;  // of no launch: only reads
  std::shared_ptr<PartWriter> writer;
  std::shared_ptr<FilesWriter> files;
  std::shared_ptr<RestoreGroup> reading;
  DatasetId last_output = 0;                            // ended by this session
  std::chrono::steady_clock::time_point held_up_since;  // by its last begin

  std::vector<std::shared_ptr<Image>> idle_images;
  std::deque<std::uint64_t> known_images;  // whose descriptor this connection has, the last named at the end
  // The plan as last told to this connection, so that an unchanged one need not travel again.
  std::shared_ptr<const std::vector<PlanPiece>> plan;
  std::shared_ptr<const ContainerList> plan_list;
  std::uint64_t plan_image_bytes = 0;
};

// One rank's restore within its launch's restore.
struct RestorePart {
  std::shared_ptr<Session> session;
  std::shared_ptr<Call> call;
  VariableList variables;
  std::vector<Wanted> wanted;          // of which ranks' files
  std::vector<RestoreSource> sources;  // as planned
  std::vector<Rank> source_ranks;
  std::vector<Tier> source_tiers;
  std::vector<RestorePiece> pieces;
  std::uint64_t image_bytes = 0;        // that hold all blocks of these
  std::shared_ptr<ContainerList> list;  // of the rank's own file; null: nothing is read from it
  std::shared_ptr<Image> image;
  std::shared_ptr<Restore> restore;
  std::uint32_t round = 0;  // of the plan that the client has
  std::uint64_t sent = 0;   // pieces sent as Pieces (gRPC)
  bool matched = false;
  bool planning = false;
  bool done = false;
  Tier tier = Tier::kNone;
};

// All ranks restore the same dataset, or none does. Or one session reads a part of one, for itself.
struct RestoreGroup {
  std::shared_ptr<Dataset> dataset;
  LaunchId launch = 0;
  bool read = false;
  bool alone = false;  // of one rank that did not hear that all had ended
  std::map<Rank, std::shared_ptr<RestorePart>> parts;
  std::set<std::pair<Rank, Tier>> bad;      // copies that could not be used
  std::set<std::pair<Rank, Tier>> damaged;  // those of them that never will be
  bool started = false;                     // all ranks have matched
  bool fetched = false;                     // noted in the prefix' index
  bool ended = false;
};

// A restore that was refused before some ranks had come to it.
struct RestoreRefusal {
  LaunchId launch = 0;
  DatasetId dataset = 0;
  local::Code code = local::OK;
  std::string message;
  std::set<Rank> ranks;  // that have not heard of it
};

// A dataset's directory in the cache is being made, or is there.
struct DirectoryState {
  bool ready = false;
  std::vector<std::function<void(absl::Status)>> waiting;
};

// A dataset's directory in the cache is being removed, or files in it set aside.
struct FolderChange {
  std::uint32_t pending = 0;
  std::vector<std::function<void()>> waiting;  // for all of them to end
};

// How it went to make a dataset anew in the cache.
struct Remade {
  absl::Status status;
  bool source_damaged = false;  // the prefix' copy of `rank`
  Rank rank = 0;
};

struct FlushJob {
  std::shared_ptr<Dataset> dataset;
  scr::Descriptor descriptor;  // with the catalogues what a try works with
  std::vector<catalogue::Catalogue> catalogues;
  std::shared_ptr<TransferProgress> progress;
  // kCopied: it waits for older ones to be copied and committed.
  enum class State : std::uint8_t { kWaiting, kCopying, kCopied, kCommitting, kBackingOff } state = State::kWaiting;
  std::vector<CopiedFile> copied;
  std::uint32_t tries = 0;
  std::string error;
  Loop::TimerId timer = 0;
  std::chrono::steady_clock::time_point started, retry_at;

  bool running() const { return state == State::kCopying || state == State::kCommitting; }
  bool in_flight() const { return running() || state == State::kCopied; }
};

struct KeptPart {
  std::shared_ptr<const KeptImage> kept;
  std::weak_ptr<Session> session;  // gets the image back
};

// The files that a new dataset's files start from (differential checkpoints).
struct Reuse {
  DatasetId base = 0;
  bool clone = false;                                           // they share extents; else they are the base's no more
  std::vector<catalogue::Catalogue> catalogues;                 // of the base, by rank
  std::map<Rank, std::shared_ptr<const BlockDigests>> digests;  // that are known
  std::map<Rank, CaptureBase> files;                            // ready for a capture, once the directory is there
};

// Of a rank's last checkpoint, or of the file that it has restored.
struct RankList {
  LaunchId launch = 0;
  std::shared_ptr<ContainerList> list;  // null: there is none
};

struct Run {
  explicit Run(Ledger::OnFailed on_failed) : ledger(std::move(on_failed)) {}

  RunId id;
  std::string name;  // last part of the prefix
  std::string prefix_path;
  std::shared_ptr<Prefix> prefix;  // null: gone or not reached yet
  bool prefix_read_only = false;   // an observer opened it, and nothing can be written there
  std::shared_ptr<CacheFolder> cache;
  bool adopted = false;           // what the prefix holds is in the ledger
  bool views_looked_at = false;   // those that are missing there are made
  DatasetId bound = 0;            // as the prefix was when it was last looked at, for the next launch: Launch::bound
  std::int64_t bound_set_us = 0;  // as PrefixContents
  std::map<DatasetId, std::string> bad;  // SCR's own there that are not whole: why
  std::set<DatasetId> taken_out;         // of the prefix' index, by someone else
  std::map<DatasetId, std::vector<std::function<void(absl::Status)>>> describing;  // whom to tell
  bool replaced = false;  // the prefix was made anew: this run is history
  Ledger ledger;
  Steering steering;
  Prefix::IdBlock ids, next_ids;  // `ids.first` is the next to be given out
  bool reserving = false;
  bool making_launch = false;
  std::vector<std::function<void()>> launch_waiters;  // decide once that launch is made
  DatasetId highest_id = 0;
  std::map<Rank, std::shared_ptr<Session>> sessions;  // of the newest launch
  std::set<std::shared_ptr<Session>> observers;
  std::map<DatasetId, DirectoryState> directories;
  std::map<DatasetId, std::map<Rank, std::shared_ptr<PartWriter>>> writers;  // until their capture has ended
  std::map<DatasetId, std::weak_ptr<void>> leases;  // of folders that something may still write to
  std::set<DatasetId> failed_folders;               // to be removed when their lease ends
  std::map<DatasetId, std::map<Rank, KeptPart>> kept;
  std::map<Rank, RankList> lists;
  DatasetId restored = 0;            // by the newest launch that restored one
  std::map<DatasetId, Reuse> reuse;  // by the new dataset, until it is whole or has failed
  std::map<DatasetId, std::map<Rank, std::shared_ptr<const BlockDigests>>> digests;  // of files in the cache
  DatasetId distrusted = 0;  // captures of datasets up to this one may have built upon damage
  std::map<DatasetId, std::shared_ptr<FlushJob>> flushes;
  std::set<DatasetId> flush_dropped;              // superseded before their flush began
  std::shared_ptr<Bypass> bypass;                 // made when the first dataset wants it
  std::set<DatasetId> bypassing;                  // until complete or removed
  std::uint32_t outgrown = 0;                     // a checkpoint of so many ranks turned out larger than the cache
  std::optional<std::uint64_t> last_files_bytes;  // of the last dataset of files
  std::set<DatasetId> begun;  // on the prefix, by a flush or past the cache, and not known to be committed
  std::shared_ptr<FlushFile> flush_file;
  bool flush_file_writing = false, flush_file_failed = false;
  std::set<DatasetId> asked;  // someone waits for `prefix`, or asked for the flush by name
  std::shared_ptr<RestoreGroup> restore;
  RestoreRefusal refused;                                   // the last one
  std::set<DatasetId> restored_files;                       // datasets of files that this launch has restored
  std::map<DatasetId, std::map<std::string, Rank>> routed;  // which rank writes which of the application's files
  std::map<DatasetId, RoutedDirectories> routed_directories;
  std::map<DatasetId, Growth> growing;  // from the begin of the output until all of it is committed or closed
  Loop::TimerId growing_timer = 0;
  std::optional<std::chrono::steady_clock::time_point> idle_since;  // no sessions
  bool record_storing = false, record_stale = false;                // flush.cairn
  std::vector<std::function<void(const absl::Status&)>> record_waiting;
  std::set<DatasetId> remake;  // their cached copy was damaged: fetch it anew from the prefix
  std::map<DatasetId, FolderChange> changing;
  std::map<DatasetId, std::vector<std::function<void(const Remade&)>>> remaking;  // whom to tell
  std::uint32_t removals = 0;                      // on the prefix, under way: no commit meanwhile
  std::vector<std::function<void()>> after_flush;  // removals that wait for a commit to end
  std::set<DatasetId> flushed;                     // by this incarnation
  std::set<DatasetId> pinned;                      // on the prefix only, as this node's record has it
  // Looked at after every change; true: answered, take it out.
  std::list<std::function<bool()>> watchers;
  std::size_t watchers_swept = 64;  // so many are looked through before one more is taken
};

}  // namespace cairn

#endif  // CAIRN_DAEMON_CORE_RUN_H_
