/* libcairn: hand an application's state to the checkpoint daemon on its node, and get it back. C11 and C++.
 *
 * A session is one rank's connection. All calls of a session come from one thread at a time; sessions are independent
 * of each other. Calls block at most as long as the session's deadline (cairn_options.deadline_ms; cairn_wait has its
 * own) and then return CAIRN_DEADLINE_EXCEEDED (CAIRN_UNAVAILABLE if no daemon answered all that time), saying so in
 * cairn_error. The library catches no signal, starts no thread unless CAIRN_COPY_THREADS is set, and prints nothing
 * unless CAIRN_LOG is (README.md in this folder). If the daemon dies, the next call connects to its successor; nothing
 * of the application needs to be restarted. After a fork the child's copy of a session answers CAIRN_FORKED: it opens
 * one of its own.
 *
 * Every function returns one of the CAIRN_ codes below. Protected memory is borrowed: it must stay valid until it is
 * unprotected, protected anew, or the session is closed. */
#ifndef CAIRN_H_
#define CAIRN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAIRN_API __attribute__((visibility("default")))

/* What a call says. The number is part of the interface. */
enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_NOT_FOUND = 1,            /* no such dataset, variable or file; cairn_resume, cairn_latest: nothing to restart
                                     from */
  CAIRN_INVALID_ARGUMENT = 2,     /* the call itself is wrong: cairn_error says what */
  CAIRN_FAILED_PRECONDITION = 3,  /* right call, wrong moment or another shape than stored */
  CAIRN_BUSY = 4,                 /* an older launch of the run is still alive: wait, or open with takeover */
  CAIRN_RETRY = 5,                /* the restore failed on some rank: call cairn_latest again, then restore that; or
                                     cairn_resume, which does */
  CAIRN_SUPERSEDED = 6,           /* the dataset was dropped: a newer one is safe (named in cairn_error) */
  CAIRN_FAILED = 7,               /* the dataset failed; the next checkpoint can work */
  CAIRN_FENCED = 8,               /* a newer launch of the run has taken over: stop */
  CAIRN_RESOURCE_EXHAUSTED = 9,   /* no room in the cache or for the image */
  CAIRN_DEADLINE_EXCEEDED = 10,   /* not done in time */
  CAIRN_UNAVAILABLE = 11,         /* no daemon answers */
  CAIRN_DATA_LOSS = 12,           /* damaged beyond what Cairn can repair */
  CAIRN_PERMISSION_DENIED = 13,
  CAIRN_UNSUPPORTED = 14,         /* e.g. waiting for `redundant` where there is no redundancy */
  CAIRN_FORKED = 15,              /* the session belongs to the parent process */
  CAIRN_INTERNAL = 16,            /* our bug */
  CAIRN_DIRTY = 17                /* some rank's protected memory may hold part of a restore that did not succeed:
                                     initialise and protect all variables anew, or restore */
};

/* Where a dataset's bytes are: see design in README.md. A dataset has a level when all ranks have it. */
enum cairn_level {
  CAIRN_LEVEL_NONE = 0,
  CAIRN_LEVEL_FROZEN = 1,
  CAIRN_LEVEL_CAPTURED = 2,       /* survives the death of the application */
  CAIRN_LEVEL_LOCAL = 3,          /* ... of the daemon, and a reboot */
  CAIRN_LEVEL_REDUNDANT = 4,      /* ... the loss of nodes */
  CAIRN_LEVEL_PREFIX = 5          /* ... the loss of the cluster */
};

/* Which copy served a restore. */
enum cairn_tier {
  CAIRN_TIER_NONE = 0,
  CAIRN_TIER_IMAGE = 1,
  CAIRN_TIER_CACHE = 2,
  CAIRN_TIER_PARTNER = 3, /* in part the cache of another node */
  CAIRN_TIER_REBUILT = 4,
  CAIRN_TIER_PREFIX = 5,
  CAIRN_TIER_REDUNDANT = 6 /* the folder that is redundant itself (redundant.path): nearer than the prefix */
};

