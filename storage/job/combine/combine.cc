#include "storage/job/combine/combine.h"

#include "storage/base/path.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/view/view.h"
#include "storage/place/view/folder.h"

namespace cairn::view {
namespace {

// How links in directory `path` call `prefix`, both absolute. Where they have nothing in common but the root, they are
// on different file systems by all appearance, and nobody moves them together.
std::string CallFrom(const std::string& path, const std::string& prefix) {
  const std::filesystem::path from = std::filesystem::path(path).lexically_normal();
  const std::filesystem::path to = std::filesystem::path(prefix).lexically_normal();
  const auto first_part = [](const std::filesystem::path& of) { return of.relative_path().begin()->string(); };
  if (from.relative_path().empty() || to.relative_path().empty() || first_part(from) != first_part(to)) return prefix;
  return to.lexically_relative(from).string();
}

// Nothing is there, or what CombineRun makes: metadata, and links, at least one, for data.
absl::Status CheckFree(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  const auto foreign = [&path](std::string_view why) {
    return AlreadyExists("{}: is there, and no directory of links to checkpoints: {}", path, why);
  };
  if (!info->is_directory()) return foreign("no directory");
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(path));
  std::size_t links = 0;
  for (const std::string& name : names) {
    if (name == "md.idx" || name == "md.0" || name == "mmd.0") continue;
    if (!NumberAfter(name, "data.")) return foreign(name);
    CAIRN_ASSIGN_OR_RETURN(const FileInfo file, disk.Info(path + "/" + name));
    if (!file.is_symlink()) return foreign(name + " is no link");
    ++links;
  }
  if (links == 0 && !names.empty()) return foreign("it has no links");
  return absl::OkStatus();
}

// Why the dataset cannot be in it at all; empty: it can.
std::string WhyNot(const CommittedDataset& dataset) {
  if (!dataset.by_cairn) return "was written by SCR";
  if (dataset.descriptor.own_files) return "has the application's own files";
  return {};
}

// What is wrong with this dataset alone, and not with the disk or the prefix.
bool IsItsOwn(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
         absl::IsFailedPrecondition(status);
}

absl::Status AddDataset(Disk& disk, Prefix& prefix, DatasetId id, Steps& steps) {
  CAIRN_ASSIGN_OR_RETURN(std::vector<catalogue::Catalogue> catalogues, prefix.Catalogues(id));
  CAIRN_RETURN_IF_ERROR(Complete(disk, prefix.path(), catalogues));
  return steps.Add(catalogues);
}

absl::Status NothingToShow(const std::string& path, const Combined& combined) {
  if (combined.left_out.empty()) return NotFound("{}: no dataset is committed", path);
  const auto& [id, why] = combined.left_out.back();
  return NotFound("{}: no dataset to show; {}: {}", path, id, why);
}

}  // namespace

absl::StatusOr<Combined> CombineRun(Disk& disk, Prefix& prefix, const std::string& path,
                                    const std::optional<std::set<DatasetId>>& only) {
  CAIRN_RETURN_IF_ERROR(CheckFree(disk, path));
  CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix.Committed());
  for (const DatasetId id : only.value_or(std::set<DatasetId>())) {
    if (!committed.contains(id)) return NotFound("{}: dataset {} is not committed", prefix.path(), id);
  }
  Combined combined;
  Steps steps(CallFrom(path, prefix.path()));
  for (const auto& [id, dataset] : committed) {
    if (only && !only->contains(id)) continue;
    if (std::string why = WhyNot(dataset); !why.empty()) {
      combined.left_out.emplace_back(id, std::move(why));
      continue;
    }
    const absl::Status added = AddDataset(disk, prefix, id, steps);
    if (added.ok()) {
      combined.steps.push_back({.dataset = id, .step = dataset.descriptor.step.value_or(0)});
    } else if (IsItsOwn(added)) {
      combined.left_out.emplace_back(id, MessageOf(added));
    } else {
      return added;
    }
  }
  if (combined.steps.empty()) return NothingToShow(prefix.path(), combined);
  CAIRN_RETURN_IF_ERROR(WriteFolder(disk, path, steps.Files()));
  return combined;
}

}  // namespace cairn::view
