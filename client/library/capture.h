/* Handing the protected memory over. A seam: this one copies (push); another may let the daemon pull. */
#ifndef CAIRN_CLIENT_LIBRARY_CAPTURE_H_
#define CAIRN_CLIENT_LIBRARY_CAPTURE_H_

#include <stdint.h>

#include "client/library/session.h"

/* Begins, copies, commits. `dataset` (may be NULL) is set as soon as it is known, also if the call then fails. If the
 * connection breaks on the way, this connects again and begins the attempt again, until the call's deadline. */
int lc_capture(struct lc_call* call, uint64_t step, uint32_t attempt, uint64_t* dataset);

/* Gets all protected memory of `dataset` back; sets the session's tier. */
int lc_restore(struct lc_call* call, uint64_t dataset);

/* Brings what `read` asks for into `variable`, as if that were protected; sets read->holes. */
int lc_read(struct lc_call* call, struct lc_variable* variable, Cairn__Local__Read* read);

#endif /* CAIRN_CLIENT_LIBRARY_CAPTURE_H_ */
