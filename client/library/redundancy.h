/* How datasets are to outlive the loss of nodes, by name. */
#ifndef CAIRN_CLIENT_LIBRARY_REDUNDANCY_H_
#define CAIRN_CLIENT_LIBRARY_REDUNDANCY_H_

#include <stdint.h>

#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LC_SCHEME_NOT_GIVEN 0u /* as the daemon is configured */
#define LC_SCHEMES "single, partner, xor, rs or folder"

/* The number that messages have for it (enum Scheme in proto/local.proto); LC_SCHEME_NOT_GIVEN: there is none of that
 * name. */
uint32_t lc_scheme_of(const char* name);

/* Of `variable` (as getenv): CAIRN_REDUNDANCY. CAIRN_INVALID_ARGUMENT, naming the variable: no such scheme. */
int lc_scheme_resolve(const char* (*variable)(void* context, const char* name), void* context, uint32_t* scheme,
                      struct lc_why* why);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_REDUNDANCY_H_ */
