/* libcairn_reader: reads checkpoints and BP5 directories as arrays, without a daemon. C11 and C++.
 *
 *   cairn_reader_run* run;
 *   cairn_reader* data;
 *   uint64_t u, whole_shape[3];
 *   int32_t ndims = 3;
 *   if (cairn_reader_open_run("/scratch/run7", &run) != CAIRN_READER_OK) puts(cairn_reader_error());
 *   cairn_reader_open_dataset(run, 12, &data);                 (or cairn_reader_open("out/fields.bp", &data))
 *   cairn_reader_find(data, "u", &u);
 *   cairn_reader_shape(data, u, 0, &ndims, whole_shape);
 *   cairn_reader_read(data, u, 0, 2, start, count, target, sizeof target, NULL);
 *
 * Every call that can fail answers a cairn_reader_code; cairn_reader_error() of the same thread says it in words. No
 * exception leaves the library. It catches no signal and prints nothing. The first run that is opened starts one
 * thread, which stays. Files may be damaged or hostile: the library checks what it reads, and answers
 * CAIRN_READER_DATA_LOSS.
 *
 * Threads: several threads may call with one handle at the same time. cairn_reader_refresh and cairn_reader_refresh_run
 * wait until the other calls have ended, and new calls wait for them. Closing is the last call on a handle.
 * Borrowed: names, steps and other addresses that a call hands out are valid until the handle is refreshed or closed.
 * Addresses of elements in place are valid until it is closed, also after a refresh.
 *
 * Datasets of a run are checked. Their catalogues have a CRC32C for each MiB of each file; the library compares each
 * MiB when a handle first reads from it, and hands out nothing that differs. The error names file and offset. A
 * directory that is opened by its path has no checksums.
 *
 * The library maps metadata into memory, and the data of closed directories: where a selection is contiguous there,
 * reading it costs no copy. A process that reads mapped bytes of a truncated file gets a SIGBUS. So each call first
 * looks (at most once a millisecond) whether metadata was cut since it was opened or refreshed; if so it answers
 * DATA_LOSS, and a refresh helps. Data of a directory that a writer has open is read, not mapped.
 *
 * Numbers are little-endian, as the machine's are. The slowest dimension comes first, also in directories that were
 * written column-major. Structures carry their size, so that later versions can add fields: set struct_size first. */
#ifndef CAIRN_READER_H_
#define CAIRN_READER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cairn_reader_code { /* the numbers of cairn.h */
                                 CAIRN_READER_OK = 0,
                                 CAIRN_READER_NOT_FOUND =
                                     1, /* no such directory, dataset, variable, step, block, file */
                                 CAIRN_READER_INVALID_ARGUMENT = 2, /* the call does not fit what is there */
                                 CAIRN_READER_FAILED_PRECONDITION =
                                     3, /* stored in a way that this library cannot read: the error names it */
                                 CAIRN_READER_RESOURCE_EXHAUSTED = 9, /* memory, descriptors */
                                 CAIRN_READER_UNAVAILABLE = 11, /* the storage did not answer; it may answer later */
                                 CAIRN_READER_DATA_LOSS = 12,   /* damaged, or not all there */
                                 CAIRN_READER_PERMISSION_DENIED = 13,
                                 CAIRN_READER_INTERNAL = 16
} cairn_reader_code;

typedef enum cairn_reader_type { /* the numbers of cairn.h; elements are raw, of the machine's own types */
                                 CAIRN_READER_INT8 = 1,
                                 CAIRN_READER_INT16 = 2,
                                 CAIRN_READER_INT32 = 3,
                                 CAIRN_READER_INT64 = 4,
                                 CAIRN_READER_UINT8 = 5,
                                 CAIRN_READER_UINT16 = 6,
                                 CAIRN_READER_UINT32 = 7,
                                 CAIRN_READER_UINT64 = 8,
                                 CAIRN_READER_FLOAT = 9,
                                 CAIRN_READER_DOUBLE = 10,
                                 CAIRN_READER_LONG_DOUBLE = 11, /* x87: 10 of 16 bytes */
                                 CAIRN_READER_COMPLEX_FLOAT = 12,
                                 CAIRN_READER_COMPLEX_DOUBLE = 13,
                                 CAIRN_READER_STRING = 14, /* values only */
                                 CAIRN_READER_CHAR = 15,
                                 CAIRN_READER_STRUCT = 16 /* a type of the application's own, of element_bytes */
} cairn_reader_type;

typedef enum cairn_reader_kind {
  CAIRN_READER_GLOBAL_VALUE = 'g', /* one per step */
  CAIRN_READER_LOCAL_VALUE = 'l',  /* one per writer and step */
  CAIRN_READER_GLOBAL_ARRAY = 'G', /* blocks in a common shape */
  CAIRN_READER_LOCAL_ARRAY = 'L',  /* blocks of their own */
  CAIRN_READER_JOINED_ARRAY = 'J'  /* blocks stacked along one dimension: read as a global array */
} cairn_reader_kind;

