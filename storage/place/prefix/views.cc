#include "storage/place/prefix/views.h"

#include "storage/base/path.h"
#include "storage/place/names.h"

#include <set>
#include <utility>

#include "storage/base/status.h"
#include "storage/format/view/view.h"
#include "storage/place/prefix/commit.h"
#include "storage/place/view/folder.h"

namespace cairn {
namespace {

std::string ViewPath(const std::string& prefix, DatasetId id) {
  return prefix + "/" + ViewFolderName(id);
}

absl::StatusOr<bool> HasView(Disk& disk, const std::string& prefix, DatasetId id) {
  const auto info = disk.Info(ViewPath(prefix, id) + "/md.idx");
  if (absl::IsNotFound(info.status())) return false;
  if (!info.ok()) return info.status();
  return true;
}

// ckpt.<id>.bp in the prefix.
absl::StatusOr<std::set<DatasetId>> ListViews(Disk& disk, const std::string& prefix) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(prefix));
  std::set<DatasetId> ids;
  for (const std::string& name : names) {
    if (const auto id = DatasetOfView(name)) ids.insert(*id);
  }
  return ids;
}

// Of datasets that were removed while another made the view and then died.
absl::Status RemoveOrphans(Disk& disk, const std::string& prefix, const std::set<DatasetId>& views,
                           const std::set<DatasetId>& removed) {
  for (const DatasetId id : views) {
    if (removed.contains(id)) CAIRN_RETURN_IF_ERROR(RemoveView(disk, prefix, id));
  }
  return absl::OkStatus();
}

absl::StatusOr<view::ViewFiles> FilesOf(Disk& disk, const std::string& prefix,
                                        const std::vector<catalogue::Catalogue>& catalogues) {
  if (view::IsComplete(catalogues)) return view::BuildView(catalogues);
  std::vector<catalogue::Catalogue> completed = catalogues;
  CAIRN_RETURN_IF_ERROR(view::Complete(disk, prefix, completed));
  return view::BuildView(completed);
}

absl::Status MakeOne(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<catalogue::Catalogue> catalogues, ReadCatalogues(disk, prefix, records, id));
  return MakeView(disk, prefix, records, id, catalogues);
}

}  // namespace

absl::Status MakeView(Disk& disk, const std::string& prefix, SharedRecords& records, DatasetId id,
                      const std::vector<catalogue::Catalogue>& catalogues) {
  if (catalogues.empty() || catalogues[0].files()) return absl::OkStatus();
  CAIRN_ASSIGN_OR_RETURN(const view::ViewFiles files, FilesOf(disk, prefix, catalogues));
  const absl::Status written = view::WriteFolder(disk, ViewPath(prefix, id), files);
  if (!written.ok()) {
    // Another may have made the same at the same time.
    if (!absl::IsAlreadyExists(written)) return written;
    CAIRN_ASSIGN_OR_RETURN(const bool there, HasView(disk, prefix, id));
    if (!there) return written;
  }
  // A removal that began before the view was there has not seen it.
  CAIRN_ASSIGN_OR_RETURN(const bool removed, records.IsRemoved(id));
  if (!removed) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(RemoveView(disk, prefix, id));
  return Aborted("{}: dataset {} was removed", prefix, id);
}

absl::StatusOr<DatasetId> MakeMissingViews(Disk& disk, const std::string& prefix, SharedRecords& records,
                                           DatasetId below, std::size_t at_most) {
  CAIRN_ASSIGN_OR_RETURN(const PrefixView view, records.LookQuickly());
  CAIRN_ASSIGN_OR_RETURN(const std::set<DatasetId> views, ListViews(disk, prefix));
  CAIRN_RETURN_IF_ERROR(RemoveOrphans(disk, prefix, views, view.removed));
  std::size_t tried = 0;
  for (auto at = view.commits.rbegin(); at != view.commits.rend(); ++at) {
    const auto& [id, commit] = *at;
    if (id >= below || commit.descriptor.own_files) continue;
    // The id may be SCR's by now.
    const auto entry = view.index.datasets.find(id);
    if (entry != view.index.datasets.end() && !entry->second.descriptor.launch) continue;
    if (views.contains(id)) {
      CAIRN_ASSIGN_OR_RETURN(const bool there, HasView(disk, prefix, id));
      if (there) continue;
    }
    if (tried++ == at_most) return id + 1;
    const absl::Status made = MakeOne(disk, prefix, records, id);
    if (absl::IsUnavailable(made)) return made;
    if (!made.ok() && !absl::IsNotFound(made)) WarnOfView(records, id, made);  // not found: removed meanwhile
  }
  return DatasetId{0};
}

void WarnOfView(SharedRecords& records, DatasetId id, const absl::Status& why) {
  if (absl::IsAborted(why)) return;  // there is no such dataset any more
  records.Warn(fmt::format("dataset {} has no BP5 view: {}", id, MessageOf(why)));
}

absl::Status RemoveView(Disk& disk, const std::string& prefix, DatasetId id) {
  return view::RemoveFolder(disk, ViewPath(prefix, id));
}

}  // namespace cairn
