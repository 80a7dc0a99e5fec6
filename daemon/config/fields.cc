#include "daemon/config/fields.h"

#include <algorithm>

#include "storage/base/transfer_shape.h"

namespace cairn {
namespace {

constexpr std::uint64_t kLeaseTermMsMin = 1000;
// An opening waits for up to two terms. The longest is a sixth of what a lease can say (coordinator_lease::kTermMax).
constexpr std::uint64_t kPeersTermMsMin = 1000, kPeersTermMsMax = 600'000;
constexpr std::uint64_t kDayMs = 86'400'000;
// At half of this one piece of a copy takes half a minute.
constexpr std::uint64_t kBesideCapturesMin = 1'000'000;

#define CAIRN_FIELD_PLACE_(type, member) +[](Config& config) -> type* { return &config.member; }
#define CAIRN_TEXT_(member) CAIRN_FIELD_PLACE_(std::string, member)
#define CAIRN_U64_(member) CAIRN_FIELD_PLACE_(std::uint64_t, member)
#define CAIRN_U32_(member) CAIRN_FIELD_PLACE_(std::uint32_t, member)
#define CAIRN_BOOL_(member) CAIRN_FIELD_PLACE_(bool, member)

using enum FieldKind;

const Field kFields[] = {
    {"runtime_dir", kPath,
     "folder of the sockets and the lock, made with mode 0700; empty: $XDG_RUNTIME_DIR/cairn, as root /run/cairn, else "
     "/tmp/cairn-<uid>; for all users: /run/cairn, with a folder for each",
     CAIRN_TEXT_(runtime_dir)},
    {"threads", kNumber, "threads of each pool; 0: as many as cores, at most 8", CAIRN_U32_(threads), 0, 256},
    {"call_deadline", kDuration, "how long a client's call may take that names no deadline of its own",
     CAIRN_U64_(call_ms_default), 1, kDayMs},
    {"quiesce", kDuration, "on SIGTERM: at most so long to bring captured datasets to `local`; can be reloaded",
     CAIRN_U64_(quiesce_ms), 0, kDayMs},
    {"log_level", kText, "trace, debug, info, warn, error or off", CAIRN_TEXT_(log_level)},
    {"log_file", kPath, "empty: standard error", CAIRN_TEXT_(log_file)},
    {"cache.path", kPath,
     "the node-local cache, on an SSD if there is one; empty: $CAIRN_CACHE, else /var/tmp/cairn-<uid>/cache; "
     "for all users: /var/cache/cairn",
     CAIRN_TEXT_(cache.path)},
    {"cache.bytes_max", kSize,
     "0: 90 % of the file system; for all users: of each user's cache; 0: the user's share (supervisor.shares); can be "
     "reloaded",
     CAIRN_U64_(cache.bytes_max)},
    {"cache.reserve", kSize,
     "free space of the cache's file system that is left to others, whatever cache.bytes_max says; an application's "
     "own "
     "files are judged by those of its last dataset, the first of a run not at all; 0: none; for all users: 5 % of it; "
     "can be reloaded",
     CAIRN_U64_(cache.reserve)},
    {"cache.keep", kNumber,
     "whole checkpoints kept per run beyond the newest; while a new one is written over the files of the oldest, one "
     "fewer; can be reloaded",
     CAIRN_U32_(cache.keep)},
    {"cache.linger", kDuration,
     "how long a finished run's datasets that are on the prefix stay cached; 0: until room is needed",
     CAIRN_U64_(cache.linger_ms)},
    {"cache.grace", kDuration,
     "how long the cache keeps at least what it has of a run whose prefix is gone; afterwards that leaves it, oldest "
     "first, when room is needed; 0: it stays until it is removed by hand; can be reloaded",
     CAIRN_U64_(cache.grace_ms), 0, 3650 * kDayMs},
    {"cache.keep_damaged", kDuration,
     "how long copies that were found damaged are kept aside in the cache, for someone to look at; they go earlier, "
     "oldest first, when room is needed; 0: only then; can be reloaded",
     CAIRN_U64_(cache.keep_damaged_ms), 0, 3650 * kDayMs},
    {"cache.direct", kSwitch, "direct I/O where the file system has it", CAIRN_BOOL_(cache.direct)},
    {"cache.probe", kSwitch,
     "measure once, in the background when nothing is written, which sizes and depth of transfers the cache's disk "
     "needs; direct I/O only",
     CAIRN_BOOL_(cache.probe)},
    {"cache.write_bytes", kSize, "of one write to the cache, a power of two from 256KiB to 16MiB; 0: as measured",
     CAIRN_U64_(cache.write_bytes), 0, TransferShape::kBytesMax},
    {"cache.write_depth", kNumber, "such writes of one file at once; 0: as measured", CAIRN_U32_(cache.write_depth), 0,
     TransferShape::kDepthMax},
    {"cache.read_bytes", kSize, "of one read of a restore from the cache, as cache.write_bytes; 0: as measured",
     CAIRN_U64_(cache.read_bytes), 0, TransferShape::kBytesMax},
    {"cache.read_depth", kNumber, "such reads of one restore at once; 0: as measured", CAIRN_U32_(cache.read_depth), 0,
     TransferShape::kDepthMax},
    {"cache.bypass", kSwitch,
     "a dataset that finds no room in the cache goes straight to the prefix; false: it waits for flushes that make "
     "room, or "
     "is refused",
     CAIRN_BOOL_(cache.bypass)},
    {"cache.node", kText,
     "this node's name; a cache that was made under another name is refused without --take-cache; empty: the host name",
     CAIRN_TEXT_(cache.node)},
    {"image.bytes_max", kSize,
     "shared memory for checkpoints on their way to the cache; 0: 25 % of the memory, or of "
     "what its control groups leave to the daemon; for all users: of each user; 0: the user's share "
     "(supervisor.shares)",
     CAIRN_U64_(image.bytes_max)},
    {"image.linger", kDuration,
     "how long the last checkpoint's image stays in memory for a restart once its application is gone",
     CAIRN_U64_(image.linger_ms), 0, kDayMs},
    {"image.read_ahead", kSwitch,
     "when a rank's session opens and the cache does not have its file of the newest checkpoint, that is read from "
     "another node or the prefix into memory, as far as there is room, before it is asked for; can be reloaded",
     CAIRN_BOOL_(image.read_ahead)},
    {"flush.every", kNumber,
     "every so many-th checkpoint of a launch goes to the prefix; 0: none by itself; can be reloaded",
     CAIRN_U32_(flush.every)},
    {"flush.every_redundant", kNumber,
     "every so many-th checkpoint that is redundant goes to the prefix (redundancy.scheme); one that cannot become "
     "redundant goes by flush.every; 0: all go by flush.every; can be reloaded",
     CAIRN_U32_(flush.every_redundant)},
    {"flush.superseded", kChoice,
     "a waiting flush of a checkpoint that a newer one supersedes: skip drops it, keep does not; can be reloaded",
     CAIRN_BOOL_(flush.superseded), 0, 0, "skip", "keep"},
    {"flush.bandwidth", kRate, "limit of all flushes together; 0: none; can be reloaded",
     CAIRN_U64_(flush.bytes_per_s)},
    {"flush.parallel", kNumber, "datasets flushed at the same time, up to four files of each; can be reloaded",
     CAIRN_U32_(flush.parallel), 1, 64},
    {"flush.retry_min", kDuration, "pause after the first failure of a flush; doubles with each; can be reloaded",
     CAIRN_U64_(flush.retry_ms_min), 1, kDayMs},
    {"flush.retry_max", kDuration, "the longest pause between two tries; can be reloaded",
     CAIRN_U64_(flush.retry_ms_max), 1, kDayMs},
    {"flush.stalled", kDuration,
     "a flush that has not got on for so long hangs with its file system, and no longer counts for flush.parallel; can "
     "be reloaded",
     CAIRN_U64_(flush.stalled_ms), 1, kDayMs},
    {"flush.follow", kDuration,
     "how often the BP5 directories of an output begun with CAIRN_GROWING are looked at for complete steps; can be "
     "reloaded",
     CAIRN_U64_(flush.follow_ms), 1, kDayMs},
    {"background.beside_captures", kRate,
     "limit of all copying together that nobody waits for (flushes, copies and parity for other nodes, datasets made "
     "anew in the cache, drains, but for reading back what these have written) while checkpoints are captured or "
     "restored here, which go first: they use the same disk and memory; at least 1MB/s; 0: none; can be reloaded",
     CAIRN_U64_(background.beside_captures), kBesideCapturesMin},
    {"background.io_priority", kText,
     "I/O priority of these, but for drains, which have their own, where the disk's scheduler heeds it (cairn doctor): "
     "none, as the rest of the daemon; idle, after all others; or best-effort:0, first, to best-effort:7, last; 4 is "
     "what others have",
     CAIRN_TEXT_(background.io_priority)},
    {"checkpoint.every", kNumber,
     "cairn_need_checkpoint says yes at every so many-th call; 0: not by count; can be reloaded",
     CAIRN_U32_(checkpoint.every)},
    {"checkpoint.interval", kDuration, "... so long after the last one began; 0: not by time; can be reloaded",
     CAIRN_U64_(checkpoint.interval_ms)},
    {"checkpoint.overhead", kNumber,
     "... while one more leaves their share of the launch's time below so many percent; 0: not by cost; can be "
     "reloaded",
     CAIRN_U32_(checkpoint.overhead_percent), 0, 100},
    {"checkpoint.mtbf", kDuration,
     "... at the best interval for the measured cost and this mean time between failures of one node; 0: not known; "
     "can be reloaded",
     CAIRN_U64_(checkpoint.mtbf_ms)},
    {"checkpoint.when_busy", kChoice,
     "what cairn_need_checkpoint says of a checkpoint that comes due before the last one is `local`: wait: yes, and "
     "cairn_checkpoint may have to wait for memory; skip: no, and yes once the last one is `local`; can be reloaded",
     CAIRN_BOOL_(checkpoint.skip_when_busy), 0, 0, "wait", "skip"},
    {"ftiff.layout", kChoice,
     "format of checkpoint files: F, what FTI writes today, or A, what FTI 1.1 (2018) writes and its documentation "
     "shows; A is slower; can be reloaded",
     CAIRN_BOOL_(ftiff.layout_a), 0, 0, "F", "A"},
    {"ftiff.packing", kChoice,
     "how variables lie in a checkpoint file: aligned is fast, exact leaves no gaps and grows files as FTI does; both "
     "can be read by FTI; can be reloaded",
     CAIRN_BOOL_(ftiff.exact), 0, 0, "aligned", "exact"},
    {"ftiff.differential", kSwitch,
     "write only what changed, into the file of an older checkpoint that cache.keep would delete once the new one is "
     "whole; at least one stays for this, even if cache.keep is 0; false: write all of it, into such a file if there "
     "is "
     "one; not with layout A; can be reloaded",
     CAIRN_BOOL_(ftiff.differential)},
    {"prefix.keep_last", kNumber,
     "so many newest checkpoints stay on the prefix, not counting those behind which CURRENT was set back; 0: all; can "
     "be "
     "reloaded",
     CAIRN_U32_(prefix.keep_last)},
    {"prefix.keep_every", kNumber,
     "checkpoints whose step is a multiple of this stay on the prefix as well; 0: none; can be reloaded",
     CAIRN_U32_(prefix.keep_every)},
    {"prefix.views", kSwitch,
     "beside each checkpoint ckpt.<id> a directory ckpt.<id>.bp shows its variables to ADIOS2's tools, without a copy",
     CAIRN_BOOL_(prefix.views)},
    {"lease.term", kDuration,
     "when a daemon has shown no sign of life for so long, a daemon elsewhere may start a newer launch of its run; "
     "signs are written to the prefix every sixth of this",
     CAIRN_U64_(lease.term_ms), kLeaseTermMsMin, kDayMs},
    {"slurm.squeue", kText,
     "where it is there, it is asked whether the job of an older launch is over: then the end of its lease is not "
     "waited for; looked for in PATH; empty: not asked",
     CAIRN_TEXT_(slurm.squeue)},
    {"arbiter.kind", kChoice,
     "who decides which of several nodes was first, to make a launch or to take ids: prefix, the run's own folder on "
     "the "
     "parallel file system, or etcd; a run keeps the one it began with (`cairn run arbiter`)",
     CAIRN_BOOL_(arbiter.etcd), 0, 0, "prefix", "etcd"},
    {"arbiter.endpoints", kText, "of etcd: https://host:port, several with commas between them",
     CAIRN_TEXT_(arbiter.endpoints)},
    {"arbiter.tls_ca", kPath, "PEM file: authority that etcd's certificates are checked against",
     CAIRN_TEXT_(arbiter.tls_ca)},
    {"arbiter.tls_cert", kPath, "PEM file: certificate that is shown to etcd", CAIRN_TEXT_(arbiter.tls_cert)},
    {"arbiter.tls_key", kPath, "PEM file: its private key", CAIRN_TEXT_(arbiter.tls_key)},
    {"ingest.listen", kText,
     "host:port for clients on other hosts (gRPC), or host:first-last, of which the first free port is taken; for all "
     "users: a range, of which each user's worker takes one; empty: no TCP",
     CAIRN_TEXT_(ingest.listen)},
    {"ingest.name", kText,
     "name or address of this node that is told to clients of its runs (CAIRN_ADDRESS=grpc+run:); empty: the host of "
     "ingest.listen, or the host name if that stands for any",
     CAIRN_TEXT_(ingest.name)},
    {"ingest.announce", kText,
     "a folder in whose .cairn clients are told where this daemon is, as in the folders of its runs, so that they find "
     "it before the first of these is opened on the node; ~: the user's home; empty: none",
     CAIRN_TEXT_(ingest.announce)},
    {"ingest.tls_ca", kPath,
     "PEM file: authority that the clients' certificates are checked against; empty: the daemon makes keys of its own "
     "and tells them in the folder of each run, .cairn, which only its user can read; for all users: always so",
     CAIRN_TEXT_(ingest.tls_ca)},
    {"ingest.tls_cert", kPath, "PEM file: the daemon's certificate", CAIRN_TEXT_(ingest.tls_cert)},
    {"ingest.tls_key", kPath, "PEM file: the daemon's private key", CAIRN_TEXT_(ingest.tls_key)},
    {"ingest.insecure_loopback", kSwitch, "listen without TLS, on a loopback address only",
     CAIRN_BOOL_(ingest.insecure_loopback)},
    {"ingest.resume", kDuration, "how long the session of a broken stream is kept", CAIRN_U64_(ingest.resume_ms), 0,
     kDayMs},
    {"peers.interface", kText,
     "network interface, or an address of this node, where the daemons of other nodes reach this one; empty: no links "
     "between nodes",
     CAIRN_TEXT_(peers.interface)},
    {"peers.ports", kText, "first and last port that may be listened on; the first free one is taken",
     CAIRN_TEXT_(peers.ports)},
    {"peers.tls_ca", kPath,
     "PEM file: a site's own authority for the links; empty: each run's own, which it keeps in its .cairn",
     CAIRN_TEXT_(peers.tls_ca)},
    {"peers.tls_cert", kPath, "PEM file: this node's certificate of that authority, for servers and clients",
     CAIRN_TEXT_(peers.tls_cert)},
    {"peers.tls_key", kPath, "PEM file: its private key", CAIRN_TEXT_(peers.tls_key)},
    {"peers.munge", kText,
     "require: a peer must show by MUNGE that it runs as the same user; auto: what it shows must be right; off: MUNGE "
     "is not asked",
     CAIRN_TEXT_(peers.munge)},
    {"peers.term", kDuration,
     "after so long without a sign of life of the coordinating daemon another takes over; any daemon counts as missing "
     "after half of it, as gone after three",
     CAIRN_U64_(peers.term_ms), kPeersTermMsMin, kPeersTermMsMax},
    {"peers.explicit", kText,
     "daemons that are asked for the others besides those that the run's folder names: address:port, several with "
     "commas between them",
     CAIRN_TEXT_(peers.fixed)},
    {"peers.fan_in", kNumber,
     "so many other daemons have a link to this one in each tree of daemons, at most; further ones go by way of these",
     CAIRN_U32_(peers.fan_in), 2, 1024},
    {"redundancy.scheme", kText,
     "how a checkpoint outlives the loss of nodes before it is on the prefix: single, not at all; partner, a copy on "
     "another node; xor, of each set of nodes one may be lost; rs, redundancy.checksums may be; xor:k+1, rs:k+m, the "
     "same with sets of k + m ranks at least, not over fewer nodes, of which m may be lost; folder, a copy in "
     "redundant.path, which single means, too, where that is set; what an application asks for counts more "
     "(CAIRN_REDUNDANCY); can be reloaded",
     CAIRN_TEXT_(redundancy.scheme)},
    {"redundancy.members", kNumber,
     "ranks on different nodes that protect each other with xor or rs, at least, where there are so many, unless "
     "redundancy.scheme says it; can be reloaded",
     CAIRN_U32_(redundancy.members), 2, 64},
    {"redundancy.checksums", kNumber,
     "with rs: so many of a set may be lost, unless redundancy.scheme says it; can be reloaded",
     CAIRN_U32_(redundancy.checksums), 1, 63},
    {"redundancy.group", kText,
     "nodes that say the same may fail together, and do not protect each other: the name of a switch or a rack; empty: "
     "the host name",
     CAIRN_TEXT_(redundancy.group)},
    {"redundancy.bandwidth", kRate, "limit of what is read from other nodes to protect them; 0: none; can be reloaded",
     CAIRN_U64_(redundancy.bytes_per_s)},
    {"redundant.path", kPath,
     "a folder, the same on all nodes, of a file system that outlives the loss of nodes (DAOS, Ceph, Gluster, a burst "
     "buffer): what is verified there is `redundant`, and restored from there; best one inside of the mount, which is "
     "not there without it; empty: none",
     CAIRN_TEXT_(redundant.path)},
    {"redundant.apart", kSwitch,
     "not used while it is on the device of the cache or of /, as it is when its file system is not mounted",
     CAIRN_BOOL_(redundant.apart)},
    {"redundant.marked", kSwitch,
     "a run that has used such a folder uses no other one, nor one that is empty since its file system is not mounted: "
     "a mark tells; off: for a burst buffer that is new, and empty, in each job",
     CAIRN_BOOL_(redundant.marked)},
    {"supervisor.idle", kDuration,
     "started by root for all users: a user's worker that has had nothing to do for so long is ended; 0: never",
     CAIRN_U64_(supervisor.idle_ms), 0, 3650 * kDayMs},
    {"supervisor.workers_max", kNumber, "users who have a worker at the same time", CAIRN_U32_(supervisor.workers_max),
     1, 65536},
    {"supervisor.uid_min", kNumber, "users below this number are not served", CAIRN_U32_(supervisor.uid_min), 1},
    {"supervisor.cgroup", kText,
     "where each worker has a control group, if one of the limits below is set: auto, below the supervisor's own; a "
     "group's name such as /cairn; off, nowhere",
     CAIRN_TEXT_(supervisor.cgroup)},
    {"supervisor.memory_percent", kNumber,
     "limit of each worker's memory, of the machine's; without control groups of its private memory only; 0: none",
     CAIRN_U32_(supervisor.memory_percent), 0, 100},
    {"supervisor.cpu_weight", kNumber, "share of each worker where processors are short; 100 is what others have",
     CAIRN_U32_(supervisor.cpu_weight), 1, 10000},
    {"supervisor.io_weight", kNumber,
     "share of each worker where a disk is short, if the kernel shares it by weights (BFQ, or a cost model of the "
     "disk); 100 is what others have",
     CAIRN_U32_(supervisor.io_weight), 1, 10000},
    {"supervisor.tasks_max", kNumber, "limit of each worker's processes and threads; 0: none",
     CAIRN_U32_(supervisor.tasks_max)},
    {"supervisor.shares", kNumber,
     "the cache's file system, less cache.reserve, and 25 % of the memory, for images, are divided into so many "
     "shares; each user's worker has one of each; 1: where a job has the node to itself; more where more users are on "
     "it "
     "at a time",
     CAIRN_U32_(supervisor.shares), 1, 65536},
    {"supervisor.shares_of", kText, "users who have more than one share: alice=10,bob=2",
     CAIRN_TEXT_(supervisor.shares_of)},
    {"supervisor.projects", kNumber,
     "where the cache's file system has project quotas, the kernel limits each user's cache: the user's project is "
     "this "
     "number plus the uid; 0: no quota",
     CAIRN_U32_(supervisor.projects)},
};

constexpr OldName kOldNames[] = {
    {"flush.beside_captures", "background.beside_captures"},
};

}  // namespace

std::span<const Field> Fields() {
  return kFields;
}

const Field* FindField(std::string_view key) {
  const auto* field = std::ranges::find(kFields, key, &Field::key);
  return field == std::end(kFields) ? nullptr : field;
}

std::span<const OldName> OldNames() {
  return kOldNames;
}

const OldName* FindOldName(std::string_view old_key) {
  const auto* name = std::ranges::find(kOldNames, old_key, &OldName::old_key);
  return name == std::end(kOldNames) ? nullptr : name;
}

}  // namespace cairn
