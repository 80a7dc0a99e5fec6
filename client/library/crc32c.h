/* CRC32C (Castagnoli) of pieces that travel without shared memory. */
#ifndef CAIRN_CLIENT_LIBRARY_CRC32C_H_
#define CAIRN_CLIENT_LIBRARY_CRC32C_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `crc` is the CRC of the bytes before; 0 at the start. */
uint32_t lc_crc32c(uint32_t crc, const void* data, size_t bytes);

/* The same without the processor's help; for processors that have none, and for the test. */
uint32_t lc_crc32c_portable(uint32_t crc, const void* data, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_CRC32C_H_ */
