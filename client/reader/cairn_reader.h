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
 * Every call that can fail answers a cairn_reader_code; the words for it are cairn_reader_error() of the same thread.
 * No exception leaves the library; it catches no signal and prints nothing; the first run that is opened starts one
 * thread, which stays. What it reads may be damaged or hostile: it is checked, and answered with CAIRN_READER_DATA_LOSS.
 *
 * Threads: all calls on one handle may be made at once from several threads. cairn_reader_refresh and
 * cairn_reader_refresh_run wait for the others and keep them waiting. Closing is the last call on a handle.
 * Borrowed: names, steps and other addresses that a call hands out are valid until the handle is refreshed or closed;
 * addresses of elements in place until it is closed, whatever is refreshed.
 *
 * Datasets of a run are checked: their catalogues have a CRC32C for each MiB of each file, with which every such block
 * is compared when a handle first gives of it; so nothing is given that is not as it was written. The error names file
 * and offset. Of a directory that is opened by its path nothing of that kind is known.
 *
 * Metadata is mapped into memory, and so is data of a closed directory: reading it costs no copy where a selection is
 * contiguous there. Who reads mapped bytes of a file that somebody has truncated gets a SIGBUS. So each call looks
 * first (at most once a millisecond) whether metadata was cut since it was opened or refreshed, and answers DATA_LOSS:
 * refresh. Data of a directory that a writer has open is read.
 *
 * Numbers are little-endian as the machine's. Dimensions: slowest first, also of directories that were written
 * column-major. Structures carry their size, so that later versions can add fields: set struct_size before the call.
 */
#ifndef CAIRN_READER_H_
#define CAIRN_READER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum cairn_reader_code { /* the numbers of cairn.h */
  CAIRN_READER_OK = 0,
  CAIRN_READER_NOT_FOUND = 1,           /* no such directory, dataset, variable, step, block, file */
  CAIRN_READER_INVALID_ARGUMENT = 2,    /* the call makes no sense for what is there */
  CAIRN_READER_FAILED_PRECONDITION = 3, /* stored in a way that is not read here: named in the error */
  CAIRN_READER_RESOURCE_EXHAUSTED = 9,  /* memory, descriptors */
  CAIRN_READER_UNAVAILABLE = 11,        /* the storage did not answer; it may later */
  CAIRN_READER_DATA_LOSS = 12,          /* damaged, or not all there */
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
  CAIRN_READER_STRUCT = 16 /* element_bytes of the application's own */
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

/* The datasets that are committed in `prefix`. NOT_FOUND: no run's prefix. */
int cairn_reader_open_run(const char* prefix, cairn_reader_run** run);
void cairn_reader_close_run(cairn_reader_run* run); /* NULL: nothing. Readers opened from it stay open. */
/* Looks again. */
int cairn_reader_refresh_run(cairn_reader_run* run);
uint64_t cairn_reader_datasets(const cairn_reader_run* run);
/* By rising id, from 0. NOT_FOUND: not so many. */
int cairn_reader_dataset(const cairn_reader_run* run, uint64_t index, cairn_reader_dataset_info* info);

/* --- a directory, or a dataset --- */

typedef struct cairn_reader cairn_reader;

/* `directory`: with an md.idx. NOT_FOUND: there is none (on a node-local disk only the first node has it). */
int cairn_reader_open(const char* directory, cairn_reader** reader);
/* The variables of a dataset of the run: one step, as its catalogues describe them. A dataset of files: the BP5
 * directory among them; INVALID_ARGUMENT: none, or several (open one by its path). NOT_FOUND: no such dataset as of the
 * last look. DATA_LOSS: a catalogue, or metadata of a dataset of files, is damaged. */
int cairn_reader_open_dataset(cairn_reader_run* run, uint64_t dataset, cairn_reader** reader);

typedef struct cairn_reader_options {
  size_t struct_size;
  int32_t no_check; /* nothing is compared; the view on disk is read, unless it is missing or damaged */
} cairn_reader_options;
/* The same; `options` may be NULL. */
int cairn_reader_open_dataset_with(cairn_reader_run* run, uint64_t dataset, const cairn_reader_options* options,
                                   cairn_reader** reader);
void cairn_reader_close(cairn_reader* reader); /* NULL: nothing */

typedef struct cairn_reader_info {
  size_t struct_size;
  uint64_t steps;
  uint64_t variables;
  int32_t active;       /* a writer has it open, or died with it */
  int32_t column_major; /* as written; dimensions are shown slowest first all the same */
  int32_t flatten;      /* the writer asked to have all steps shown as one */
  int32_t ends_early;   /* closed, and damaged at its end: steps are missing; a note says how that shows */
} cairn_reader_info;

int cairn_reader_get_info(cairn_reader* reader, cairn_reader_info* info);

/* What people should know of it, from `index` 0 on; NULL: no more. That it ends early, or that its view on disk is
 * damaged and another one was made in memory. */
const char* cairn_reader_note(cairn_reader* reader, uint64_t index);