/* Element types; the numbers are those of ADIOS2's BP5 format. CAIRN_BYTE is for opaque bytes. */
enum cairn_type {
  CAIRN_INT8 = 1,
  CAIRN_INT16 = 2,
  CAIRN_INT32 = 3,
  CAIRN_INT64 = 4,
  CAIRN_UINT8 = 5,
  CAIRN_UINT16 = 6,
  CAIRN_UINT32 = 7,
  CAIRN_UINT64 = 8,
  CAIRN_FLOAT = 9,
  CAIRN_DOUBLE = 10,
  CAIRN_LONG_DOUBLE = 11,
  CAIRN_COMPLEX_FLOAT = 12,
  CAIRN_COMPLEX_DOUBLE = 13,
  CAIRN_CHAR = 15,
  CAIRN_BYTE = CAIRN_UINT8
};

#define CAIRN_DIMS_MAX 8
#define CAIRN_NAME_MAX 256 /* bytes in cairn_stored_info.name, with the zero */
#define CAIRN_DATASET_NAME_MAX 1024 /* bytes of a dataset's name, with the zero: SCR's limit */

typedef struct cairn_session cairn_session;

/* Start with CAIRN_OPTIONS_INIT; zero or NULL means: the default in brackets. */
typedef struct cairn_options {
  size_t struct_size;    /* sizeof(cairn_options) */
  const char* prefix;    /* the run's directory on the parallel file system [$CAIRN_PREFIX] */
  int32_t rank;          /* [-1: $CAIRN_RANK, PMIX_RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID; alone: 0] */
  int32_t nranks;        /* [-1: $CAIRN_NRANKS, OMPI_COMM_WORLD_SIZE, SLURM_NTASKS; alone: 1] */
  const char* launch;    /* the same text on all ranks of one start, another one at the next start
                            [$CAIRN_LAUNCH, PMIx name space with job id, Slurm job, step and restart count; one rank: random] */
  const char* address;   /* unix:PATH, grpc://HOST:PORT, grpc+unix:PATH, grpc+run:[DIR: the prefix]
                            [$CAIRN_ADDRESS, then the usual sockets] */
  int32_t takeover;      /* 1: an older launch that is still alive is shut out */
  uint32_t deadline_ms;  /* of each call [120000; cairn_open 180000] */
  int32_t observer;      /* 1: a session that only reads (cairn_latest, cairn_find, cairn_dataset_name, cairn_stored,
                            cairn_read, cairn_test, cairn_wait): joins no launch, shuts nobody out, is never CAIRN_BUSY;
                            rank, nranks, launch do not count */
} cairn_options;

#define CAIRN_OPTIONS_INIT {sizeof(cairn_options), NULL, -1, -1, NULL, NULL, 0, 0, 0}

/* Opens this rank's session and joins the launch. If no daemon is there: CAIRN_UNAVAILABLE at once, naming the sockets. */
CAIRN_API int cairn_open(const cairn_options* options, cairn_session** session);

/* Registers `count` elements at `data` under `id` (0 to 2^31-1). Again: replaces; effective at the next checkpoint. */
CAIRN_API int cairn_protect(cairn_session* session, int32_t id, void* data, uint64_t count, int32_t type);

/* A value that is the same on all ranks (loop counter, time): comes back on any number of ranks. */
CAIRN_API int cairn_protect_value(cairn_session* session, int32_t id, const char* name, void* data, uint64_t count,
                                  int32_t type);

/* This rank's box [start, start+count) of a global array of `shape`, slowest dimension first. In memory the box lies
 * at mem_start inside a block of mem_count elements (ghost cells around it); both NULL: the memory is the box. */
CAIRN_API int cairn_protect_array(cairn_session* session, int32_t id, const char* name, void* data, int32_t type,
                                  int32_t ndims, const uint64_t* shape, const uint64_t* start, const uint64_t* count,
                                  const uint64_t* mem_count, const uint64_t* mem_start);

CAIRN_API int cairn_unprotect(cairn_session* session, int32_t id);

