/* How libcairn.so speaks to libcairn_grpc.so, the transport for grpc:// and grpc+unix: addresses.
 *
 * libcairn.so needs libc only, so gRPC lives in a library of its own that it loads (dlopen, RTLD_NOW | RTLD_LOCAL) when
 * an address asks for it: from the folder that libcairn.so itself was loaded from, else by the loader's search path. It
 * is never unloaded. libcairn_grpc.so exports the functions below and nothing else. Messages are serialized
 * cairn.local.Request and cairn.local.Reply of proto/local.proto; one handle is one stream of cairn.ingest.Ingest.
 *
 * All functions answer with a code of cairn.h and, if it is not CAIRN_OK, write a sentence to `error` (cut to
 * `error_bytes`, always ended with a zero). They let no exception out. A handle is used by one thread at a time;
 * several handles may be used by several threads. In a forked child none of them is called, not even close: the handle
 * is left behind there. TLS is this library's matter: CAIRN_TLS_CA, CAIRN_TLS_CERT and CAIRN_TLS_KEY name PEM files. */
#ifndef CAIRN_CLIENT_GRPC_TRANSPORT_H_
#define CAIRN_CLIENT_GRPC_TRANSPORT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAIRN_GRPC_ABI 3u
#define CAIRN_GRPC_LIBRARY "libcairn_grpc.so"

struct cairn_grpc;

/* CAIRN_GRPC_ABI of the header that the library was built with; libcairn.so refuses another one. */
typedef uint32_t cairn_grpc_abi_function(void);
__attribute__((visibility("default"))) uint32_t cairn_grpc_abi(void);

/* Opens a stream to `target`, the address as the user gave it: "grpc://HOST:PORT", "grpc+unix:PATH" or
 * "grpc+run:DIR", where daemons tell in DIR/.cairn where they are (proto/announcement.h). `session`: 0 for a
 * session that has no daemon yet. One that had a daemon and looks for it gives its number in this process, larger than
 * those of older sessions. Then of several daemons this session asks that one last the next time which has not answered
 * more than Hello and Open, and each has its turn.
 *   CAIRN_INVALID_ARGUMENT     the address, or what the TLS variables name, makes no sense
 *   CAIRN_UNAVAILABLE          nobody answers there
 *   CAIRN_PERMISSION_DENIED    TLS refused one of the two sides
 *   CAIRN_DEADLINE_EXCEEDED    not connected in time */
typedef int cairn_grpc_connect_function(const char* target, uint64_t session, uint32_t deadline_ms,
                                        struct cairn_grpc** handle, char* error, size_t error_bytes);
__attribute__((visibility("default"))) int cairn_grpc_connect(const char* target, uint64_t session,
                                                              uint32_t deadline_ms, struct cairn_grpc** handle,
                                                              char* error, size_t error_bytes);

/* So many other daemons tell of themselves at the same address, also if nobody can read where they are; what one of
 * them does not know another may. 0: this one has the last word. *unreached: so many of them this connect could not
 * ask. They did not answer when their turn came, or cannot be read; those whose turn comes after this one are not among
 * them. */
typedef uint32_t cairn_grpc_others_function(const struct cairn_grpc* handle, uint32_t* unreached);
__attribute__((visibility("default"))) uint32_t cairn_grpc_others(const struct cairn_grpc* handle, uint32_t* unreached);

/* Sends one serialized Request; the bytes may be reused when it returns.
 *   CAIRN_UNAVAILABLE          the stream is broken: close the handle
 *   CAIRN_DEADLINE_EXCEEDED    not taken in time: close the handle, for it is not known whether it was sent */
typedef int cairn_grpc_send_function(struct cairn_grpc* handle, const void* request, size_t bytes, uint32_t deadline_ms,
                                     char* error, size_t error_bytes);
__attribute__((visibility("default"))) int cairn_grpc_send(struct cairn_grpc* handle, const void* request, size_t bytes,
                                                           uint32_t deadline_ms, char* error, size_t error_bytes);

/* The next serialized Reply, to be freed with cairn_grpc_free. deadline_ms 0: only what is already there.
 *   CAIRN_UNAVAILABLE          the stream is broken or was ended by the daemon: close the handle
 *   CAIRN_DEADLINE_EXCEEDED    nothing came in time; the handle is still good */
typedef int cairn_grpc_receive_function(struct cairn_grpc* handle, void** reply, size_t* bytes, uint32_t deadline_ms,
                                        char* error, size_t error_bytes);
__attribute__((visibility("default"))) int cairn_grpc_receive(struct cairn_grpc* handle, void** reply, size_t* bytes,
                                                              uint32_t deadline_ms, char* error, size_t error_bytes);

typedef void cairn_grpc_free_function(void* reply);
__attribute__((visibility("default"))) void cairn_grpc_free(void* reply);

/* Ends the stream and frees the handle; waits for nobody. NULL is fine. */
typedef void cairn_grpc_close_function(struct cairn_grpc* handle);
__attribute__((visibility("default"))) void cairn_grpc_close(struct cairn_grpc* handle);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_GRPC_TRANSPORT_H_ */
