/* Frames of the local plane: how messages of local.proto travel over the Unix stream socket.
 *
 * A frame is this header, then `bytes` bytes of one serialized Request (client to daemon) or Reply (daemon to client).
 * Little-endian. A descriptor (SCM_RIGHTS) travels with the first byte of the frame that it belongs to, at most one a
 * frame, daemon to client only. C11 and C++: used by libcairn and by the daemon. */
#ifndef CAIRN_PROTO_FRAME_H_
#define CAIRN_PROTO_FRAME_H_

#include <stdint.h>

struct cairn_frame_header {
  uint32_t magic; /* CAIRN_FRAME_MAGIC */
  uint32_t bytes; /* of the message that follows; at most CAIRN_FRAME_BYTES_MAX */
};

#define CAIRN_FRAME_MAGIC 0x314e5243u /* "CRN1" */
#define CAIRN_FRAME_BYTES_MAX (64u << 20)

/* Protocol versions: a client offers a range, the daemon takes the newest that both speak and serves all down to
 * that of the release before it. Number 1 was used once, by no program that is still in use: it is never given another
 * meaning.
 *   2  release 0.1.0
 *   3  names of datasets (Begin.name, OutputBegin.name, Find) and Reject: a daemon of 2 would pass over them
 *   4  redundancy schemes of datasets (Begin.scheme, OutputBegin.scheme): a daemon of 3 would pass over them
 *   5  how large their sets are (Begin.scheme_members): a daemon of 4 would pass over it */
#define CAIRN_PROTOCOL_NEWEST 5u
#define CAIRN_PROTOCOL_OLDEST 2u
#define CAIRN_PROTOCOL_OF_NAMES 3u
#define CAIRN_PROTOCOL_OF_SCHEMES 4u
#define CAIRN_PROTOCOL_OF_SET_SIZES 5u

/* Limits that both sides keep. */
#define CAIRN_NAME_BYTES_MAX 4096u
#define CAIRN_VARIABLES_MAX 102400u /* FTI's default highest id: the layout may hold as many */
#define CAIRN_DIMENSIONS_MAX 8u
#define CAIRN_RANKS_MAX (1u << 20)
/* A client keeps at least so many images mapped, those that were named last; a descriptor of them is not sent again. */
#define CAIRN_IMAGES_MAPPED_MIN 3u

#endif /* CAIRN_PROTO_FRAME_H_ */
