#include "storage/place/arbiter/lease_series.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn {
namespace lease_series {
namespace {

constexpr std::string_view kEnd = ".lease";

}  // namespace

std::string NameOf(std::string_view stem, std::uint64_t epoch) {
  return fmt::format("{}.{}{}", stem, epoch, kEnd);
}

std::optional<std::pair<std::string_view, std::uint64_t>> Parse(std::string_view name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.remove_suffix(kEnd.size());
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto epoch = NumberAfter(name.substr(dot), ".");
  if (!epoch || *epoch == 0) return std::nullopt;
  return std::pair(name.substr(0, dot), *epoch);
}

std::uint64_t HighestEpoch(std::string_view stem, const std::vector<std::string>& names, std::uint64_t epoch_max) {
  std::uint64_t highest = 0;
  for (const std::string& name : names) {
    const auto parsed = Parse(name);
    if (parsed && parsed->first == stem && parsed->second <= epoch_max) highest = std::max(highest, parsed->second);
  }
  return highest;
}

absl::StatusOr<std::string> Pack(const std::string& name, const kvtree::Tree& tree) {
  std::string text = kvtree::Encode(tree);
  if (text.size() > kBytes) return Internal("{}: a lease of {} bytes, at most {}", name, text.size(), kBytes);
  text.resize(kBytes, '\0');
  return text;
}

std::optional<kvtree::Tree> Unpack(const Seen& seen) {
  if (seen.longer || seen.bytes.size() != kBytes) return std::nullopt;
  std::uint64_t tree_bytes = 0;
  auto tree = kvtree::Decode("lease", seen.bytes, &tree_bytes);
  if (!tree.ok() || seen.bytes.find_first_not_of('\0', tree_bytes) != std::string_view::npos) return std::nullopt;
  return *std::move(tree);
}

std::string Cleaned(std::string_view text, std::size_t bytes_max) {
  if (text.size() > bytes_max) {
    while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xc0) == 0x80) --bytes_max;
    text = text.substr(0, bytes_max);
  }
  std::string cleaned(text);
  std::replace_if(
      cleaned.begin(), cleaned.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  return cleaned;
}

absl::StatusOr<Seen> Read(Arbiter& arbiter, std::string_view stem, std::uint64_t epoch) {
  Seen seen{.epoch = epoch, .bytes = {}};
  CAIRN_ASSIGN_OR_RETURN(seen.bytes, arbiter.ReadLease(NameOf(stem, epoch), kBytes));
  seen.longer = seen.bytes.size() > kBytes;
  if (seen.longer) seen.bytes.resize(kBytes);
  return seen;
}

absl::StatusOr<std::optional<Seen>> Find(Arbiter& arbiter, std::string_view stem,
                                         const std::vector<std::string>& names) {
  std::uint64_t epoch = HighestEpoch(stem, names);
  for (; epoch != 0; epoch = HighestEpoch(stem, names, epoch - 1)) {
    auto seen = Read(arbiter, stem, epoch);
    if (seen.ok()) return std::optional(*std::move(seen));
    if (!absl::IsNotFound(seen.status())) return seen.status();
  }
  return std::optional<Seen>();
}

}  // namespace lease_series

void ChangeWatch::Saw(std::string_view stem, const std::optional<lease_series::Seen>& lease, Time now) {
  const bool first = !seen_ || stem_ != stem;
  if (!first && lease == lease_) return;
  changed_ = !first;
  seen_ = true;
  stem_ = stem;
  lease_ = lease;
  since_ = now;
}

}  // namespace cairn
