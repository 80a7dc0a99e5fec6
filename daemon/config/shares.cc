#include "daemon/config/shares.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/config/stripped.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

constexpr std::uint32_t kSharesMax = 65'536;
constexpr std::uint64_t kImagesOf = 4;                 // a quarter of the memory is for images
constexpr std::uint64_t kReserveOf = 20;               // a twentieth of the file system is left to others
constexpr std::uint64_t kImageBytesLeast = 16u << 20;  // less than a ring needs would be none
constexpr std::uint64_t kRecordsOf = 16;

// `bytes` / shares * count, however large they are.
std::uint64_t Part(std::uint64_t bytes, std::uint64_t count, std::uint64_t shares) {
  return bytes / shares * count + bytes % shares * count / shares;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::uint32_t>> ParseShares(std::string_view text) {
  std::map<std::string, std::uint32_t> shares;
  for (bool more = !Stripped(text).empty(); more;) {
    const std::size_t comma = text.find(',');
    const std::string_view one = Stripped(text.substr(0, comma));
    const std::size_t equals = one.find('=');
    const std::string name(Stripped(one.substr(0, equals)));
    const std::string_view number = equals == one.npos ? "" : Stripped(one.substr(equals + 1));
    std::uint32_t count = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), count);
    const bool is_number = error == std::errc() && end == number.data() + number.size();
    if (name.empty() || !is_number || count == 0 || count > kSharesMax) {
      return InvalidArgument("{} is not a user and a number of 1..{} such as alice=10", Quoted(one), kSharesMax);
    }
    if (!shares.emplace(name, count).second) return InvalidArgument("{} is there twice", Quoted(name));
    more = comma != text.npos;
    text.remove_prefix(more ? comma + 1 : text.size());
  }
  return shares;
}

Config WithShares(Config config, std::string_view user, const Machine& machine) {
  const std::uint64_t all = std::max<std::uint64_t>(1, config.supervisor.shares);
  std::uint64_t count = 1;
  if (const auto shares = ParseShares(config.supervisor.shares_of); shares.ok()) {
    if (const auto found = shares->find(std::string(user)); found != shares->end()) count = found->second;
  }
  count = std::min(count, all);
  if (config.cache.reserve == 0) config.cache.reserve = machine.cache_bytes / kReserveOf;
  if (config.cache.bytes_max == 0) {
    const std::uint64_t divided = machine.cache_bytes - std::min(config.cache.reserve, machine.cache_bytes);
    config.cache.bytes_max = std::max<std::uint64_t>(1, Part(divided, count, all));
  }
  if (config.image.bytes_max == 0) {
    const std::uint64_t share = Part(machine.memory_bytes / kImagesOf, count, all);
    const std::uint64_t most = std::min(share, machine.memory_here / kImagesOf);
    config.image.bytes_max = std::max(kImageBytesLeast, most);
  }
  return config;
}

std::uint64_t QuotaOf(const Config& config, std::string_view user, const Machine& machine) {
  const std::uint64_t bytes = WithShares(config, user, machine).cache.bytes_max;
  const std::uint64_t records = bytes / kRecordsOf;
  return bytes > UINT64_MAX - records ? UINT64_MAX : bytes + records;
}

}  // namespace cairn
