#include "storage/format/catalogue/scheme.h"

#include <fmt/format.h>

#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint32_t kMembersMax = 64;  // of a set, as with redundancy.members

}  // namespace

absl::Status CheckAsked(const AskedScheme& asked) {
  if (!local::Scheme_IsValid(asked.kind)) {
    return InvalidArgument("redundancy scheme {} is not known to this daemon", static_cast<int>(asked.kind));
  }
  if (asked.members == 0 && asked.checksums == 0) return absl::OkStatus();
  if (asked.kind != local::SCHEME_XOR && asked.kind != local::SCHEME_RS) {
    return InvalidArgument("redundancy scheme {}: its sets have no size", NameOfScheme(asked.kind));
  }
  const std::uint32_t checksums_max = asked.kind == local::SCHEME_XOR ? 1 : kMembersMax - 1;
  if (asked.members < 2 || asked.members > kMembersMax || asked.checksums < 1 || asked.checksums >= asked.members ||
      asked.checksums > checksums_max) {
    return InvalidArgument("redundancy scheme {}: sets of {} members of which {} may be lost cannot be",
                           NameOfScheme(asked.kind), asked.members, asked.checksums);
  }
  return absl::OkStatus();
}

std::string TextOfScheme(const AskedScheme& asked) {
  if (!CheckAsked(asked).ok()) return "";
  const std::string_view name = NameOfScheme(asked.kind);
  if (!asked.has_size()) return std::string(name);
  return fmt::format("{}:{}+{}", name, asked.members - asked.checksums, asked.checksums);
}

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
