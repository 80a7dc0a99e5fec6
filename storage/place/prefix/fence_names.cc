#include "storage/place/prefix/fence_names.h"

#include <fmt/format.h>

#include "storage/base/path.h"

namespace cairn::fence_names {
namespace {

constexpr std::string_view kEnd = ".cairn";

std::optional<std::string_view> WithoutEnd(std::string_view name) {
  if (!name.ends_with(kEnd)) return std::nullopt;
  return name.substr(0, name.size() - kEnd.size());
}

}  // namespace

std::string CommitOf(LaunchId committer) {
  return fmt::format("commit.{}{}", committer, kEnd);
}

std::optional<LaunchId> CommitterOf(std::string_view name) {
  const auto stem = WithoutEnd(name);
  const auto number = stem ? NumberAfter(*stem, "commit.") : std::nullopt;
  return number && *number > 0 ? number : std::nullopt;
}

std::string RemovalMark(DatasetId id, LaunchId committer) {
  return fmt::format("remove.{}.{}{}", id, committer, kEnd);
}

std::optional<std::pair<DatasetId, LaunchId>> ParseRemovalMark(std::string_view name) {
  const auto stem = WithoutEnd(name);
  const std::size_t dot = stem ? stem->rfind('.') : std::string_view::npos;
  if (dot == std::string_view::npos) return std::nullopt;
  const auto id = NumberAfter(stem->substr(0, dot), "remove.");
  const auto committer = NumberAfter(stem->substr(dot + 1), "");
  if (!id || !committer || *id == 0 || *committer == 0) return std::nullopt;
  return std::pair(*id, *committer);
}

std::string PlacingMark(DatasetId id) {
  return fmt::format("place.{}{}", id, kEnd);
}

std::optional<DatasetId> ParsePlacingMark(std::string_view name) {
  const auto stem = WithoutEnd(name);
  const auto id = stem ? NumberAfter(*stem, "place.") : std::nullopt;
  return id && *id > 0 ? id : std::nullopt;
}

}  // namespace cairn::fence_names