/* Captures all protected memory as this rank's part of a dataset; returns when the daemon has this rank's bytes. No
 * barrier. step 0: this rank's call count in this launch. `dataset` (may be NULL) is set as soon as it is known.
 * CAIRN_DIRTY: see cairn_resume. */
CAIRN_API int cairn_checkpoint(cairn_session* session, uint64_t step, uint64_t* dataset);

/* Names the dataset that this session begins next, by cairn_checkpoint or cairn_output_begin: as SCR_Start_output does,
 * in SCR's records and for cairn_find. All ranks give the same name, or none does; a dataset whose ranks differ fails.
 * It is for one call, whatever that answers. NULL or "": none.
 *
 * A name is 1 to 255 bytes of UTF-8 that could be the name of a file, without blanks at its ends, no number, and not
 * ckpt.<n> or scr.dataset.<n>, which datasets without a name have. With another one the call that begins the dataset is
 * CAIRN_INVALID_ARGUMENT. CAIRN_UNSUPPORTED of that call, of cairn_find, cairn_dataset_name and cairn_reject: the daemon
 * is older than this library. Names should be different: of several datasets of one name it means the newest. */
CAIRN_API int cairn_set_name(cairn_session* session, const char* name);

/* How the datasets that this session begins from now on outlive the loss of nodes before they are on the prefix. Each
 * dataset keeps its scheme, also when the daemon is started again. `scheme` is the name of one:
 *   "single"   not at all: nothing is kept on other nodes. A wait for `redundant` answers CAIRN_UNSUPPORTED
 *   "partner"  each rank's files are copied to another node
 *   "xor"      ranks on different nodes keep parity for each other: of each set of them one may be lost
 *   "rs"       the same with several checksums: so many may be lost
 *   "folder"   each rank's files are copied to a folder that is redundant itself (redundant.path of the daemons)
 * How many ranks make a set, and with "rs" how many may be lost, is the daemon's configuration (redundancy.members and
 * redundancy.checksums), unless the scheme says it: "rs:4+2" makes sets of 4 + 2 ranks, or somewhat more, of which 2
 * may be lost; "xor:7+1" makes sets of 8. At most 64. If the ranks are on fewer nodes than such a set has members (or
 * in fewer failure groups: redundancy.group), the checkpoint is made all the same, and a wait for `redundant` answers
 * CAIRN_UNSUPPORTED. NULL or "": again what CAIRN_REDUNDANCY says, which cairn_open has read, or if that is not set,
 * what the daemon is configured for (redundancy.scheme).
 *
 * All ranks give the same scheme, or none does; a dataset whose ranks differ fails. CAIRN_INVALID_ARGUMENT: there is no
 * such scheme, and the one from before holds. CAIRN_UNSUPPORTED of the call that begins a dataset: the daemon is older
 * than this library. */
CAIRN_API int cairn_redundancy(cairn_session* session, const char* scheme);

/* Has the dataset `level`? CAIRN_FAILED, naming the ranks, if it failed. CAIRN_UNAVAILABLE, of a launch over several
 * nodes: not known, as a daemon was started again and has not heard yet what the other nodes have. */
CAIRN_API int cairn_test(cairn_session* session, uint64_t dataset, int32_t level, int32_t* reached);
/* timeout_ms 0: looks once, CAIRN_DEADLINE_EXCEEDED if it has not. */
CAIRN_API int cairn_wait(cairn_session* session, uint64_t dataset, int32_t level, uint32_t timeout_ms);

