/* Restores whose bytes take no way around: blocks of the cache's files that this process reads with direct I/O straight
 * into the application's memory, and verifies there. */
#ifndef CAIRN_CLIENT_LIBRARY_STRAIGHT_H_
#define CAIRN_CLIENT_LIBRARY_STRAIGHT_H_

#include <stdint.h>

#include "client/library/messages.h"
#include "client/library/text.h"
#include "proto/local.pb-c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tells in the messages where the variables lie, of those that can be read to. Values are not told of, nor are
 * selections of cairn_read: many ranks may want the same, and the daemon reads it once for all. */
void lc_offer_memory(struct lc_listed* listed);
void lc_withdraw_memory(struct lc_listed* listed);

/* Takes `straight` out of the reply; lc_free_straight. CAIRN_INTERNAL: not all of it lies in variables that were
 * offered, or a block lacks its checksum; `why` names file and run. */
int lc_take_straight(Cairn__Local__RestoreReply* reply, const struct lc_listed* listed, struct lc_straight* straight,
                     struct lc_why* why);
void lc_free_straight(struct lc_straight* straight);

/* Reads all blocks of one file. CAIRN_UNAVAILABLE: one could not be read, or not all of it; CAIRN_DATA_LOSS: it is not
 * as it should be; CAIRN_DEADLINE_EXCEEDED; CAIRN_RESOURCE_EXHAUSTED. Whatever the answer, nothing is read any more,
 * and any of the memory may have changed. */
int lc_read_straight(const struct lc_straight* straight, size_t file, int descriptor, const struct lc_listed* listed,
                     int64_t deadline, struct lc_why* why);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_STRAIGHT_H_ */
