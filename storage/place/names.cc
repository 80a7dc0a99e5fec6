#include "storage/place/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/base/path.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {
namespace {

constexpr std::string_view kName = "ckpt.", kViewEnd = ".bp", kRecords = "scr.dataset.";
constexpr std::string_view kRouted = "files", kAdopted = "adopting";

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool IsDataFolder(std::string_view name) {
  return name.starts_with(kName) && IsNumber(name.substr(kName.size()));
}

bool IsView(std::string_view name) {
  return name.ends_with(kViewEnd) && IsDataFolder(name.substr(0, name.size() - kViewEnd.size()));
}

// Ckpt<number>-Rank<number>.fti
bool IsCheckpointFile(std::string_view name) {
  constexpr std::string_view kBefore = "Ckpt", kBetween = "-Rank", kEnd = ".fti";
  const std::size_t between = name.find(kBetween);
  if (!name.starts_with(kBefore) || between == std::string_view::npos || !name.ends_with(kEnd)) return false;
  const std::string_view rank = name.substr(between + kBetween.size());
  return IsNumber(name.substr(kBefore.size(), between - kBefore.size())) && rank.size() > kEnd.size() &&
         IsNumber(rank.substr(0, rank.size() - kEnd.size()));
}

// The first part of a path, which is left with the rest.
std::string_view TakePart(std::string_view* path) {
  const std::string_view part = path->substr(0, path->find('/'));
  path->remove_prefix(std::min(part.size() + 1, path->size()));
  return part;
}

}  // namespace

std::string DatasetName(DatasetId id) {
  return fmt::format("{}{}", kName, id);
}

std::optional<DatasetId> DatasetOfName(std::string_view name) {
  return NumberAfter(name, kName);
}

absl::Status CheckDatasetName(std::string_view name) {
  const auto wrong = [name](std::string_view why) { return InvalidArgument("dataset name {}: {}", Quoted(name), why); };
  if (name.empty() || name.size() > kDatasetNameBytesMax) {
    return wrong(fmt::format("has {} bytes, 1 to {} are possible", name.size(), kDatasetNameBytesMax));
  }
  const bool control =
      std::any_of(name.begin(), name.end(), [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; });
  if (control) return wrong("has a control character");
  if (name.find('/') != std::string_view::npos || name == "." || name == "..") return wrong("must be a name of a file");
  if (name.front() == ' ' || name.back() == ' ') return wrong("begins or ends with a blank");
  if (IsNumber(name)) return wrong("is a number, which means the dataset of that number");
  const bool default_name =
      IsDataFolder(name) || (name.starts_with(kRecords) && IsNumber(name.substr(kRecords.size())));
  if (default_name) return wrong("is a name of those that datasets without one have");
  return absl::OkStatus();
}

std::string CheckpointPrefixName(DatasetId id, Rank rank) {
  return fmt::format("{}/{}", DatasetName(id), CheckpointFileName(id, rank));
}

std::string CataloguePrefixName(DatasetId id, Rank rank) {
  return fmt::format("{}/{}", DatasetName(id), CatalogueName(rank));
}

std::string RoutedFolder(DatasetId id) {
  return fmt::format("{}/{}", DatasetName(id), kRouted);
}

std::string AdoptedFolder(DatasetId id) {
  return fmt::format("{}/{}", DatasetName(id), kAdopted);
}

std::string AdoptedName(DatasetId id, Rank rank, int file) {
  return fmt::format("{}/{}.{}", AdoptedFolder(id), rank, file);
}

std::string ViewFolderName(DatasetId id) {
  return fmt::format("{}{}{}", kName, id, kViewEnd);
}

std::optional<DatasetId> DatasetOfView(std::string_view name) {
  if (!name.ends_with(kViewEnd)) return std::nullopt;
  name.remove_suffix(kViewEnd.size());
  return NumberAfter(name, kName);
}

bool IsDatasetFile(std::string_view name, DatasetId id) {
  const std::string_view whole = IsWorkName(name) ? name.substr(0, name.rfind(kWorkSuffix)) : name;
  if (IsCatalogueName(whole)) return true;
  return whole.starts_with(fmt::format("Ckpt{}-Rank", id)) && whole.ends_with(".fti");
}

bool IsCairnsPlace(std::string_view name) {
  const std::string_view first = TakePart(&name);
  if (first == ".scr" || first == ".cairn" || IsView(first)) return true;
  if (!IsDataFolder(first)) return false;
  const std::string_view second = TakePart(&name);
  return second == kRouted || second == kAdopted || IsCatalogueName(second) || IsCheckpointFile(second);
}

absl::Status CheckApplicationsName(std::string_view name) {
  if (IsCairnsPlace(name) || IsDataFolder(name)) {
    return InvalidArgument("{}: such names in ckpt.<number> and ckpt.<number>.bp are kept for checkpoints of memory",
                           name);
  }
  std::string_view rest = name;
  if (IsCatalogueName(TakePart(&rest))) return InvalidArgument("{}: such names belong to the catalogues", name);
  return absl::OkStatus();
}

std::string RecordsFolderName(DatasetId id) {
  return fmt::format("{}{}", kRecords, id);
}

std::optional<DatasetId> DatasetOfRecords(std::string_view name) {
  return NumberAfter(name, kRecords);
}

}  // namespace cairn
