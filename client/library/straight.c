#include "client/library/straight.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cairn.h"
#include "client/library/copiers.h"
#include "client/library/crc32c.h"

#define PAGE_BYTES 4096u
#define READ_BYTES_MAX (64u << 20)

static uint8_t* memory_of(const struct lc_variable* v) {
  return (uint8_t*)v->data + v->box.first;
}

void lc_offer_memory(struct lc_listed* listed) {
  for (size_t i = 0; i < listed->count; ++i) {
    const struct lc_variable* v = listed->variables[i];
    if (v->kind == CAIRN_KIND_VALUE || v->box.dimensions != 0 || v->box.bytes < LC_STRAIGHT_BLOCK_BYTES) continue;
    listed->messages[i]->memory = (uint32_t)((uintptr_t)memory_of(v) % PAGE_BYTES) + 1;
  }
}

void lc_withdraw_memory(struct lc_listed* listed) {
  for (size_t i = 0; i < listed->count; ++i) listed->messages[i]->memory = 0;
}

void lc_free_straight(struct lc_straight* straight) {
  for (size_t i = 0; i < straight->files; ++i) cairn__local__straight__free_unpacked(straight->blocks[i], NULL);
  free(straight->blocks);
  *straight = (struct lc_straight){0};
}

/* Does the run lie in a variable that was offered? Adds its blocks to *sum. */
static bool run_is_sound(const Cairn__Local__Straight* of_file, size_t run, const struct lc_listed* listed,
                         uint64_t* sum) {
  const uint64_t blocks = of_file->blocks[run], offset = of_file->variable_offset[run];
  uint64_t bytes, file_end;
  if (of_file->variable[run] >= listed->count || listed->messages[of_file->variable[run]]->memory == 0) return false;
  const uint64_t limit = listed->variables[of_file->variable[run]]->box.bytes;
  return blocks > 0 && !__builtin_mul_overflow(blocks, (uint64_t)LC_STRAIGHT_BLOCK_BYTES, &bytes) && offset <= limit &&
         bytes <= limit - offset && of_file->file_offset[run] % LC_STRAIGHT_BLOCK_BYTES == 0 &&
         !__builtin_add_overflow(of_file->file_offset[run], bytes, &file_end) && file_end <= INT64_MAX &&
         !__builtin_add_overflow(*sum, blocks, sum);
}

static int check_file(const Cairn__Local__Straight* of_file, size_t file, const struct lc_listed* listed,
                      struct lc_why* why) {
  const size_t runs = of_file->n_blocks;
  if (of_file->n_variable != runs || of_file->n_variable_offset != runs || of_file->n_file_offset != runs) {
    return lc_because(why, CAIRN_INTERNAL, "the columns of file %zu differ in length: %zu, %zu, %zu, %zu", file,
                      of_file->n_variable, of_file->n_variable_offset, of_file->n_file_offset, runs);
  }
  uint64_t blocks = 0;
  for (size_t run = 0; run < runs; ++run) {
    if (run_is_sound(of_file, run, listed, &blocks)) continue;
    return lc_because(why, CAIRN_INTERNAL, "run %zu of file %zu, %llu blocks at %llu of variable %u, is not sound", run,
                      file, (unsigned long long)of_file->blocks[run], (unsigned long long)of_file->variable_offset[run],
                      of_file->variable[run]);
  }
  if (blocks == of_file->n_crc32c) return CAIRN_OK;
  return lc_because(why, CAIRN_INTERNAL, "file %zu has %zu checksums for %llu blocks", file, of_file->n_crc32c,
                    (unsigned long long)blocks);
}

int lc_take_straight(Cairn__Local__RestoreReply* reply, const struct lc_listed* listed, struct lc_straight* straight,
                     struct lc_why* why) {
  *straight = (struct lc_straight){.files = reply->n_straight,
                                   .blocks = reply->straight,
                                   .bytes_max = reply->straight_bytes,
                                   .reads = reply->straight_reads};
  reply->n_straight = 0;
  reply->straight = NULL;
  if (straight->files > 0 && (straight->bytes_max == 0 || straight->bytes_max > READ_BYTES_MAX ||
                              straight->bytes_max % LC_STRAIGHT_BLOCK_BYTES != 0)) {
    return lc_because(why, CAIRN_INTERNAL, "reads of %llu bytes", (unsigned long long)straight->bytes_max);
  }
  int code = CAIRN_OK;
  for (size_t i = 0; i < straight->files && code == CAIRN_OK; ++i) {
    code = check_file(straight->blocks[i], i, listed, why);
  }
  return code;
}

/* A run is read in parts of `bytes_max`, its last one shorter; parts are numbered through the whole file. */
struct run_begins {
  uint64_t part;  /* its first one */
  uint64_t block; /* its first one, in crc32c */
};

struct reading {
  const Cairn__Local__Straight* of_file;
  const struct lc_listed* listed;
  const struct run_begins* runs; /* one more than there are: the end */
  uint64_t part_blocks;
  int descriptor;
  pthread_mutex_t mutex;
  int code; /* of the first part that failed, under the mutex */
  struct lc_why why;
};

