// Removal of a dataset with all that belongs to it, whoever wrote it.
#include <functional>
#include <set>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/catalogue/catalogue.h"
#include "storage/io/file_tree.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/prefix/index_access.h"
#include "storage/place/prefix/index_rules.h"
#include "storage/place/prefix/index_tools.h"
#include "storage/place/prefix/inside.h"
#include "storage/place/prefix/removal.h"
#include "storage/place/prefix/scr_dataset.h"
#include "storage/place/prefix/views.h"

namespace cairn {
namespace {

using Names = std::set<std::string>;

// As rank2file has them. One that was never written names none.
absl::StatusOr<Names> NamesOf(Disk& disk, SharedRecords& records, DatasetId id) {
  Names names;
  const std::string folder = records.DatasetFolder(id);
  if (absl::IsNotFound(disk.Info(folder + "/rank2file").status())) return names;
  CAIRN_ASSIGN_OR_RETURN(const scr::Rank2File listed, ReadRank2File(disk, folder));
  for (const auto& [rank, files] : listed.files) {
    for (const std::string& file : files) {
      const auto normal = NormalizeFileName("", file);
      if (normal.ok()) names.insert(*normal);  // nothing else is ever removed by name
    }
  }
  return names;
}

// Those that no other entry of the index has. One whose list cannot be read may have any of them.
absl::StatusOr<Names> OnlyOf(Disk& disk, SharedRecords& records, DatasetId id, const scr::Index& index) {
  CAIRN_ASSIGN_OR_RETURN(Names names, NamesOf(disk, records, id));
  for (const auto& [other, entry] : index.datasets) {
    if (other == id || names.empty()) continue;
    const auto theirs = NamesOf(disk, records, other);
    if (!theirs.ok()) {
      return Annotate(theirs.status(),
                      fmt::format("dataset {} may have files of dataset {}: drop it first", other, id));
    }
    for (const std::string& name : *theirs) names.erase(name);
  }
  return names;
}

absl::Status RemoveFiles(Disk& disk, const std::string& prefix, const Names& names) {
  Inside inside(disk, prefix);
  absl::Status first;
  std::set<std::string> folders;
  for (const std::string& name : names) {
    absl::Status removed = inside.Find(name).status();
    if (absl::IsFailedPrecondition(removed)) continue;  // no file, or not in the prefix: not the dataset's bytes
    const std::string path = prefix + "/" + name;
    if (removed.ok()) removed = disk.Remove(path);
    if (first.ok() && !removed.ok() && !absl::IsNotFound(removed)) first = removed;
    folders.insert(ParentOf(path));
  }
  RemoveEmptyFolders(disk, prefix, folders);
  return first;
}

absl::Status RemoveScrDataset(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                              const scr::Index& index) {
  CAIRN_ASSIGN_OR_RETURN(const Names names, OnlyOf(disk, records, id, index));
  const auto erase_entry = [&] {
    return records.ChangeIndex([id](kvtree::Tree& tree) {
      index_rules::Erase(id, tree);
      return absl::OkStatus();
    });
  };
  const absl::Status erased = erase_entry();
  // Without room for another index the files go first, and make some: SCR would not get far with them.
  if (!erased.ok() && !absl::IsResourceExhausted(erased)) return erased;
  CAIRN_RETURN_IF_ERROR(RemoveFiles(disk, prefix, names));
  if (!erased.ok()) CAIRN_RETURN_IF_ERROR(erase_entry());
  // The root of the list first: without its parts another try could not tell that all files are gone.
  const std::string folder = records.DatasetFolder(id);
  const absl::Status root = disk.Remove(folder + "/rank2file");
  if (!root.ok() && !absl::IsNotFound(root)) return root;
  if (root.ok()) CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(folder));
  CAIRN_RETURN_IF_ERROR(RemoveTree(disk, folder));
  return disk.SyncDirectory(records.Folder());
}

absl::Status RemoveOwnDataset(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                              const scr::Index& index) {
  const auto catalogues = ReadCatalogues(disk, prefix, records, id);
  if (catalogues.ok()) return RemoveDataset(disk, prefix, records, id, *catalogues);
  if (!absl::IsDataLoss(catalogues.status()) && !absl::IsNotFound(catalogues.status())) return catalogues.status();
  // Not committed, or damaged: SCR's lists name the files, too.
  CAIRN_ASSIGN_OR_RETURN(const Names names, OnlyOf(disk, records, id, index));
  CAIRN_RETURN_IF_ERROR(WithdrawForRemoval(disk, prefix, records, id).status());
  CAIRN_RETURN_IF_ERROR(RemoveView(disk, prefix, id));
  CAIRN_RETURN_IF_ERROR(RemoveFiles(disk, prefix, names));
  return RemoveDataset(disk, prefix, records, id, {});
}

}  // namespace

absl::Status RemoveFromIndex(Disk& disk, const std::string& prefix, std::string_view name) {
  SharedRecords records(disk, prefix, index_access::RunOf(disk, prefix));
  // A full prefix cannot be mended before something has gone.
  if (const absl::Status mended = records.Mend(); !mended.ok() && !absl::IsResourceExhausted(mended)) return mended;
  CAIRN_ASSIGN_OR_RETURN(const kvtree::Tree tree, records.ReadIndex());
  scr::Index index;
  if (!tree.empty()) {
    CAIRN_ASSIGN_OR_RETURN(index, scr::GetIndex(tree));
  }
  auto id = index_access::FindEntry(name, tree);
  if (!id) {  // dropped before: its records are still there
    const auto dropped = index_access::FindRecords(records, name);
    if (absl::IsNotFound(dropped.status())) return index_access::NoSuchDataset(prefix, name);
    if (!dropped.ok()) return dropped.status();
    CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(*dropped));
    if (removed) return index_access::NoSuchDataset(prefix, name);
    id = *dropped;
  }
  const auto entry = index.datasets.find(*id);
  const auto summary = records.ReadScrSummary(*id);  // SCR may have given out the number of a committed one again
  const bool by_cairn = entry != index.datasets.end()
                            ? entry->second.descriptor.launch.has_value()
                            : !summary.ok() && (records.ReadCommit(*id).ok() || absl::IsNotFound(summary.status()));
  CAIRN_RETURN_IF_ERROR(by_cairn ? RemoveOwnDataset(disk, prefix, records, *id, index)
                                 : RemoveScrDataset(disk, prefix, records, *id, index));
  return records.ChangeFlush([&](kvtree::Tree& flush) {
    scr::EraseFlushEntry(*id, flush);
    return absl::OkStatus();
  });
}

}  // namespace cairn
