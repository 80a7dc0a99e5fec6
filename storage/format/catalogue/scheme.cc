#include "storage/format/catalogue/scheme.h"

namespace cairn {

std::string_view NameOfScheme(local::Scheme scheme) {
  switch (scheme) {
    case local::SCHEME_SINGLE:
      return "single";
    case local::SCHEME_PARTNER:
      return "partner";
    case local::SCHEME_XOR:
      return "xor";
    case local::SCHEME_RS:
      return "rs";
    case local::SCHEME_FOLDER:
      return "folder";
    default:
      return "";
  }
}

}  // namespace cairn
