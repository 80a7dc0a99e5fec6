#include "storage/format/catalogue/scheme.h"

#include <fmt/format.h>

#include <cstddef>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint32_t kMembersMax = 64;  // of a set, as with redundancy.members
constexpr local::Scheme kKinds[] = {local::SCHEME_SINGLE, local::SCHEME_PARTNER, local::SCHEME_XOR, local::SCHEME_RS,
                                    local::SCHEME_FOLDER};

local::Scheme KindOf(std::string_view name) {
  for (const local::Scheme kind : kKinds) {
    if (NameOfScheme(kind) == name) return kind;
  }
  return local::SCHEME_NOT_GIVEN;
}

// A number of ranks, as one writes it: no sign, no zero in front. 0: it is none.
std::uint32_t RanksIn(std::string_view text) {
  std::uint32_t ranks = 0;
  if (text.empty() || text.size() > 2 || text.front() == '0') return 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return 0;
    ranks = 10 * ranks + static_cast<std::uint32_t>(digit - '0');
  }
  return ranks;
}

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

absl::StatusOr<AskedScheme> ParseScheme(std::string_view text) {
  const std::size_t colon = text.find(':');
  AskedScheme asked(KindOf(text.substr(0, colon)));
  if (asked.kind == local::SCHEME_NOT_GIVEN) {
    return InvalidArgument("{} is none of single, partner, xor, rs, folder, xor:k+1, rs:k+m", Quoted(text));
  }
  if (colon == std::string_view::npos) return asked;
  const std::string_view sizes = text.substr(colon + 1);
  const std::size_t plus = sizes.find('+');
  const std::uint32_t data = RanksIn(sizes.substr(0, plus));
  asked.checksums = plus == std::string_view::npos ? 0 : RanksIn(sizes.substr(plus + 1));
  if (data == 0 || asked.checksums == 0) {
    return InvalidArgument("{}: behind the colon there is no k+m, as in rs:4+2", Quoted(text));
  }
  asked.members = data + asked.checksums;
  CAIRN_RETURN_IF_ERROR(CheckAsked(asked));
  return asked;
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
