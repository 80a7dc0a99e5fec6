/* Fills: what stands for elements of a global array that no rank has stored, by the array's name. */
#ifndef CAIRN_CLIENT_LIBRARY_FILLS_H_
#define CAIRN_CLIENT_LIBRARY_FILLS_H_

#include <stdint.h>

#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LC_ELEMENT_BYTES_MAX 16
#define LC_FILLS_MAX 102400u /* as variables */

struct lc_fill {
  char* name;
  int32_t type;
  uint8_t value[LC_ELEMENT_BYTES_MAX];
  struct lc_fill* next;
};

struct lc_fills {
  struct lc_fill* first;
  uint32_t count;
};

/* `value` NULL: none any more. CAIRN_INVALID_ARGUMENT: no such type, no good name; CAIRN_RESOURCE_EXHAUSTED. */
int lc_fills_set(struct lc_fills* fills, const char* name, int32_t type, const void* value, struct lc_why* why);
const struct lc_fill* lc_fills_find(const struct lc_fills* fills, const char* name); /* NULL: none */
void lc_fills_free(struct lc_fills* fills);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_FILLS_H_ */
