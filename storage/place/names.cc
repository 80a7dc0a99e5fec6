#include "storage/place/names.h"

#include <fmt/format.h>

#include "storage/base/path.h"
#include "storage/format/catalogue/catalogue.h"

namespace cairn {
namespace {

constexpr std::string_view kName = "ckpt.", kViewEnd = ".bp", kRecords = "scr.dataset.";

}  // namespace

std::string DatasetName(DatasetId id) {
  return fmt::format("{}{}", kName, id);
}

std::optional<DatasetId> DatasetOfName(std::string_view name) {
  return NumberAfter(name, kName);
}

std::string CheckpointPrefixName(DatasetId id, Rank rank) {
  return fmt::format("{}/{}", DatasetName(id), CheckpointFileName(id, rank));
}

std::string CataloguePrefixName(DatasetId id, Rank rank) {
  return fmt::format("{}/{}", DatasetName(id), CatalogueName(rank));
}

std::string RoutedFolder(DatasetId id) {
  return DatasetName(id) + "/files";
}

std::string AdoptedFolder(DatasetId id) {
  return DatasetName(id) + "/adopting";
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

bool IsOfDatasets(std::string_view name) {
  if (!name.starts_with(kName)) return false;
  name.remove_prefix(kName.size());
  if (name.ends_with(kViewEnd)) name.remove_suffix(kViewEnd.size());
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string RecordsFolderName(DatasetId id) {
  return fmt::format("{}{}", kRecords, id);
}

std::optional<DatasetId> DatasetOfRecords(std::string_view name) {
  return NumberAfter(name, kRecords);
}

}  // namespace cairn
