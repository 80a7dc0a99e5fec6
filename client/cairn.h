/* libcairn: hands an application's state to the checkpoint daemon on its node, and brings it back. C11 and C++.
 *
 * No MPI: the library reads rank, number of ranks and launch from the environment, or the application sets them in
 * cairn_options. One binary serves every MPI.
 *
 * A session is one rank's connection to the daemon. All calls of one session come from one thread at a time. Sessions
 * are independent of each other. A call blocks no longer than the session's deadline (cairn_options.deadline_ms);
 * cairn_wait has a timeout of its own. After that time the call returns CAIRN_DEADLINE_EXCEEDED, or CAIRN_UNAVAILABLE
 * if no daemon answered in all that time, and cairn_error says what it waited for.
 *
 * The library catches no signal. It starts threads only if CAIRN_COPY_THREADS is set, and prints only if CAIRN_LOG is
 * set (see README.md in this folder). If the daemon dies, the next call connects to its successor, and the application
 * goes on. After a fork, the child's copy of a session answers CAIRN_FORKED: the child opens a session of its own.
 *
 * Every function returns one of the CAIRN_ codes below. The library borrows protected memory: keep it valid until you
 * unprotect it, protect its id anew, or close the session. */
#ifndef CAIRN_H_
#define CAIRN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAIRN_API __attribute__((visibility("default")))

/* What a call answers. The numbers never change. */
enum cairn_code {
  CAIRN_OK = 0,
  CAIRN_NOT_FOUND = 1,           /* no such dataset, variable or file. Of cairn_resume and cairn_latest: there is
                                    nothing to restart from */
  CAIRN_INVALID_ARGUMENT = 2,    /* the call itself is wrong: cairn_error says what */
  CAIRN_FAILED_PRECONDITION = 3, /* wrong order of calls, or what is protected differs from what is stored. Or no daemon
                                    knows the session any more: all that can be asked have refused it */
  CAIRN_BUSY = 4,                /* an older launch of the run is still alive: end it, or open with takeover */
  CAIRN_RETRY = 5,               /* the restore failed on some rank: call cairn_latest and cairn_restore again.
                                    cairn_resume does this by itself */
  CAIRN_SUPERSEDED = 6,          /* the dataset was dropped, because a newer one is safe: cairn_error names it */
  CAIRN_FAILED = 7,              /* the dataset failed; the next checkpoint can work */
  CAIRN_FENCED = 8,              /* a newer launch of the run has taken over: stop */
  CAIRN_RESOURCE_EXHAUSTED = 9,  /* no room in the cache or for the image */
  CAIRN_DEADLINE_EXCEEDED = 10,  /* not done in time */
  CAIRN_UNAVAILABLE = 11,        /* no daemon answers; or others refuse the session, and the one that may know it is
                                    out of reach */
  CAIRN_DATA_LOSS = 12,          /* damaged beyond what Cairn can repair */
  CAIRN_PERMISSION_DENIED = 13,  /* another user's daemon, run or certificate */
  CAIRN_UNSUPPORTED = 14,        /* this daemon or library cannot do that; e.g. there is no redundancy to wait for */
  CAIRN_FORKED = 15,             /* the session belongs to the parent process */
  CAIRN_INTERNAL = 16,           /* a bug in Cairn */
  CAIRN_DIRTY = 17               /* a failed restore may have left parts of a checkpoint in some rank's protected
                                    memory: initialise and protect all variables anew, or restore */
};

/* Where a dataset's bytes are, and what they survive there. A dataset has a level when all ranks have it. */
enum cairn_level {
  CAIRN_LEVEL_NONE = 0,
  CAIRN_LEVEL_FROZEN = 1,    /* no daemon of this release reports it */
  CAIRN_LEVEL_CAPTURED = 2,  /* with the daemon: survive the death of the application */
  CAIRN_LEVEL_LOCAL = 3,     /* on this node's disk: survive the death of the daemon, and a reboot */
  CAIRN_LEVEL_REDUNDANT = 4, /* on other nodes, too: survive the loss of nodes */
  CAIRN_LEVEL_PREFIX = 5     /* on the parallel file system: survive the loss of the cluster */
};

