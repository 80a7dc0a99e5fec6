#include "client/library/crc32c.h"

#include <pthread.h>
#include <string.h>

/* Reflected polynomial 0x82F63B78 (RFC 3720, 12.1; vectors in B.4). */
#define POLYNOMIAL 0x82F63B78u

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void make_table(void) {
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? POLYNOMIAL : 0u);
    table[0][i] = crc;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (int k = 1; k < 8; ++k) table[k][i] = (table[k - 1][i] >> 8) ^ table[0][table[k - 1][i] & 0xffu];
  }
}

uint32_t lc_crc32c_portable(uint32_t crc, const void* data, size_t bytes) {
  const uint8_t* p = data;
  pthread_once(&table_once, make_table);
  crc = ~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    const uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    crc = table[7][low & 0xffu] ^ table[6][(low >> 8) & 0xffu] ^ table[5][(low >> 16) & 0xffu] ^ table[4][low >> 24] ^
          table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
  }
  for (; bytes > 0; --bytes, ++p) crc = (crc >> 8) ^ table[0][(crc ^ *p) & 0xffu];
  return ~crc;
}

#if defined(__x86_64__)

#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void* data, size_t bytes) {
  const uint8_t* p = data;
  uint64_t wide = (uint32_t)~crc;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  uint32_t narrow = (uint32_t)wide;
  for (; bytes > 0; --bytes, ++p) narrow = _mm_crc32_u8(narrow, *p);
  return ~narrow;
}

uint32_t lc_crc32c(uint32_t crc, const void* data, size_t bytes) {
  return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, data, bytes) : lc_crc32c_portable(crc, data, bytes);
}

#else

uint32_t lc_crc32c(uint32_t crc, const void* data, size_t bytes) {
  return lc_crc32c_portable(crc, data, bytes);
}

#endif
