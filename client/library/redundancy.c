/* cairn_redundancy, and what the environment says of it. */
#include "client/library/redundancy.h"

#include <string.h>

#include "client/library/session.h"

uint32_t lc_scheme_of(const char* name) {
  static const struct {
    const char* name;
    uint32_t scheme;
  } schemes[] = {{"single", CAIRN__LOCAL__SCHEME__SCHEME_SINGLE},
                 {"partner", CAIRN__LOCAL__SCHEME__SCHEME_PARTNER},
                 {"xor", CAIRN__LOCAL__SCHEME__SCHEME_XOR},
                 {"rs", CAIRN__LOCAL__SCHEME__SCHEME_RS},
                 {"folder", CAIRN__LOCAL__SCHEME__SCHEME_FOLDER}};
  for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; ++i) {
    if (strcmp(name, schemes[i].name) == 0) return schemes[i].scheme;
  }
  return LC_SCHEME_NOT_GIVEN;
}

int lc_scheme_resolve(const char* (*variable)(void* context, const char* name), void* context, uint32_t* scheme,
                      struct lc_why* why) {
  const char* text = variable(context, "CAIRN_REDUNDANCY");
  *scheme = LC_SCHEME_NOT_GIVEN;
  if (text == NULL || text[0] == '\0') return CAIRN_OK;
  *scheme = lc_scheme_of(text);
  if (*scheme != LC_SCHEME_NOT_GIVEN) return CAIRN_OK;
  return lc_because(why, CAIRN_INVALID_ARGUMENT, "CAIRN_REDUNDANCY is \"%.40s\": not " LC_SCHEMES, text);
}

int cairn_redundancy(cairn_session* session, const char* scheme) {
  struct lc_call call;
  int code = lc_enter(&call, session, "cairn_redundancy");
  if (code != CAIRN_OK) return lc_leave(&call, code);
  const bool given = scheme != NULL && scheme[0] != '\0';
  const uint32_t number = given ? lc_scheme_of(scheme) : session->settings.scheme;
  if (given && number == LC_SCHEME_NOT_GIVEN) {
    code = lc_fail(&call, CAIRN_INVALID_ARGUMENT, "scheme is \"%.40s\": not " LC_SCHEMES, scheme);
  } else {
    session->scheme = number;
  }
  return lc_leave(&call, code);
}