/* The newest checkpoint that is whole comes back into the protected memory: cairn_latest and cairn_restore, done over
 * with older ones while they say CAIRN_RETRY. All ranks call it, after they have initialised and protected everything.
 * `step` (may be NULL) is set with CAIRN_OK only. The session's deadline is for all of it; after
 * CAIRN_DEADLINE_EXCEEDED it may be called again.
 *   CAIRN_OK         go on after *step. cairn_restored_dataset and cairn_restored_tier say from which copy of what
 *   CAIRN_NOT_FOUND  nothing to restart from, and the memory is untouched: start from the beginning
 *   CAIRN_DIRTY      nothing to restart from, and part of a restore that did not succeed may be in the memory of some
 *                    rank, this one or another: initialise and protect all variables anew, and start from the
 *                    beginning
 *   CAIRN_FAILED_PRECONDITION  what is protected differs from what is stored, or is missing there; or SCR has left a
 *                    newer checkpoint in this node's cache: cairn_error says how to take it, or pass it over
 *
 * A session is dirty from when a cairn_resume or cairn_restore that did not succeed, or a cairn_read that failed, may
 * have written to its protected memory, whatever ended it, also the death of the daemon. It is clean again when a later
 * restore has brought the memory back, or when every variable that was protected then has been protected anew or
 * unprotected. While a rank is dirty, cairn_checkpoint and cairn_output_begin of a CAIRN_CHECKPOINT answer CAIRN_DIRTY
 * on all ranks, and so do cairn_resume and cairn_latest where they would say CAIRN_NOT_FOUND. (After a restart of the
 * daemon a rank may be told CAIRN_NOT_FOUND before the dirty one has come back: its own memory is untouched.) */
CAIRN_API int cairn_resume(cairn_session* session, uint64_t* step);

/* The newest restorable checkpoint: the same for all ranks of the launch. CAIRN_NOT_FOUND, CAIRN_DIRTY,
 * CAIRN_FAILED_PRECONDITION: see cairn_resume. */
CAIRN_API int cairn_latest(cairn_session* session, uint64_t* dataset, uint64_t* step);

/* The newest dataset of that name that is whole and not rejected, also one that SCR has named; both results may be NULL.
 * CAIRN_NOT_FOUND. Ranks that are to get the same answer ask before one of them begins a dataset of that name. */
CAIRN_API int cairn_find(cairn_session* session, const char* name, uint64_t* dataset, uint64_t* step);
/* The dataset's name in SCR's records; ckpt.<n> if it was given none. CAIRN_INVALID_ARGUMENT: `name` is too small;
 * CAIRN_DATASET_NAME_MAX is enough. */
CAIRN_API int cairn_dataset_name(cairn_session* session, uint64_t dataset, char* name, size_t name_bytes);

enum cairn_kind { CAIRN_KIND_PLAIN = 0, CAIRN_KIND_VALUE = 1, CAIRN_KIND_ARRAY = 2 };

typedef struct cairn_stored_info {
  size_t struct_size;    /* set by the caller: sizeof(cairn_stored_info) */
  int32_t id;
  int32_t kind;
  int32_t type;          /* 0: unknown, of a checkpoint adopted from another system; `count` is in bytes then, and it is
                            restored into whatever has as many bytes, on as many ranks */
  int32_t ndims;         /* arrays */
  uint64_t count;        /* plain: elements that this rank stored; value: elements; array: elements of this rank's box */
  uint64_t shape[CAIRN_DIMS_MAX];
  uint64_t start[CAIRN_DIMS_MAX];     /* this rank's box as stored; zero if this rank did not exist */
  uint64_t box_count[CAIRN_DIMS_MAX];
  uint32_t nranks;       /* that stored the dataset */
  char name[CAIRN_NAME_MAX];          /* cut if longer */
} cairn_stored_info;

/* The stored variables, index 0, 1, ... (by id) until CAIRN_NOT_FOUND. */
CAIRN_API int cairn_stored(cairn_session* session, uint64_t dataset, uint64_t index, cairn_stored_info* info);
CAIRN_API int cairn_stored_by_id(cairn_session* session, uint64_t dataset, int32_t id, cairn_stored_info* info);

/* What elements of the global array `name` become that no rank has stored: one element of `type` at `value`. In a
 * cairn_restore or cairn_read they are an error without it. NULL: an error again. */
CAIRN_API int cairn_set_fill(cairn_session* session, const char* name, int32_t type, const void* value);