#define CAIRN_READER_DIMS_MAX 64

const char* cairn_reader_version(void);
/* Of this thread's last call that failed; never NULL; valid until this thread's next call. */
const char* cairn_reader_error(void);

/* --- a run's prefix --- */

typedef struct cairn_reader_run cairn_reader_run;

typedef struct cairn_reader_dataset_info {
  size_t struct_size;
  uint64_t dataset; /* its id */
  uint64_t step;    /* the application's own number */
  uint64_t launch;
  uint64_t bytes;
  int64_t created_us; /* since 1970 */
  uint32_t nranks;
  int32_t checkpoint; /* meant for restart */
  int32_t output;     /* meant to be kept */
  int32_t files;      /* the application's own files, not variables */
} cairn_reader_dataset_info;

/* Opens the datasets that are committed in `prefix`. NOT_FOUND: that is no run's prefix. */
int cairn_reader_open_run(const char* prefix, cairn_reader_run** run);
void cairn_reader_close_run(cairn_reader_run* run); /* NULL: nothing. Readers opened from it stay open. */
/* Looks again which datasets there are. */
int cairn_reader_refresh_run(cairn_reader_run* run);
uint64_t cairn_reader_datasets(const cairn_reader_run* run);
/* Describes one dataset; `index` counts from 0, in the order of the ids. NOT_FOUND: there are not so many. */
int cairn_reader_dataset(const cairn_reader_run* run, uint64_t index, cairn_reader_dataset_info* info);

/* --- a directory, or a dataset --- */

typedef struct cairn_reader cairn_reader;

/* Opens a `directory` with an md.idx in it. NOT_FOUND: there is none (on node-local disks the first node has it). */
int cairn_reader_open(const char* directory, cairn_reader** reader);
/* Opens the variables of a dataset of the run: one step, as its catalogues describe them. Of a dataset of files it
 * opens the BP5 directory among the files. INVALID_ARGUMENT: there is none, or several (open one by its path).
 * NOT_FOUND: there was no such dataset at the last look. DATA_LOSS: a catalogue, or metadata of a dataset of files, is
 * damaged. */
int cairn_reader_open_dataset(cairn_reader_run* run, uint64_t dataset, cairn_reader** reader);

typedef struct cairn_reader_options {
  size_t struct_size;
  int32_t no_check; /* 1: compare nothing, and use the view on disk unless it is missing or damaged */
} cairn_reader_options;
/* The same with options, which may be NULL. */
int cairn_reader_open_dataset_with(cairn_reader_run* run, uint64_t dataset, const cairn_reader_options* options,
                                   cairn_reader** reader);
void cairn_reader_close(cairn_reader* reader); /* NULL: nothing */

typedef struct cairn_reader_info {
  size_t struct_size;
  uint64_t steps;
  uint64_t variables;
  int32_t active;       /* a writer has it open, or died before it closed it */
  int32_t column_major; /* as written; dimensions are shown slowest first all the same */
  int32_t flatten;      /* the writer asked to have all steps shown as one */
  int32_t ends_early;   /* it is closed, but damaged at its end: steps are missing; a note says how that was found */
} cairn_reader_info;

int cairn_reader_get_info(cairn_reader* reader, cairn_reader_info* info);

/* Notes for people, from `index` 0 on; NULL: there are no more. For example that the directory ends early, or that the
 * view on disk is damaged and another one was made in memory. */
const char* cairn_reader_note(cairn_reader* reader, uint64_t index);

typedef enum cairn_reader_change {
  CAIRN_READER_UNCHANGED = 0,
  CAIRN_READER_GROWN = 1,   /* steps were added; variables keep their places */
  CAIRN_READER_REPLACED = 2 /* truncated or written anew: steps and variables are others */
} cairn_reader_change;
/* Reads what was added since the last look. `change` may be NULL. An error leaves all as it was. */
int cairn_reader_refresh(cairn_reader* reader, int32_t* change);

/* How many writers a step has. */
int cairn_reader_writers(cairn_reader* reader, uint64_t step, uint32_t* writers);

typedef struct cairn_reader_variable_info {
  size_t struct_size;
  const char* name; /* any bytes but NUL */
  int32_t kind;     /* cairn_reader_kind */
  int32_t type;     /* cairn_reader_type */
  uint32_t element_bytes;   /* strings: 0 */
  uint32_t nsteps;          /* in how many steps it was written */
  const uint32_t* steps;    /* those steps, rising: places in the directory, from 0 */
  const char* expression;   /* of derived variables, as stored; else "" */
  int32_t has_operator;     /* compressed or processed in some step */
  int32_t ndims;            /* of arrays, the same in all steps; values: 0 */
} cairn_reader_variable_info;

