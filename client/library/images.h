/* The images of a connection that are mapped into this process. */
#ifndef CAIRN_CLIENT_LIBRARY_IMAGES_H_
#define CAIRN_CLIENT_LIBRARY_IMAGES_H_

#include <stdint.h>

#include "client/library/text.h"
#include "proto/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A daemon uses a few images by turns; the least recently used one is unmapped first. */
#define LC_IMAGES_MAX (CAIRN_IMAGES_MAPPED_MIN + 1)
#define LC_IMAGE_ALIGNMENT (UINT64_C(2) << 20)

struct lc_image {
  uint64_t id;
  uint64_t bytes; /* 0: no image in this place */
  uint8_t* base;  /* aligned to LC_IMAGE_ALIGNMENT, so that huge pages can be mapped as such */
  uint64_t used;  /* when, counted in uses */
};

struct lc_images {
  struct lc_image entries[LC_IMAGES_MAX];
  uint64_t uses;
};

/* Maps `descriptor`, which stays the caller's. It must be sealed against shrinking: otherwise touching the mapping
 * could kill the application. CAIRN_INTERNAL            it is not what the daemon says CAIRN_RESOURCE_EXHAUSTED  it
 * cannot be mapped */
int lc_images_adopt(struct lc_images* images, uint64_t id, uint64_t bytes, int descriptor, struct lc_why* why);

/* NULL: not mapped, or with another number of bytes. */
uint8_t* lc_images_find(struct lc_images* images, uint64_t id, uint64_t bytes);

void lc_images_free(struct lc_images* images);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_IMAGES_H_ */
