// The redundancy that an application has asked for. Pure.
#ifndef CAIRN_STORAGE_FORMAT_CATALOGUE_SCHEME_H_
#define CAIRN_STORAGE_FORMAT_CATALOGUE_SCHEME_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "proto/local.pb.h"

namespace cairn {

// A scheme, and with `xor` and `rs` how large sets are to be: messages have it in three fields.
struct AskedScheme {
  // NOLINTNEXTLINE(google-explicit-constructor): a scheme alone says all but that.
  AskedScheme(local::Scheme kind = local::SCHEME_NOT_GIVEN, std::uint32_t members = 0, std::uint32_t checksums = 0)
      : kind(kind), members(members), checksums(checksums) {}

  local::Scheme kind;
  std::uint32_t members;    // ranks of a set, at least: 2 to 64; 0: as the daemon is configured, as are `checksums`
  std::uint32_t checksums;  // so many of them may be lost: 1 to members - 1, with xor 1
  bool has_size() const { return members != 0; }
  bool operator==(const AskedScheme&) const = default;
};

// Of Begin, OutputBegin, DatasetBegun, Catalogue.
template <typename Message>
AskedScheme AskedIn(const Message& message) {
  return {message.scheme(), message.scheme_members(), message.scheme_checksums()};
}
template <typename Message>
void PutAsked(const AskedScheme& asked, Message& message) {
  message.set_scheme(asked.kind);
  message.set_scheme_members(asked.members);
  message.set_scheme_checksums(asked.checksums);
}

// Of ShowReply.
template <typename Reply>
AskedScheme AskedShown(const Reply& reply) {
  return {reply.asked_scheme(), reply.asked_members(), reply.asked_checksums()};
}
template <typename Reply>
void ShowAsked(const AskedScheme& asked, Reply& reply) {
  reply.set_asked_scheme(asked.kind);
  reply.set_asked_members(asked.members);
  reply.set_asked_checksums(asked.checksums);
}

// kInvalidArgument: the scheme is not known here, or its sets cannot be.
absl::Status CheckAsked(const AskedScheme& asked);

// As redundancy.scheme has it: single, partner, xor, rs, folder. Empty: none was given, or it is not known here.
std::string_view NameOfScheme(local::Scheme scheme);
// Of NameOfScheme, or xor:k+1, rs:k+m: as cairn_redundancy and redundancy.scheme take it, and TextOfScheme has it.
//   kInvalidArgument  it is none of these, or its sets cannot be
absl::StatusOr<AskedScheme> ParseScheme(std::string_view text);
// As cairn_redundancy takes it: the same, and xor:k+1, rs:k+m. Empty, too, if CheckAsked would refuse it.
std::string TextOfScheme(const AskedScheme& asked);

}  // namespace cairn

#endif  // CAIRN_STORAGE_FORMAT_CATALOGUE_SCHEME_H_