/* Describes one variable; `index` counts from 0. NOT_FOUND: there are not so many. */
int cairn_reader_variable(cairn_reader* reader, uint64_t index, cairn_reader_variable_info* info);
int cairn_reader_find(cairn_reader* reader, const char* name, uint64_t* index);

/* Tells the shape in a step. `ndims`: before the call the room in `shape`, after it how many dimensions there are.
 * Global values have 0; local values have 1, the number of writers. NOT_FOUND: the variable was not written in this
 * step. INVALID_ARGUMENT: it is a local array, or there is too little room. */
int cairn_reader_shape(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t* ndims, uint64_t* shape);

#define CAIRN_READER_ALL_STEPS UINT64_MAX
typedef enum cairn_reader_bounds {
  CAIRN_READER_NO_BOUNDS = 0,
  CAIRN_READER_BOUNDS = 1,     /* of all elements but NaNs */
  CAIRN_READER_SOME_BOUNDS = 2 /* some steps or blocks have no statistics: their elements may be outside */
} cairn_reader_bounds;
/* Tells the least and the greatest element, raw, at most 16 bytes each. `has`: cairn_reader_bounds. */
int cairn_reader_min_max(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t* has, void* min, void* max);

#define CAIRN_READER_FIRST_WRITER UINT32_MAX
/* Tells where a value is in memory: a raw element, or text with a NUL behind it that `bytes` does not count. NOT_FOUND:
 * this writer did not write it in this step. */
int cairn_reader_value(cairn_reader* reader, uint64_t variable, uint64_t step, uint32_t writer, const void** value,
                       uint64_t* bytes);

typedef struct cairn_reader_block { /* this structure never grows */
  uint32_t writer;
  int32_t has_min_max;
  uint8_t min[16], max[16]; /* raw elements */
} cairn_reader_block;
/* Lists the blocks of an array in a step, from block `first` on, at most `room` of them. `found`: how many there are
 * from `first` on, also beyond `room`. `start` and `count` (either may be NULL) take ndims numbers for each block;
 * blocks of local arrays start at 0. */
int cairn_reader_blocks(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t first, uint64_t room,
                        cairn_reader_block* blocks, uint64_t* start, uint64_t* count, uint64_t* found);

/* Reads a selection of a global or joined array, packed, into `bytes` bytes at `target`. Where blocks overlap, the
 * later one wins. Elements that no block covers stay as they are in `target`, and `whole` (may be NULL) is 0 then. If
 * ADIOS2 has compressed blocks with bzip2, blosc (1) or zfp, each block is read and decompressed as a whole. Other
 * compressors are FAILED_PRECONDITION, which names them: "compressed by mgard". */
int cairn_reader_read(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t ndims, const uint64_t* start,
                      const uint64_t* count, void* target, uint64_t bytes, int32_t* whole);
/* Reads a block of any array. `ndims` 0: all of the block; else the selection counts from the block's begin. */
int cairn_reader_read_block(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t block, int32_t ndims,
                            const uint64_t* start, const uint64_t* count, void* target, uint64_t bytes);
/* Tells where the same bytes are in a mapped file: read-only, aligned as in the file, checked before. `address` NULL:
 * they are not contiguous, not mapped, compressed or damaged; read them instead. */
int cairn_reader_in_place(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t ndims, const uint64_t* start,
                          const uint64_t* count, const void** address);
int cairn_reader_block_in_place(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t block, int32_t ndims,
                                const uint64_t* start, const uint64_t* count, const void** address);

/* --- attributes --- */

typedef struct cairn_reader_attributes cairn_reader_attributes;

typedef struct cairn_reader_attribute_info {
  size_t struct_size;
  const char* name;
  int32_t type;
  int32_t single;             /* 0: a list, perhaps of one */
  uint64_t count;             /* of elements */
  const void* values;         /* raw elements; strings: NULL */
  const char* const* strings; /* type STRING, else NULL */
} cairn_reader_attribute_info;

/* Opens all attributes as they were at a step, sorted by name: a copy, independent of the reader. */
int cairn_reader_open_attributes(cairn_reader* reader, uint64_t step, cairn_reader_attributes** attributes);
void cairn_reader_close_attributes(cairn_reader_attributes* attributes); /* NULL: nothing */
uint64_t cairn_reader_attribute_count(const cairn_reader_attributes* attributes);
int cairn_reader_attribute(const cairn_reader_attributes* attributes, uint64_t index,
                           cairn_reader_attribute_info* info);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_READER_H_ */