/* Brings the dataset back into the protected memory: on all ranks or on none. All ranks call it. Where a copy is
 * damaged the next one is taken. CAIRN_RETRY: some rank has no whole copy left; ask cairn_latest again. CAIRN_NOT_FOUND
 * and CAIRN_FAILED_PRECONDITION name the variable that is missing or differs (no byte was written). Of a dataset of
 * files: all files are in the cache and verified, no memory is written. After a failure in the middle the protected
 * memory is unspecified, and the session dirty: see cairn_resume.
 *
 * The boxes of global arrays may be others than were stored, on as many ranks or on another number: each rank's box is
 * put together from whatever ranks stored parts of it. Of elements that several ranks have stored, the highest rank's
 * count, but a rank that asks for the very box that it stored, on as many ranks, gets its own. Values come back on any number of ranks. Plain variables belong to one rank each: on another number of ranks
 * CAIRN_FAILED_PRECONDITION, naming the first. */
CAIRN_API int cairn_restore(cairn_session* session, uint64_t dataset);

/* "This restart did not work for me", as SCR_Complete_restart with valid 0: the dataset is whole, but the application
 * cannot use it. From now on no restart chooses it, whatever copies of it there are, here, on other nodes or under SCR:
 * cairn_latest and cairn_resume of this launch go on to the next older one at once. CAIRN_OK: it stays so if the daemon
 * dies now. Any rank may say it, all may, and again. Its bytes on the prefix stay, and `cairn index add` takes it back;
 * what is only in the cache stays there until its room is needed.
 * CAIRN_NOT_FOUND: there is no such dataset that can be restored. CAIRN_UNAVAILABLE: it is so on this node, but the
 * prefix cannot be told now; say it again. */
CAIRN_API int cairn_reject(cairn_session* session, uint64_t dataset);

/* Elements [start, start + count) of the global array `name` of a dataset into `out`, packed, slowest dimension first;
 * of a value: one dimension, both NULL: all of it. Of any dataset that can be restored, for this session alone; moves no
 * pin. CAIRN_NOT_FOUND: no such dataset or name. CAIRN_FAILED_PRECONDITION: plain variables and files cannot be read
 * so; an element was not stored, and there is no fill. After a failure `out` is unspecified; if it has bytes in common
 * with protected memory the session is dirty then: see cairn_resume. */
CAIRN_API int cairn_read(cairn_session* session, uint64_t dataset, const char* name, const uint64_t* start,
                         const uint64_t* count, void* out);

/* Which copy (enum cairn_tier) of which dataset served this rank in the last cairn_resume or cairn_restore; 0 and 0
 * unless that succeeded. */
CAIRN_API int cairn_restored_tier(cairn_session* session, int32_t* tier);
CAIRN_API int cairn_restored_dataset(cairn_session* session, uint64_t* dataset);

/* The application's own files. Begin, route each file (write to `path` instead; in another directory, of the same base
 * name), end. A `file` that ends in '/' is a directory, say of ADIOS2 ("fields.bp/"): all that is written below `path`
 * until the last rank that routed it has ended its output belongs to it; several ranks may route the same one. Where
 * ranks run on several nodes, each node has a directory of its own, so each rank that writes there routes it. On the
 * prefix they become one: two nodes' files of one name in it fail the dataset. Names
 * that Cairn has for itself are CAIRN_INVALID_ARGUMENT: .scr, .cairn, rank_<r>.cat and ckpt.<n>.bp, and in folders
 * ckpt.<n>, which the application may have otherwise, Ckpt<n>-Rank<r>.fti, rank_<r>.cat, files and adopting.
 *
 * With CAIRN_GROWING each complete step of a BP5 directory is flushed while later ones are written: readers find it in
 * the prefix under its name, consistent at every moment. It has no level before cairn_output_end, which verifies all of
 * it and commits. cairn_output_end with valid 0 leaves the steps that were flushed as a closed directory that is no
 * dataset. Where ranks run on several nodes, the directory goes to the prefix when all of it is there, as without it. */