/* Which copy served a restore. */
enum cairn_tier {
  CAIRN_TIER_NONE = 0,
  CAIRN_TIER_IMAGE = 1,    /* the daemon's shared memory */
  CAIRN_TIER_CACHE = 2,    /* the cache on this node */
  CAIRN_TIER_PARTNER = 3,  /* in part or whole the cache of another node */
  CAIRN_TIER_REBUILT = 4,  /* files that were lost, and rebuilt from copies or parity */
  CAIRN_TIER_PREFIX = 5,   /* the parallel file system */
  CAIRN_TIER_REDUNDANT = 6 /* the folder that is redundant itself (redundant.path of the daemon) */
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

/* Start with CAIRN_OPTIONS_INIT. For what stays as it is there, the default in brackets holds. */
typedef struct cairn_options {
  size_t struct_size;    /* sizeof(cairn_options) */
  const char* prefix;    /* the run's directory on the parallel file system [$CAIRN_PREFIX] */
  int32_t rank;          /* [-1: $CAIRN_RANK, PMIX_RANK, OMPI_COMM_WORLD_RANK, SLURM_PROCID; alone: 0] */
  int32_t nranks;        /* [-1: $CAIRN_NRANKS, OMPI_COMM_WORLD_SIZE, SLURM_NTASKS; alone: 1] */
  const char* launch;    /* the launch key: the same text on all ranks of one start, another one at the next start
                            [$CAIRN_LAUNCH; the job as PMIx, Open MPI or Slurm name it; one rank: random] */
  const char* address;   /* unix:PATH, grpc://HOST:PORT, grpc+unix:PATH, grpc+run:[DIR: the prefix]
                            [$CAIRN_ADDRESS, then the usual sockets] */
  int32_t takeover;      /* 1: take over from an older launch that is still alive; its calls answer CAIRN_FENCED */
  uint32_t deadline_ms;  /* of each call [120000; cairn_open 180000] */
  int32_t observer;      /* 1: a session that only reads. It joins no launch, takes over from none, is never
                            CAIRN_BUSY, and ignores rank, nranks and launch. It may call cairn_latest, cairn_find,
                            cairn_dataset_name, cairn_stored, cairn_read, cairn_test and cairn_wait */
} cairn_options;

#define CAIRN_OPTIONS_INIT {sizeof(cairn_options), NULL, -1, -1, NULL, NULL, 0, 0, 0}

/* Opens this rank's session and joins the launch. CAIRN_UNAVAILABLE: no daemon is there; the call does not wait for
 * one, and cairn_error names the sockets that it tried. */
CAIRN_API int cairn_open(const cairn_options* options, cairn_session** session);

/* Protects `count` elements at `data` under `id` (0 to 2^31-1). A later call with the same id replaces them, which
 * takes effect at the next checkpoint. */
CAIRN_API int cairn_protect(cairn_session* session, int32_t id, void* data, uint64_t count, int32_t type);

/* Protects a value that is the same on all ranks, such as a loop counter. It comes back on any number of ranks. */
CAIRN_API int cairn_protect_value(cairn_session* session, int32_t id, const char* name, void* data, uint64_t count,
                                  int32_t type);

/* Protects this rank's box [start, start + count) of a global array of `shape`, slowest dimension first. In memory the
 * box lies at mem_start in a block of mem_count elements: there may be ghost cells around it. If both are NULL, the
 * memory is the box. */
CAIRN_API int cairn_protect_array(cairn_session* session, int32_t id, const char* name, void* data, int32_t type,
                                  int32_t ndims, const uint64_t* shape, const uint64_t* start, const uint64_t* count,
                                  const uint64_t* mem_count, const uint64_t* mem_start);

CAIRN_API int cairn_unprotect(cairn_session* session, int32_t id);

/* Hands all protected memory to the daemon, as this rank's part of a dataset. Returns when the daemon has this rank's
 * bytes; it is no barrier. If `step` is 0, the step is the number of this rank's calls in this launch. `dataset` (may
 * be NULL) is set as soon as the number is known, also if the call fails then. CAIRN_DIRTY: see cairn_resume. */
CAIRN_API int cairn_checkpoint(cairn_session* session, uint64_t step, uint64_t* dataset);

/* Names the dataset that this session's next cairn_checkpoint or cairn_output_begin begins, as SCR_Start_output does:
 * the name stands in SCR's records, and cairn_find finds it. It holds for that one call, whatever the call answers.
 * NULL or "": no name. All ranks give the same name, or none does; otherwise the dataset fails.
 *
 * A name is 1 to 255 bytes of UTF-8 that could be the name of a file, without blanks at its ends. It is no number, and
 * not ckpt.<n> or scr.dataset.<n>: datasets without a name are called so. With any other name, the call that begins the
 * dataset answers CAIRN_INVALID_ARGUMENT. If the daemon is older than this library, that call, cairn_find,
 * cairn_dataset_name and cairn_reject answer CAIRN_UNSUPPORTED. Choose different names: if several datasets have one
 * name, it means the newest. */
CAIRN_API int cairn_set_name(cairn_session* session, const char* name);

/* Says how datasets outlive the loss of nodes before they are on the prefix: those that this session begins from now
 * on. Each dataset keeps its scheme, also over a restart of the daemon. `scheme` is one of these:
 *   "single"   not at all: nothing is kept on other nodes, and a wait for `redundant` answers CAIRN_UNSUPPORTED
 *   "partner"  each rank's files are copied to another node
 *   "xor"      sets of ranks on different nodes keep parity for each other: each set may lose one
 *   "rs"       the same with several checksums: each set may lose as many members
 *   "folder"   each rank's files are copied to a folder that is redundant itself (redundant.path of the daemons)
 * The daemon's settings redundancy.members and redundancy.checksums say how many ranks make a set, and how many of them
 * "rs" may lose. A scheme may say it instead: "rs:4+2" makes sets of 6 ranks or somewhat more, which may lose 2, and
 * "xor:7+1" makes sets of 8 or somewhat more; a set has at most 64. If the ranks are on fewer nodes than such a set has
 * members (or in fewer failure groups: redundancy.group), the checkpoint is made all the same, and a wait for
 * `redundant` answers CAIRN_UNSUPPORTED.
 *
 * NULL or "": from now on the default holds again. It is CAIRN_REDUNDANCY as cairn_open read it, or, if that was not
 * set, the daemon's redundancy.scheme.
 *
 * All ranks give the same scheme, or none does; otherwise the dataset fails. CAIRN_INVALID_ARGUMENT: there is no such
 * scheme, and the one from before still holds. If the daemon is older than this library, the call that begins a dataset
 * answers CAIRN_UNSUPPORTED. */
CAIRN_API int cairn_redundancy(cairn_session* session, const char* scheme);

/* Sets `reached` to 1 if the dataset has reached `level`, else to 0. CAIRN_FAILED: the dataset failed; cairn_error
 * names the ranks. CAIRN_UNAVAILABLE: the launch has several nodes, and a daemon that was started again does not know
 * yet what the other nodes have. */
CAIRN_API int cairn_test(cairn_session* session, uint64_t dataset, int32_t level, int32_t* reached);
/* Waits until the dataset has reached `level`. If timeout_ms is 0, the call looks once, and answers
 * CAIRN_DEADLINE_EXCEEDED if the dataset has not. */
CAIRN_API int cairn_wait(cairn_session* session, uint64_t dataset, int32_t level, uint32_t timeout_ms);

/* Brings the newest checkpoint that is whole back into the protected memory. It calls cairn_latest and cairn_restore,
 * and goes on to older checkpoints as long as they answer CAIRN_RETRY. All ranks call it, after they have initialised
 * and protected everything. The session's deadline is for all of it; after CAIRN_DEADLINE_EXCEEDED it may be called
 * again. `step` (may be NULL) is set with CAIRN_OK only.
 *   CAIRN_OK         go on after *step; cairn_restored_dataset and cairn_restored_tier say what was restored, and from
 *                    which copy
 *   CAIRN_NOT_FOUND  there is nothing to restart from, and the memory is untouched: start from the beginning
 *   CAIRN_DIRTY      there is nothing to restart from, and a failed restore may have left parts of a checkpoint in the
 *                    memory of this or another rank: initialise and protect all variables anew, and start from the
 *                    beginning
 *   CAIRN_FAILED_PRECONDITION  a protected variable is not in the checkpoint, or differs from it. Or SCR has left a
 *                    newer checkpoint in this node's cache: cairn_error says how to take it, or to pass it over
 *
 * When is a session dirty? When a cairn_resume, cairn_restore or cairn_read has failed and may have written to its
 * protected memory, whatever the cause, the daemon's death included. It is clean again when a later restore succeeds,
 * or when every variable that was protected at that time has been protected anew or unprotected. While one rank is
 * dirty, all ranks are told CAIRN_DIRTY by cairn_checkpoint, by cairn_output_begin of a CAIRN_CHECKPOINT, and by
 * cairn_resume and cairn_latest where these would say CAIRN_NOT_FOUND. (After a restart of the daemon a rank may be
 * told CAIRN_NOT_FOUND before the dirty rank has connected again: its own memory is untouched then.) */
CAIRN_API int cairn_resume(cairn_session* session, uint64_t* step);

/* Finds the newest checkpoint that can be restored: the same one for all ranks of the launch. CAIRN_NOT_FOUND,
 * CAIRN_DIRTY, CAIRN_FAILED_PRECONDITION: see cairn_resume. */
CAIRN_API int cairn_latest(cairn_session* session, uint64_t* dataset, uint64_t* step);

/* Finds the newest dataset of that name that is whole and not rejected, also one that SCR has named. Both results may
 * be NULL. CAIRN_NOT_FOUND: there is none. If all ranks need the same answer, they ask before one of them begins a
 * dataset of that name. */
CAIRN_API int cairn_find(cairn_session* session, const char* name, uint64_t* dataset, uint64_t* step);
/* Tells the dataset's name in SCR's records; ckpt.<n> if it was given none. CAIRN_INVALID_ARGUMENT: `name` is too
 * small; CAIRN_DATASET_NAME_MAX bytes are enough. */
CAIRN_API int cairn_dataset_name(cairn_session* session, uint64_t dataset, char* name, size_t name_bytes);

enum cairn_kind { CAIRN_KIND_PLAIN = 0, CAIRN_KIND_VALUE = 1, CAIRN_KIND_ARRAY = 2 };

typedef struct cairn_stored_info {
  size_t struct_size;    /* set by the caller: sizeof(cairn_stored_info) */
  int32_t id;
  int32_t kind;
  int32_t type;          /* 0: unknown, as of a checkpoint that was adopted from FTI. Then `count` is in bytes, and any
                            variable that has as many bytes can be restored from it, on as many ranks */
  int32_t ndims;         /* arrays */
  uint64_t count;        /* plain: elements that this rank stored; value: elements; array: those of this rank's box */
  uint64_t shape[CAIRN_DIMS_MAX];
  uint64_t start[CAIRN_DIMS_MAX];     /* this rank's box as stored; zero if this rank did not exist */
  uint64_t box_count[CAIRN_DIMS_MAX];
  uint32_t nranks;                    /* how many ranks stored the dataset */
  char name[CAIRN_NAME_MAX];          /* cut if longer */
} cairn_stored_info;

/* Describes the stored variables, one with each call: index 0, 1, ... in the order of their ids, until the call answers
 * CAIRN_NOT_FOUND. */
CAIRN_API int cairn_stored(cairn_session* session, uint64_t dataset, uint64_t index, cairn_stored_info* info);
CAIRN_API int cairn_stored_by_id(cairn_session* session, uint64_t dataset, int32_t id, cairn_stored_info* info);

/* Says what cairn_restore and cairn_read put in place of elements of the global array `name` that no rank has stored:
 * the one element of `type` at `value`. Without a fill such elements are an error. NULL: they are an error again. */
CAIRN_API int cairn_set_fill(cairn_session* session, const char* name, int32_t type, const void* value);

/* Brings the dataset back into the protected memory, on all ranks or on none. All ranks call it. If a copy is damaged,
 * the daemon takes the next one. If the dataset consists of files, all of them are verified and in the cache after the
 * call, and no memory is written.
 *   CAIRN_RETRY      some rank has no whole copy left: call cairn_latest again. If the dataset can be read again later,
 *                    it can be restored by its number
 *   CAIRN_NOT_FOUND, CAIRN_FAILED_PRECONDITION  a variable is missing, or differs from what is stored; cairn_error
 *                    names it, and no byte was written
 * After any other failure the protected memory is unspecified, and the session is dirty: see cairn_resume.
 *
 * A restart may have other boxes of global arrays than were stored, and another number of ranks: the daemon puts each
 * rank's box together from the parts that ranks have stored. If several ranks have stored an element, that of the
 * highest rank counts; but a rank that asks for the very box that it stored, on as many ranks, gets its own elements.
 * Values come back on any number of ranks. A plain variable belongs to one rank: on another number of ranks the answer
 * is CAIRN_FAILED_PRECONDITION, and cairn_error names the first such variable. */
CAIRN_API int cairn_restore(cairn_session* session, uint64_t dataset);

/* Says "this restart did not work for me", as SCR_Complete_restart(0) does: the dataset is whole, but the application
 * cannot use it. From now on no restart chooses it, from any copy, here, on other nodes or under SCR. In this launch
 * cairn_latest and cairn_resume go on to the next older checkpoint at once. One rank may say it, or all, and more than
 * once. Bytes on the prefix stay there, and `cairn index add` lets restarts choose the dataset again. Bytes that are
 * only in the cache stay until their space is needed.
 *   CAIRN_OK           the dataset stays rejected, even if the daemon dies now
 *   CAIRN_NOT_FOUND    there is no such dataset that could be restored
 *   CAIRN_UNAVAILABLE  it is rejected on this node, but the prefix cannot be reached now: call again */
CAIRN_API int cairn_reject(cairn_session* session, uint64_t dataset);

/* Reads elements [start, start + count) of the global array `name` into `out`, packed, slowest dimension first. A value
 * has one dimension; if start and count are both NULL, all of the value is read. The dataset may be any that can be
 * restored. The call is for this session alone, and does not change what cairn_latest answers.
 *   CAIRN_NOT_FOUND            there is no such dataset or name
 *   CAIRN_FAILED_PRECONDITION  plain variables and files cannot be read like this; or no rank has stored some element,
 *                              and there is no fill
 * After a failure `out` is unspecified. If it overlaps protected memory, the session is dirty: see cairn_resume. */
CAIRN_API int cairn_read(cairn_session* session, uint64_t dataset, const char* name, const uint64_t* start,
                         const uint64_t* count, void* out);

/* Tell which dataset, and which copy of it (enum cairn_tier), served this rank in the last cairn_resume or
 * cairn_restore; 0 if that failed. */
CAIRN_API int cairn_restored_tier(cairn_session* session, int32_t* tier);
CAIRN_API int cairn_restored_dataset(cairn_session* session, uint64_t* dataset);

/* The application's own files: begin an output, route each file, write to the routed path, end the output. The routed
 * path is in another directory, and has the same base name. A `file` that ends in '/' is a directory, for example of
 * ADIOS2 ("fields.bp/"): the dataset has all that lies below `path` when the last rank that routed it has ended its
 * output. Several ranks may route the same directory. If the ranks run on several nodes, each node has a directory of
 * its own, so each rank that writes there routes it. On the prefix they become one: if two nodes have a file of the
 * same name in it, the dataset fails.
 *
 * Some names belong to Cairn, and are CAIRN_INVALID_ARGUMENT: .scr, .cairn, rank_<r>.cat and ckpt.<n>.bp. The
 * application may use folders called ckpt.<n>, but in them not the names Ckpt<n>-Rank<r>.fti, rank_<r>.cat, files and
 * adopting.
 *
 * With CAIRN_GROWING the daemon flushes each complete step of a BP5 directory while the application writes later ones.
 * Readers find it in the prefix under its name, consistent at every moment. Before cairn_output_end it has no level;
 * that call verifies all of it and commits it. cairn_output_end with valid 0 leaves the flushed steps as a closed
 * directory that is no dataset. If the ranks run on several nodes, CAIRN_GROWING changes nothing: the directory goes to
 * the prefix when it is whole. */
enum cairn_output_flags {
  CAIRN_CHECKPOINT = 1,
  CAIRN_OUTPUT = 2,
  CAIRN_GROWING = 4 /* BP5 directories go to the prefix step by step, while they are written */
};
CAIRN_API int cairn_output_begin(cairn_session* session, uint64_t step, uint32_t flags, uint64_t* dataset);
CAIRN_API int cairn_route_file(cairn_session* session, const char* file, char* path, size_t path_bytes);
/* Returns when this rank's files are `captured`. Give valid 0 if this rank could not write its files: then the dataset
 * fails. */
CAIRN_API int cairn_output_end(cairn_session* session, int32_t valid);
/* After cairn_restore or cairn_resume of a dataset of files: tells where to read `file`. This is on the prefix if the
 * ranks run on several nodes, or did when the dataset was made. */
CAIRN_API int cairn_restart_file(cairn_session* session, uint64_t dataset, const char* file, char* path,
                                 size_t path_bytes);

/* How a run is steered from outside. All ranks of a launch make each of these two calls equally often. The first rank
 * that makes its n-th call decides, and every other rank gets the same answer for its n-th: no barrier is needed. (Only
 * a restart of the daemon while ranks are at different calls can give them different answers, since it loses what was
 * decided.) A call that fails sets the flag to 0, and counts. If the flag is 1, cairn_error says why; this is no error.
 *
 * Should the run stop now? The flag is 1 if a halt condition holds (`cairn halt`, or SCR's scr_halt; the daemon looks
 * about once a second): a reason was given, no checkpoints are left, a time has come, or less of the allocation is left
 * than was asked for. CAIRN_END_TIME tells when the allocation ends, else SCR_END_TIME, else SLURM_JOB_END_TIME, in
 * seconds since the epoch. While checkpoints are counted down, the call waits until those that this rank has handed
 * over are `local` or have failed. So "after the next checkpoint" is exact if this call follows each checkpoint. It
 * waits at most 7/8 of the deadline, and then answers by what is known. It waits 2 seconds for a prefix that hangs;
 * then what was last read there counts. */
CAIRN_API int cairn_should_exit(cairn_session* session, int32_t* flag);

/* Is a checkpoint due now? The flag is 1 if a halt condition holds, or if one of these settings says so. The daemon's
 * settings have them (`checkpoint.*`); what the environment says counts more. [In brackets: SCR's variable, which
 * counts if Cairn's is not set.]
 *   CAIRN_CHECKPOINT_EVERY     at every n-th call                                        [SCR_CHECKPOINT_INTERVAL]
 *   CAIRN_CHECKPOINT_INTERVAL  when so much time has passed since the last checkpoint began, or, before the first,
 *                              since the launch opened: seconds, or a time with ms, s, min, h or d
 *                              [SCR_CHECKPOINT_SECONDS]
 *   CAIRN_CHECKPOINT_OVERHEAD  while checkpoints, with one more, take less than so many percent of the launch's time.
 *                              The cost of one is the slowest rank's time in cairn_checkpoint, or from
 *                              cairn_output_begin to cairn_output_end [SCR_CHECKPOINT_OVERHEAD]
 *   CAIRN_MTBF                 mean time between failures of one node, a time as above: checkpoints come at the
 *                              interval that loses least time, for the cost measured as above
 * The last two say 1 at the first call, to learn the cost. 0 switches a setting off. If none is set, the answer is
 * always 0. With checkpoint.when_busy = "skip" in the daemon's settings, a checkpoint is put off until the one before
 * is `local`: a disk that is too slow then costs checkpoints instead of waiting. */
CAIRN_API int cairn_need_checkpoint(cairn_session* session, int32_t* flag);

/* Ends the session and frees it. The daemon goes on to make captured datasets safe. NULL is allowed. */
CAIRN_API int cairn_close(cairn_session* session);

/* The session's last error in words, or why the last cairn_should_exit or cairn_need_checkpoint said 1; never NULL. If
 * `session` is NULL: why this thread's last cairn_open failed. */
CAIRN_API const char* cairn_error(const cairn_session* session);
CAIRN_API const char* cairn_strerror(int code);
CAIRN_API const char* cairn_version(void);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_H_ */
