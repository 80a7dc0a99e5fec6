#include "client/library/fills.h"

#include <stdlib.h>
#include <string.h>

#include "client/cairn.h"
#include "client/library/variables.h"
#include "proto/frame.h"

static struct lc_fill** place_of(struct lc_fills* fills, const char* name) {
  struct lc_fill** place = &fills->first;
  while (*place != NULL && strcmp((*place)->name, name) != 0) place = &(*place)->next;
  return place;
}

static void drop(struct lc_fills* fills, struct lc_fill** place) {
  struct lc_fill* fill = *place;
  if (fill == NULL) return;
  *place = fill->next;
  --fills->count;
  free(fill->name);
  free(fill);
}

static int no_memory(const char* name, struct lc_why* why) {
  return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "no memory for the fill of \"%.100s\"", name);
}

int lc_fills_set(struct lc_fills* fills, const char* name, int32_t type, const void* value, struct lc_why* why) {
  if (name == NULL || name[0] == '\0' || !lc_is_utf8(name) || strlen(name) > CAIRN_NAME_BYTES_MAX) {
    return lc_because(why, CAIRN_INVALID_ARGUMENT, "the name must have 1 to %u bytes of UTF-8", CAIRN_NAME_BYTES_MAX);
  }
  struct lc_fill** place = place_of(fills, name);
  if (value == NULL) {
    drop(fills, place);
    return CAIRN_OK;
  }
  const uint64_t bytes = lc_type_bytes(type);
  if (bytes == 0) return lc_because(why, CAIRN_INVALID_ARGUMENT, "\"%.100s\": there is no type %d", name, type);
  if (*place == NULL) {
    if (fills->count >= LC_FILLS_MAX) {
      return lc_because(why, CAIRN_RESOURCE_EXHAUSTED, "more than %u fills", LC_FILLS_MAX);
    }
    struct lc_fill* fill = calloc(1, sizeof *fill);
    if (fill == NULL) return no_memory(name, why);
    fill->name = strdup(name);
    if (fill->name == NULL) {
      free(fill);
      return no_memory(name, why);
    }
    *place = fill;
    ++fills->count;
  }
  (*place)->type = type;
  memcpy((*place)->value, value, bytes);
  return CAIRN_OK;
}

const struct lc_fill* lc_fills_find(const struct lc_fills* fills, const char* name) {
  const struct lc_fill* fill = fills->first;
  while (fill != NULL && strcmp(fill->name, name) != 0) fill = fill->next;
  return fill;
}

void lc_fills_free(struct lc_fills* fills) {
  while (fills->first != NULL) drop(fills, &fills->first);
}