static size_t run_of(const struct reading* r, uint64_t part) {
  size_t low = 0, high = r->of_file->n_blocks;
  while (high - low > 1) {
    const size_t middle = low + (high - low) / 2;
    if (r->runs[middle].part <= part) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/* All of it, or why not. */
static int read_bytes(int descriptor, uint8_t* target, uint64_t bytes, uint64_t offset, struct lc_why* why) {
  while (bytes > 0) {
    const ssize_t got = pread(descriptor, target, bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return lc_because(why, CAIRN_UNAVAILABLE, "reading %llu bytes at offset %llu of the cache's file: %s",
                        (unsigned long long)bytes, (unsigned long long)offset,
                        got < 0 ? lc_errno_text(errno) : "it ends before");
    }
    target += got;
    offset += (uint64_t)got;
    bytes -= (uint64_t)got;
  }
  return CAIRN_OK;
}

static int verify_block(const uint8_t* data, uint32_t expected, uint64_t offset, struct lc_why* why) {
  const uint32_t found = lc_crc32c(0, data, LC_STRAIGHT_BLOCK_BYTES);
  if (found == expected) return CAIRN_OK;
  return lc_because(why, CAIRN_DATA_LOSS, "the block at offset %llu of the cache's file has CRC32C %08x, expected %08x",
                    (unsigned long long)offset, found, expected);
}

static int read_part(const struct reading* r, uint64_t part, struct lc_why* why) {
  const size_t run = run_of(r, part);
  const uint64_t first = (part - r->runs[run].part) * r->part_blocks, left = r->of_file->blocks[run] - first,
                 blocks = left < r->part_blocks ? left : r->part_blocks,
                 offset = r->of_file->file_offset[run] + first * LC_STRAIGHT_BLOCK_BYTES;
  const uint32_t* crc32c = r->of_file->crc32c + r->runs[run].block + first;
  uint8_t* target = memory_of(r->listed->variables[r->of_file->variable[run]]) + r->of_file->variable_offset[run] +
                    first * LC_STRAIGHT_BLOCK_BYTES;
  int code = read_bytes(r->descriptor, target, blocks * LC_STRAIGHT_BLOCK_BYTES, offset, why);
  for (uint64_t i = 0; i < blocks && code == CAIRN_OK; ++i) {
    code = verify_block(target + i * LC_STRAIGHT_BLOCK_BYTES, crc32c[i], offset + i * LC_STRAIGHT_BLOCK_BYTES, why);
  }
  return code;
}

/* After one has failed the others are not worth reading. */
static void read_numbered(void* context, size_t part) {
  struct reading* r = context;
  struct lc_why why;
  pthread_mutex_lock(&r->mutex);
  const bool failed = r->code != CAIRN_OK;
  pthread_mutex_unlock(&r->mutex);
  const int code = failed ? CAIRN_OK : read_part(r, part, &why);
  if (code == CAIRN_OK) return;
  pthread_mutex_lock(&r->mutex);
  if (r->code == CAIRN_OK) {
    r->code = code;
    r->why = why;
  }
  pthread_mutex_unlock(&r->mutex);
}

static int read_parts(struct reading* r, uint64_t parts, unsigned reads, int64_t deadline, struct lc_why* why) {
  const struct lc_pieces all = {.copy = read_numbered, .context = r, .from = 0, .to = parts, .deadline = deadline};
  pthread_mutex_init(&r->mutex, NULL);
  const size_t done = lc_copy_pieces(&all, parts < reads ? (unsigned)parts : reads);
  pthread_mutex_destroy(&r->mutex);
  if (r->code != CAIRN_OK) {
    *why = r->why;
  } else if (done < parts) {
    return lc_because(why, CAIRN_DEADLINE_EXCEEDED, "%zu of %llu parts of a file were read", done,
                      (unsigned long long)parts);
  }
  return r->code;
}

int lc_read_straight(const struct lc_straight* straight, size_t file, int descriptor, const struct lc_listed* listed,
                     int64_t deadline, struct lc_why* why) {
  const Cairn__Local__Straight* of_file = straight->blocks[file];
  const uint64_t part_blocks = straight->bytes_max / LC_STRAIGHT_BLOCK_BYTES;
  struct run_begins* runs = malloc((of_file->n_blocks + 1) * sizeof *runs);
  if (runs == NULL) return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory for %zu runs", of_file->n_blocks);
  runs[0] = (struct run_begins){0};
  for (size_t i = 0; i < of_file->n_blocks; ++i) {
    const uint64_t blocks = of_file->blocks[i];
    runs[i + 1].part = runs[i].part + (blocks + part_blocks - 1) / part_blocks;
    runs[i + 1].block = runs[i].block + blocks;
  }
  struct reading reading = {.of_file = of_file,
                            .listed = listed,
                            .runs = runs,
                            .part_blocks = part_blocks,
                            .descriptor = descriptor,
                            .code = CAIRN_OK};
  const int code = read_parts(&reading, runs[of_file->n_blocks].part, straight->reads, deadline, why);
  free(runs);
  return code;
}
