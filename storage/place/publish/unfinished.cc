#include "storage/place/publish/unfinished.h"

#include <set>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/transfer/work_file.h"
#include "storage/file/trees/tree_file.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/format/scr/records.h"
#include "storage/io/file_tree.h"
#include "storage/place/names.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/place.h"
#include "storage/place/prefix/waiting.h"

namespace cairn {
namespace {

using Catalogues = std::vector<catalogue::Catalogue>;

bool IsMissing(const absl::Status& status) {
  return absl::IsNotFound(status);
}

bool IsUnreadable(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) || absl::IsFailedPrecondition(status);
}

// Of a folder that may not be there.
absl::StatusOr<std::vector<std::string>> ListIfThere(Disk& disk, const std::string& folder) {
  auto names = disk.List(folder);
  if (IsMissing(names.status())) return std::vector<std::string>();
  return names;
}

absl::Status RemoveWorkFiles(Disk& disk, const Prefix& prefix, DatasetId id, const Catalogues& catalogues) {
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::string path = prefix.FilePath(file.prefix_name());
      const absl::Status removed = disk.Remove(TransferWorkName(path, file, catalogue.files() ? id : 0));
      if (!removed.ok() && !IsMissing(removed)) return removed;
    }
  }
  return absl::OkStatus();
}

// Some file systems keep whole seconds only; of a file without a mode its time is not known either.
bool HasTimeOf(const FileInfo& info, const catalogue::FileEntry& file) {
  if (file.mode() == 0) return true;
  const auto nanoseconds = static_cast<std::uint64_t>(info.mtime.tv_nsec);
  return info.mtime.tv_sec == file.mtime_s() && (nanoseconds == file.mtime_ns() || nanoseconds == 0);
}

// What is left of a catalogue: the files that are in their places.
absl::StatusOr<catalogue::Catalogue> InPlace(Disk& disk, const Prefix& prefix, const catalogue::Catalogue& catalogue) {
  catalogue::Catalogue placed = catalogue;
  placed.clear_file();
  for (int i = 0; i < catalogue.file_size(); ++i) {
    const catalogue::FileEntry& file = catalogue.file(i);
    CAIRN_ASSIGN_OR_RETURN(const auto waits, FindWaiting(disk, prefix.path(), catalogue, i));
    if (waits) continue;
    const auto info = disk.Info(prefix.FilePath(file.prefix_name()));
    if (IsMissing(info.status())) continue;
    if (!info.ok()) return info.status();
    if (info->is_regular() && info->bytes == file.bytes() && HasTimeOf(*info, file)) *placed.add_file() = file;
  }
  return placed;
}

// What Prefix::Remove is to take: all of checkpoints, and of the application's files those that are in their places.
absl::StatusOr<Catalogues> ToRemove(Disk& disk, const Prefix& prefix, const Catalogues& stored,
                                    const Leftovers& leftovers) {
  Catalogues all = stored;
  for (const catalogue::Catalogue& catalogue : leftovers.known) {
    if (!catalogue.files() || leftovers.placed) all.push_back(catalogue);
  }
  for (catalogue::Catalogue& catalogue : all) {
    if (!catalogue.files()) continue;
    CAIRN_ASSIGN_OR_RETURN(catalogue, InPlace(disk, prefix, catalogue));
  }
  return all;
}

// Once the dataset's files in ckpt.<id> are gone: where others of its files waited, and the folder if that was all.
absl::Status RemoveFolders(Disk& disk, const Prefix& prefix, DatasetId id) {
  const std::string folder = prefix.FilePath(DatasetName(id));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(disk, folder));
  // What waits no more is taken for put in its place: no catalogue may come back that says so of these.
  if (!names.empty()) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(folder));
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk, prefix.FilePath(RoutedFolder(id))));
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk, prefix.FilePath(AdoptedFolder(id))));
  const absl::Status removed = disk.Remove(folder);
  // Not empty: what is in it is not ours.
  return IsMissing(removed) || absl::IsAlreadyExists(removed) ? absl::OkStatus() : removed;
}

