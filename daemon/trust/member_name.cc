#include "daemon/trust/member_name.h"

#include <charconv>
#include <cstddef>

#include "storage/base/check.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::string_view kScheme = "cairn://", kNode = "/node/", kLife = "/life/";
constexpr std::size_t kIdDigits = 32, kLifeDigits = 16;
constexpr std::string_view kServerSuffix = ".run.cairn";

// Takes the front of `text` off. False: it is not there.
bool Skip(std::string_view& text, std::string_view front) {
  if (!text.starts_with(front)) return false;
  text.remove_prefix(front.size());
  return true;
}
std::string_view Take(std::string_view& text, std::size_t count) {
  const std::string_view front = text.substr(0, count);
  text.remove_prefix(front.size());
  return front;
}

std::optional<std::uint64_t> ParseLife(std::string_view digits) {
  std::uint64_t life = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), life, 16);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || digits != fmt::format("{:016x}", life)) return std::nullopt;  // as it is written, and not otherwise
  return life;
}

std::optional<PeerIdentity> Parse(std::string_view rest) {
  PeerIdentity member;
  if (!Skip(rest, kScheme)) return std::nullopt;
  const auto run = RunId::Parse(Take(rest, kIdDigits));
  if (!run.ok() || !Skip(rest, kNode)) return std::nullopt;
  const auto node = RunId::Parse(Take(rest, kIdDigits));
  if (!node.ok() || !Skip(rest, kLife)) return std::nullopt;
  const auto life = ParseLife(Take(rest, kLifeDigits));
  if (!life || !rest.empty()) return std::nullopt;
  return PeerIdentity{.run = *run, .node = node->Hex(), .incarnation = *life};
}

}  // namespace

std::string MemberName(const PeerIdentity& member) {
  CAIRN_CHECK(RunId::Parse(member.node).ok());
  return fmt::format("{}{}{}{}{}{:016x}", kScheme, member.run.Hex(), kNode, member.node, kLife, member.incarnation);
}

absl::StatusOr<PeerIdentity> ParseMemberName(std::string_view name) {
  auto member = Parse(name);
  if (!member) return InvalidArgument("{} names no member of a run", Quoted(name));
  return *std::move(member);
}

std::string RunServerName(const RunId& run) {
  return run.Hex() + std::string(kServerSuffix);
}

std::optional<RunId> ParseRunServerName(std::string_view name) {
  const auto run = RunId::Parse(Take(name, kIdDigits));
  if (!run.ok() || name != kServerSuffix) return std::nullopt;
  return *run;
}

}  // namespace cairn
