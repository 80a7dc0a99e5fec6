#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/library/session.h"

enum lc_log_level lc_log_level_of(const char* value) {
  if (value == NULL) return LC_LOG_NONE;
  if (strcmp(value, "debug") == 0) return LC_LOG_DEBUG;
  if (strcmp(value, "info") == 0) return LC_LOG_INFO;
  return strcmp(value, "error") == 0 ? LC_LOG_ERROR : LC_LOG_NONE;
}

void lc_log(const cairn_session* session, enum lc_log_level level, const char* format, ...) {
  static const char* const names[] = {"", "error", "info", "debug"};
  if (level > session->log_level) return;
  char line[1280];
  const int head =
      snprintf(line, sizeof line, "cairn[%d] rank %u %s: ", (int)getpid(), session->settings.rank, names[level]);
  va_list arguments;
  va_start(arguments, format);
  const int tail = vsnprintf(line + head, sizeof line - (size_t)head - 1, format, arguments);
  va_end(arguments);
  size_t bytes = (size_t)head + (tail > 0 ? (size_t)tail : 0);
  if (bytes > sizeof line - 2) bytes = sizeof line - 2;
  line[bytes++] = '\n';
  /* One write, so that lines of several ranks do not mix; nobody can be told if it fails. */
  const ssize_t written = write(STDERR_FILENO, line, bytes);
  (void)written;
}