// Durably, each before what tells of it: the files in their places, the catalogues, the files that wait.
absl::Status RemoveBytes(Disk& disk, Prefix& prefix, DatasetId id, const Catalogues& catalogues) {
  std::map<std::string, DatasetId> others;  // asked for once something is in its place
  bool asked = false;
  RealNames real(disk, prefix.path());
  std::set<std::string> folders;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      if (catalogue.files() && !std::exchange(asked, true)) {
        CAIRN_ASSIGN_OR_RETURN(const auto committed, prefix.Committed());
        CAIRN_ASSIGN_OR_RETURN(others, NamesOfCommitted(disk, prefix, committed));
      }
      if (others.contains(file.prefix_name()) || others.contains(real.Of(file.prefix_name()))) continue;
      const std::string path = prefix.FilePath(file.prefix_name());
      const absl::Status removed = disk.Remove(path);
      if (!removed.ok() && !IsMissing(removed)) return removed;
      if (removed.ok()) folders.insert(ParentOf(path));
    }
  }
  for (const std::string& folder : folders) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(folder));
  RemoveEmptyFolders(disk, prefix.path(), folders);
  const std::string folder = prefix.FilePath(DatasetName(id));
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListIfThere(disk, folder));
  for (const std::string& name : names) {
    if (!IsDatasetFile(name, id)) continue;
    const absl::Status removed = disk.Remove(folder + "/" + name);
    // Not empty: somebody's folder of that name.
    if (!removed.ok() && !IsMissing(removed) && !absl::IsAlreadyExists(removed)) return removed;
  }
  return RemoveFolders(disk, prefix, id);
}

}  // namespace

absl::Status CheckStillOwn(Prefix& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const RunId now, prefix.CurrentRun());
  if (now == prefix.run()) return absl::OkStatus();
  return FailedPrecondition("{}: the prefix is run {} now", prefix.path(), now.Hex());
}

bool WasCommitted(const PrefixContents& contents, DatasetId id) {
  return contents.datasets.contains(id) || contents.dropped.contains(id) || contents.failed.contains(id) ||
         contents.fenced.contains(id);
}

absl::StatusOr<std::map<std::string, DatasetId>> NamesOfCommitted(
    Disk& disk, Prefix& prefix, const std::map<DatasetId, CommittedDataset>& committed) {
  std::map<std::string, DatasetId> names;
  for (const auto& [id, dataset] : committed) {
    if (!dataset.by_cairn) {
      const std::string stem = prefix.FilePath(fmt::format(".scr/scr.dataset.{}/rank2file", id));
      const auto list = scr::GetRank2File([&](const std::string& suffix) { return ReadTree(disk, stem + suffix); });
      if (!list.ok() && !IsUnreadable(list.status())) return list.status();
      if (!list.ok()) continue;
      for (const auto& [rank, files] : list->files) {
        for (const std::string& file : files) names[file] = id;
      }
    } else if (dataset.descriptor.own_files) {
      const auto catalogues = prefix.Catalogues(id);
      if (!catalogues.ok() && !IsUnreadable(catalogues.status())) return catalogues.status();
      if (!catalogues.ok()) continue;
      for (const catalogue::Catalogue& catalogue : *catalogues) {
        for (const catalogue::FileEntry& file : catalogue.file()) names[file.prefix_name()] = id;
      }
    }
  }
  return names;
}

absl::Status RemoveUnfinished(Disk& disk, Prefix& prefix, DatasetId id, const Leftovers& leftovers) {
  CAIRN_RETURN_IF_ERROR(CheckStillOwn(prefix));
  CAIRN_ASSIGN_OR_RETURN(const Catalogues stored, StoredCatalogues(disk, prefix.path(), prefix.identity(), id));
  CAIRN_RETURN_IF_ERROR(RemoveWorkFiles(disk, prefix, id, stored));
  CAIRN_RETURN_IF_ERROR(RemoveWorkFiles(disk, prefix, id, leftovers.known));
  CAIRN_ASSIGN_OR_RETURN(const Catalogues catalogues, ToRemove(disk, prefix, stored, leftovers));
  if (leftovers.alone) {
    CAIRN_RETURN_IF_ERROR(RemoveBytes(disk, prefix, id, catalogues));
    return prefix.Remove(id, {});
  }
  CAIRN_RETURN_IF_ERROR(prefix.Remove(id, catalogues));
  return RemoveFolders(disk, prefix, id);
}

}  // namespace cairn
