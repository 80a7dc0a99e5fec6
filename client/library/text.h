/* Sentences for cairn_error, and checks of text that goes into messages. */
#ifndef CAIRN_CLIENT_LIBRARY_TEXT_H_
#define CAIRN_CLIENT_LIBRARY_TEXT_H_

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong below the session, in words. */
struct lc_why {
  char text[512];
};

/* Sets `why` and returns `code`; a sentence that is too long is cut. */
int lc_because(struct lc_why* why, int code, const char* format, ...) __attribute__((format(printf, 3, 4)));

/* strerror without its buffer that all threads share. Valid until this thread's next call. */
const char* lc_errno_text(int error);

/* Messages carry UTF-8 only (protobuf strings): anything else would break the connection at the daemon's parser. */
bool lc_is_utf8(const char* text);

/* A copy, or NULL. `text` may be NULL. */
char* lc_duplicate(const char* text);

#ifdef __cplusplus
}
#endif

#endif /* CAIRN_CLIENT_LIBRARY_TEXT_H_ */
