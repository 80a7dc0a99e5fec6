/* cairn_redundancy, and what the environment says of it. */
#include "client/library/redundancy.h"

#include <string.h>

#include "client/library/session.h"

/* One or two digits, the first not 0, of what `*text` begins with, which then is behind them; 0: it does not. */
static uint32_t take_count(const char** text) {
  uint32_t count = 0;
  if (**text == '0') return 0;
  for (int i = 0; i < 2 && **text >= '0' && **text <= '9'; ++i) count = 10 * count + (uint32_t)(*(*text)++ - '0');
  return count;
}

/* "", or ":k+m". */
static bool take_size(const char* text, struct lc_scheme* scheme) {
  if (text[0] == '\0') return true;
  const bool is_xor = scheme->kind == CAIRN__LOCAL__SCHEME__SCHEME_XOR;
  if (!is_xor && scheme->kind != CAIRN__LOCAL__SCHEME__SCHEME_RS) return false;
  if (*text++ != ':') return false;
  const uint32_t others = take_count(&text);
  if (others == 0 || *text++ != '+') return false;
  scheme->checksums = take_count(&text);
  scheme->members = others + scheme->checksums;
  return text[0] == '\0' && scheme->checksums != 0 && (!is_xor || scheme->checksums == 1) &&
         scheme->members <= LC_SET_MEMBERS_MAX;
}

bool lc_scheme_of(const char* name, struct lc_scheme* scheme) {
  static const struct {
    const char* name;
    uint32_t kind;
  } schemes[] = {{"single", CAIRN__LOCAL__SCHEME__SCHEME_SINGLE},
                 {"partner", CAIRN__LOCAL__SCHEME__SCHEME_PARTNER},
                 {"xor", CAIRN__LOCAL__SCHEME__SCHEME_XOR},
                 {"rs", CAIRN__LOCAL__SCHEME__SCHEME_RS},
                 {"folder", CAIRN__LOCAL__SCHEME__SCHEME_FOLDER}};
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; ++i) {
    const size_t length = strlen(schemes[i].name);
    struct lc_scheme found = {.kind = schemes[i].kind};
    if (strncmp(name, schemes[i].name, length) != 0 || !take_size(name + length, &found)) continue;
    *scheme = found;
    return true;
  }
  return false;
}

int lc_scheme_resolve(const char* (*variable)(void* context, const char* name), void* context, struct lc_scheme* scheme,
                      struct lc_why* why) {
  const char* text = variable(context, "CAIRN_REDUNDANCY");
  *scheme = (struct lc_scheme){.kind = LC_SCHEME_NOT_GIVEN};
  if (text == NULL || text[0] == '\0' || lc_scheme_of(text, scheme)) return CAIRN_OK;
  return lc_because(why, CAIRN_INVALID_ARGUMENT, "CAIRN_REDUNDANCY is \"%.40s\": not " LC_SCHEMES, text);
}

int cairn_redundancy(cairn_session* session, const char* scheme) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_redundancy");
  if (code != CAIRN_OK) return lc_leave(&call, code);
  const bool given = scheme != NULL && scheme[0] != '\0';
  if (!given) {
    session->scheme = session->settings.scheme;
  } else if (!lc_scheme_of(scheme, &session->scheme)) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "scheme is \"%.40s\": not " LC_SCHEMES, scheme);
  }
  return lc_leave(&call, code);
}