typedef enum cairn_reader_change {
  CAIRN_READER_UNCHANGED = 0,
  CAIRN_READER_GROWN = 1,   /* steps were added; variables keep their places */
  CAIRN_READER_REPLACED = 2 /* truncated or written anew: steps and variables are others */
} cairn_reader_change;
/* Reads what was added since. `change` may be NULL. An error leaves all as it was. */
int cairn_reader_refresh(cairn_reader* reader, int32_t* change);

/* Writers of a step. */
int cairn_reader_writers(cairn_reader* reader, uint64_t step, uint32_t* writers);

typedef struct cairn_reader_variable_info {
  size_t struct_size;
  const char* name; /* any bytes but NUL */
  int32_t kind;     /* cairn_reader_kind */
  int32_t type;     /* cairn_reader_type */
  uint32_t element_bytes;   /* strings: 0 */
  uint32_t nsteps;          /* in which it was written */
  const uint32_t* steps;    /* those, rising: places in the directory, from 0 */
  const char* expression;   /* of derived variables, as stored; else "" */
  int32_t has_operator;     /* compressed or processed in some step */
  int32_t ndims;            /* of arrays, the same in all steps; values: 0 */
} cairn_reader_variable_info;

/* `index` from 0. NOT_FOUND: not so many. */
int cairn_reader_variable(cairn_reader* reader, uint64_t index, cairn_reader_variable_info* info);
int cairn_reader_find(cairn_reader* reader, const char* name, uint64_t* index);

/* `ndims`: room in `shape`, and then how many there are. Global values: 0; local values: 1, the writers. NOT_FOUND: not
 * written in this step. INVALID_ARGUMENT: a local array, or too little room. */
int cairn_reader_shape(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t* ndims, uint64_t* shape);

#define CAIRN_READER_ALL_STEPS UINT64_MAX
typedef enum cairn_reader_bounds {
  CAIRN_READER_NO_BOUNDS = 0,
  CAIRN_READER_BOUNDS = 1,     /* of all elements but NaNs */
  CAIRN_READER_SOME_BOUNDS = 2 /* some steps or blocks have no statistics: their elements may lie outside */
} cairn_reader_bounds;
/* Raw elements, at most 16 bytes each. `has`: cairn_reader_bounds. */
int cairn_reader_min_max(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t* has, void* min, void* max);

#define CAIRN_READER_FIRST_WRITER UINT32_MAX
/* A value where it lies: raw element, or text that a NUL follows, `bytes` without it. NOT_FOUND: this writer did not
 * write it in this step. */
int cairn_reader_value(cairn_reader* reader, uint64_t variable, uint64_t step, uint32_t writer, const void** value,
                       uint64_t* bytes);

typedef struct cairn_reader_block { /* of this size for good */
  uint32_t writer;
  int32_t has_min_max;
  uint8_t min[16], max[16]; /* raw elements */
} cairn_reader_block;
/* Blocks of an array in a step, from block `first` on, at most `room` of them; `found`: how many there are from there
 * on, also beyond `room`. `start` and `count` (either may be NULL) take ndims numbers for each; local arrays start at
 * 0. */
int cairn_reader_blocks(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t first, uint64_t room,
                        cairn_reader_block* blocks, uint64_t* start, uint64_t* count, uint64_t* found);

/* The elements of a selection of a global or joined array, packed, into `bytes` bytes at `target`. Where blocks overlap
 * the later one wins; elements that no block covers are left as they are, and `whole` (may be NULL) is 0 then. Blocks
 * that ADIOS2 has compressed by bzip2, blosc (1) or zfp are read and decompressed one by one, each as a whole.
 * FAILED_PRECONDITION names what else has compressed them: "compressed by mgard". */
int cairn_reader_read(cairn_reader* reader, uint64_t variable, uint64_t step, int32_t ndims, const uint64_t* start,
                      const uint64_t* count, void* target, uint64_t bytes, int32_t* whole);
/* A block of any array: `ndims` 0: all of it; else a selection relative to it. */
int cairn_reader_read_block(cairn_reader* reader, uint64_t variable, uint64_t step, uint64_t block, int32_t ndims,
                            const uint64_t* start, const uint64_t* count, void* target, uint64_t bytes);
/* The same bytes where they lie in a mapped file, read-only, aligned as they are there, checked before. `address` NULL:
 * they are not contiguous, not mapped, compressed or damaged: read them. */
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

/* All attributes as they were at a step, by name; a copy, independent of the reader. */
int cairn_reader_open_attributes(cairn_reader* reader, uint64_t step, cairn_reader_attributes** attributes);
void cairn_reader_close_attributes(cairn_reader_attributes* attributes); /* NULL: nothing */
uint64_t cairn_reader_attribute_count(const cairn_reader_attributes* attributes);
int cairn_reader_attribute(const cairn_reader_attributes* attributes, uint64_t index,
                           cairn_reader_attribute_info* info);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_READER_H_ */
