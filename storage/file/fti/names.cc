#include "storage/file/fti/names.h"

#include <fmt/format.h>

#include <charconv>

namespace cairn::fti {
namespace {

bool Skip(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

// A decimal number as a printf would make it, at most `max`.
std::optional<std::uint32_t> SkipNumber(std::string_view& rest, std::uint32_t max) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || value > max) return std::nullopt;
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (digits > 1 && rest[0] == '0') return std::nullopt;
  rest.remove_prefix(digits);
  return value;
}

std::optional<std::uint32_t> SkipRank(std::string_view& rest) {
  return SkipNumber(rest, kRanksMax - 1);
}

std::optional<FileKind> SkipKind(std::string_view& rest) {
  if (Skip(rest, "-Rank")) return FileKind::kRank;
  if (Skip(rest, "-Pcof")) return FileKind::kCopy;
  if (Skip(rest, "-RSed")) return FileKind::kCode;
  return std::nullopt;
}

}  // namespace

std::optional<FileName> ParseFileName(std::string_view name) {
  FileName parsed;
  if (Skip(name, "dCPFile-Rank")) {
    parsed.kind = FileKind::kDifferential;
  } else {
    if (!Skip(name, "Ckpt")) return std::nullopt;
    const auto id = SkipNumber(name, kCheckpointIdMax);
    const auto kind = SkipKind(name);
    if (!id || !kind) return std::nullopt;
    parsed.id = static_cast<std::int32_t>(*id);
    parsed.kind = *kind;
  }
  const auto rank = SkipRank(name);
  if (!rank || name != ".fti") return std::nullopt;
  parsed.rank = *rank;
  return parsed;
}

std::string MakeFileName(const FileName& name) {
  switch (name.kind) {
    case FileKind::kRank:
      return fmt::format("Ckpt{}-Rank{}.fti", name.id, name.rank);
    case FileKind::kCopy:
      return fmt::format("Ckpt{}-Pcof{}.fti", name.id, name.rank);
    case FileKind::kCode:
      return fmt::format("Ckpt{}-RSed{}.fti", name.id, name.rank);
    case FileKind::kDifferential:
      break;
  }
  return fmt::format("dCPFile-Rank{}.fti", name.rank);
}

std::optional<std::uint32_t> ParseNodeFolder(std::string_view name) {
  if (!Skip(name, "node")) return std::nullopt;
  const auto node = SkipRank(name);
  return name.empty() ? node : std::nullopt;
}

std::optional<LevelFolder> ParseLevelFolder(std::string_view name) {
  if (name == "l1") return LevelFolder::kLocal;
  if (name == "l2") return LevelFolder::kPartner;
  if (name == "l3") return LevelFolder::kEncoded;
  if (name == "l4" || name == "l4_archive") return LevelFolder::kGlobal;
  if (name == "lL4Dir") return LevelFolder::kReplica;
  if (name == "dCP") return LevelFolder::kDifferential;
  return std::nullopt;
}

std::string_view PluralOf(FileKind kind) {
  switch (kind) {
    case FileKind::kRank:
      return "checkpoint files";
    case FileKind::kCopy:
      return "copies (Pcof)";
    case FileKind::kCode:
      return "code files (RSed)";
    case FileKind::kDifferential:
      return "differential files";
  }
  return "";
}

bool IsOtherModeName(std::string_view name) {
  if (Skip(name, "sector")) return SkipRank(name) && Skip(name, "-group") && SkipRank(name) && name == ".fti";
  if (Skip(name, "dcp-id")) return SkipRank(name) && Skip(name, "-rank") && SkipRank(name) && name == ".fti";
  return false;
}

}  // namespace cairn::fti
