#include "client/library/text.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int lc_because(struct lc_why* why, int code, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(why->text, sizeof why->text, format, arguments);
  va_end(arguments);
  return code;
}

const char* lc_errno_text(int error) {
  static _Thread_local char buffer[64];
  const char* name = strerrordesc_np(error);
  if (name != NULL) return name;
  snprintf(buffer, sizeof buffer, "error %d", error);
  return buffer;
}

/* Bytes of the well-formed sequence at `p` (Unicode 15, table 3-7), 0 if it is none. */
static size_t sequence_bytes(const uint8_t* p) {
  if (p[0] < 0x80) return 1;
  const size_t bytes = p[0] >= 0xF0 ? 4 : p[0] >= 0xE0 ? 3 : 2;
  if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
  uint8_t low = 0x80, high = 0xBF;
  if (p[0] == 0xE0) low = 0xA0;
  if (p[0] == 0xED) high = 0x9F;
  if (p[0] == 0xF0) low = 0x90;
  if (p[0] == 0xF4) high = 0x8F;
  if (p[1] < low || p[1] > high) return 0;
  for (size_t i = 2; i < bytes; ++i) {
    if (p[i] < 0x80 || p[i] > 0xBF) return 0;
  }
  return bytes;
}

bool lc_is_utf8(const char* text) {
  const uint8_t* p = (const uint8_t*)text;
  while (*p != 0) {
    const size_t bytes = sequence_bytes(p); /* stops at the zero: it continues no sequence */
    if (bytes == 0) return false;
    p += bytes;
  }
  return true;
}

char* lc_duplicate(const char* text) {
  return text == NULL ? NULL : strdup(text);
}
