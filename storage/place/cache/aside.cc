#include "storage/place/cache/aside.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/file_tree.h"
#include "storage/place/cache/cache_index.h"
#include "storage/place/names.h"

namespace cairn {
namespace {

// Those that MoveAside moves in this folder: here as everywhere to <record>.damaged.<n>.
constexpr std::array<std::string_view, 2> kRecords = {kCacheIndexName, "run.cairn"};

// The id in <stem><id>.<n>.
std::optional<DatasetId> DatasetIn(std::string_view name, std::string_view stem) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || !NumberAfter(name.substr(dot), ".")) return std::nullopt;
  return NumberAfter(name.substr(0, dot), stem);
}

bool IsDamagedRecord(std::string_view name) {
  return std::ranges::any_of(kRecords, [name](std::string_view record) {
    return NumberAfter(name, fmt::format("{}.damaged.", record)).has_value();
  });
}

// As CacheFolder::SetAside leaves it.
bool IsDamagedInPlace(const scr::CacheEntry& entry) {
  const scr::Descriptor& descriptor = entry.descriptor;
  return descriptor.launch && !entry.bypass && descriptor.complete && !*descriptor.complete;
}

std::optional<Aside> AsideIn(const std::string& name, const std::map<DatasetId, scr::CacheEntry>& entries) {
  const auto id = DatasetOfRecords(name);
  if (!id) return AsideOf(name);
  const auto entry = entries.find(*id);
  if (entry == entries.end() || !IsDamagedInPlace(entry->second)) return std::nullopt;
  return Aside{.kind = Aside::Kind::kInPlace, .name = name, .dataset = *id};
}

}  // namespace

std::optional<Aside> AsideOf(std::string_view name) {
  Aside aside;
  aside.name = name;
  if (const auto damaged = DatasetIn(name, kDamagedStem)) {
    aside.dataset = *damaged;
  } else if (const auto taken = DatasetIn(name, kTakenStem)) {
    aside.kind = Aside::Kind::kTaken;
    aside.dataset = *taken;
  } else if (NumberAfter(name, kGoingStem)) {
    aside.kind = Aside::Kind::kGoing;
  } else if (!IsDamagedRecord(name)) {
    return std::nullopt;
  }
  return aside;
}

absl::StatusOr<std::vector<Aside>> FindAsides(Disk& disk, const std::string& path,
                                              const std::map<DatasetId, scr::CacheEntry>& entries) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(path));
  std::vector<Aside> found;
  for (const std::string& name : names) {
    std::optional<Aside> aside = AsideIn(name, entries);
    if (!aside) continue;
    const auto info = disk.Info(path + "/" + name);
    if (absl::IsNotFound(info.status())) continue;  // somebody has removed it meanwhile
    if (!info.ok()) return info.status();
    aside->since_us = info->ctime.tv_sec * 1'000'000 + info->ctime.tv_nsec / 1000;
    aside->bytes = BytesBelow(disk, path + "/" + name);
    found.push_back(*std::move(aside));
  }
  std::ranges::sort(found, {}, [](const Aside& one) { return std::tie(one.since_us, one.name); });
  return found;
}

absl::StatusOr<std::string> MarkGoing(Disk& disk, const std::string& path, const Aside& aside) {
  const std::string from = path + "/" + aside.name;
  if (aside.kind == Aside::Kind::kGoing) return from;
  return MoveAside(disk, from, fmt::format("{}/{}", path, kGoingStem.substr(0, kGoingStem.size() - 1)));
}

}  // namespace cairn
