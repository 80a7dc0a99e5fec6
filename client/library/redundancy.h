/* How datasets are to outlive the loss of nodes, by name. */
#ifndef CAIRN_CLIENT_LIBRARY_REDUNDANCY_H_
#define CAIRN_CLIENT_LIBRARY_REDUNDANCY_H_

#include <stdbool.h>
#include <stdint.h>

#include "client/library/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LC_SCHEME_NOT_GIVEN 0u /* as the daemon is configured */
#define LC_SET_MEMBERS_MAX 64u
#define LC_SCHEMES "single, partner, xor, rs or folder, nor xor:k+1 or rs:k+m with k+m at most 64"

struct lc_scheme {
  uint32_t kind;               /* the number that messages have for it (enum Scheme in proto/local.proto) */
  uint32_t members, checksums; /* of its sets: k+m and m; 0: as the daemon is configured */
};

/* False: there is none of that name, and `scheme` is as it was. */
bool lc_scheme_of(const char* name, struct lc_scheme* scheme);

/* Of `variable` (as getenv): CAIRN_REDUNDANCY. CAIRN_INVALID_ARGUMENT, naming the variable: no such scheme. */
int lc_scheme_resolve(const char* (*variable)(void* context, const char* name), void* context, struct lc_scheme* scheme,
                      struct lc_why* why);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_REDUNDANCY_H_ */