enum cairn_output_flags {
  CAIRN_CHECKPOINT = 1,
  CAIRN_OUTPUT = 2,
  CAIRN_GROWING = 4 /* its BP5 directories go to the prefix step by step, while they are written */
};
CAIRN_API int cairn_output_begin(cairn_session* session, uint64_t step, uint32_t flags, uint64_t* dataset);
CAIRN_API int cairn_route_file(cairn_session* session, const char* file, char* path, size_t path_bytes);
/* Returns at `captured`. valid 0: this rank could not write its files; the dataset fails. */
CAIRN_API int cairn_output_end(cairn_session* session, int32_t valid);
/* After cairn_restore or cairn_resume of a dataset of files: where `file` can be read; on the prefix, if ranks run on
 * several nodes, or did when it was made. */
CAIRN_API int cairn_restart_file(cairn_session* session, uint64_t dataset, const char* file, char* path,
                                 size_t path_bytes);

/* How a run is steered from outside. Both calls are made by all ranks of a launch, equally often, and answer all alike:
 * the first rank that makes its n-th call decides, every other gets the same for its n-th, so no barrier is needed.
 * (Only a restart of the daemon while ranks are at different calls can part them: what was decided is lost with it.)
 * A call that fails sets the flag to 0 and counts. With a flag of 1 cairn_error says why; that is no error.
 *
 * Should the run stop now? 1 if a halt condition holds (`cairn halt`, SCR's scr_halt; looked up about once a second):
 * a reason was given, no checkpoints are left, a time has come, or less of the allocation is left than was asked for.
 * When the allocation ends is told by CAIRN_END_TIME, else SCR_END_TIME, else SLURM_JOB_END_TIME, in seconds since the
 * epoch. While checkpoints are counted down, the call waits until those that this rank has handed over are whole
 * (`local`) or have failed, so that "after the next checkpoint" is exact if each checkpoint is followed by this call;
 * at most for 7/8 of the deadline, then what is known is the answer. A prefix that hangs is waited for 2 seconds, then
 * what was last read of it counts. */
CAIRN_API int cairn_should_exit(cairn_session* session, int32_t* flag);

/* Is a checkpoint due now? 1 if a halt condition holds, or by any of these that is set, in the daemon's configuration
 * (`checkpoint.*`) or, counting more, in the environment:
 *   CAIRN_CHECKPOINT_EVERY     at every so many-th call                                  [SCR_CHECKPOINT_INTERVAL]
 *   CAIRN_CHECKPOINT_INTERVAL  so long after the begin of the last one, before the first: after the launch's open;
 *                              seconds, or a time with ms, s, min, h or d                [SCR_CHECKPOINT_SECONDS]
 *   CAIRN_CHECKPOINT_OVERHEAD  while one more leaves the share that checkpoints have of the launch's time below so many
 *                              percent; one costs the time from begin to end of the slowest rank's cairn_checkpoint,
 *                              or from cairn_output_begin to cairn_output_end            [SCR_CHECKPOINT_OVERHEAD]
 *   CAIRN_MTBF                 mean time between failures of one node, a time as above: at the interval at which least
 *                              time is lost by it, for the cost measured as above
 * The last two say 1 at the first call, to learn the cost. 0 takes a setting out; with none set it is always 0.
 * With checkpoint.when_busy = "skip" in the daemon's configuration, one that comes due while the one before is not
 * `local` yet is put off until it is: a disk that cannot follow then costs checkpoints in place of waiting. */
CAIRN_API int cairn_need_checkpoint(cairn_session* session, int32_t* flag);

/* Ends the session and frees it; captured datasets climb on without it. NULL is fine. */
CAIRN_API int cairn_close(cairn_session* session);

/* The session's last error in words, or why the last cairn_should_exit or cairn_need_checkpoint said 1; never NULL.
 * session NULL: of this thread's last cairn_open that failed. */
CAIRN_API const char* cairn_error(const cairn_session* session);
CAIRN_API const char* cairn_strerror(int code);
CAIRN_API const char* cairn_version(void);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_H_ */
