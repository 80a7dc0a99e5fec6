#include "client/library/images.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cairn.h"

static void drop(struct lc_image* image) {
  if (image->bytes > 0) munmap(image->base, image->bytes);
  memset(image, 0, sizeof *image);
}

/* Reserves address space with room to align in, maps over the aligned part and gives the rest back. */
static uint8_t* map_aligned(int descriptor, uint64_t bytes) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) & ~(page - 1),
                 reserved = whole + LC_IMAGE_ALIGNMENT;
  uint8_t* room = mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return NULL;
  const uint64_t before = -(uint64_t)(uintptr_t)room & (LC_IMAGE_ALIGNMENT - 1);
  uint8_t* base = room + before;
  if (mmap(base, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
    const int error = errno;
    munmap(room, reserved);
    errno = error;
    return NULL;
  }
  if (before > 0) munmap(room, before);
  munmap(base + whole, LC_IMAGE_ALIGNMENT - before);
  madvise(base, whole, MADV_HUGEPAGE); /* a wish */
  return base;
}

static int check_descriptor(uint64_t id, uint64_t bytes, int descriptor, struct lc_why* why) {
  struct stat status;
  const int seals = fcntl(descriptor, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return lc_because(why, CAIRN_INTERNAL, "image %llu is not sealed against shrinking", (unsigned long long)id);
  }
  if (fstat(descriptor, &status) != 0 || bytes == 0 || bytes > INT64_MAX - LC_IMAGE_ALIGNMENT ||
      (uint64_t)status.st_size < bytes) {
    return lc_because(why, CAIRN_INTERNAL, "image %llu of %llu bytes comes with a descriptor of another size",
                      (unsigned long long)id, (unsigned long long)bytes);
  }
  return CAIRN_OK;
}

int lc_images_adopt(struct lc_images* images, uint64_t id, uint64_t bytes, int descriptor, struct lc_why* why) {
  const int code = check_descriptor(id, bytes, descriptor, why);
  if (code != CAIRN_OK) return code;
  struct lc_image* place = &images->entries[0];
  for (size_t i = 0; i < LC_IMAGES_MAX; ++i) {
    struct lc_image* image = &images->entries[i];
    if (image->bytes > 0 && image->id == id) drop(image); /* named anew: the new one counts */
    if (image->used < place->used) place = image;
  }
  drop(place);
  uint8_t* base = map_aligned(descriptor, bytes);
  if (base == NULL) {
    return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "mapping image %llu of %llu bytes: %s", (unsigned long long)id,
                      (unsigned long long)bytes, lc_errno_text(errno));
  }
  *place = (struct lc_image){.id = id, .bytes = bytes, .base = base, .used = ++images->uses};
  return CAIRN_OK;
}

uint8_t* lc_images_find(struct lc_images* images, uint64_t id, uint64_t bytes) {
  for (size_t i = 0; i < LC_IMAGES_MAX; ++i) {
    struct lc_image* image = &images->entries[i];
    if (image->bytes == 0 || image->id != id || image->bytes != bytes) continue;
    image->used = ++images->uses;
    return image->base;
  }
  return NULL;
}

void lc_images_free(struct lc_images* images) {
  for (size_t i = 0; i < LC_IMAGES_MAX; ++i) drop(&images->entries[i]);
}
