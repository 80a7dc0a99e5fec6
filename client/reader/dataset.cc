#include "client/reader/dataset.h"

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/bpdir/checked_source.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/file/bpdir/memory_source.h"
#include "storage/job/dataset_bp5/dataset_bp5.h"

namespace cairn::reader {
namespace {

absl::StatusOr<OpenedDataset> OpenFilesOf(const StoredDataset& dataset, bool check) {
  const std::map<std::string, std::string> found = DirectoriesIn(dataset);
  if (found.empty())
    return InvalidArgument("dataset {}: the application's own files, and none of them is BP5", dataset.id);
  if (found.size() > 1) {
    std::vector<std::string> names;
    for (const auto& [name, path] : found) names.push_back(name);
    return InvalidArgument("dataset {}: several BP5 directories, open one by its path: {}", dataset.id,
                           fmt::join(names, ", "));
  }
  const auto& [name, path] = *found.begin();
  OpenedDataset opened;
  CAIRN_ASSIGN_OR_RETURN(opened.directory, bpdir::Directory::Open(path, check ? SumsIn(dataset, name) : nullptr));
  return opened;
}

// Its data: the ranks' files in the prefix, mapped.
absl::StatusOr<OpenedDataset> OpenInMemory(Disk& disk, StoredDataset dataset, bool check) {
  const std::string title = fmt::format("dataset {} of {}", dataset.id, dataset.root);
  CAIRN_ASSIGN_OR_RETURN(auto below, bpdir::MapFiles(dataset.root));
  CAIRN_ASSIGN_OR_RETURN(const MadeView view, ViewInMemory(disk, std::move(dataset), title));
  auto data = bpdir::CheckFiles(std::move(below), check ? view.sums : nullptr);
  OpenedDataset opened;
  CAIRN_ASSIGN_OR_RETURN(opened.directory,
                         bpdir::Directory::Open(bpdir::FilesInMemory(view.directory, std::move(data))));
  if (!view.on_disk.ok()) opened.notes.push_back(NoteOfDamagedView(view.on_disk));
  return opened;
}

}  // namespace

absl::StatusOr<OpenedDataset> OpenDataset(Disk& disk, Prefix& prefix, DatasetId id, bool check) {
  const auto path = check ? std::nullopt : ViewOnDisk(disk, prefix.path(), id);
  if (path) {
    auto view = OpenView(*path);
    if (view.ok()) return OpenedDataset{.directory = *std::move(view), .notes = {}};
  }
  CAIRN_ASSIGN_OR_RETURN(StoredDataset dataset, DatasetInPrefix(prefix, id));
  return dataset.holds_files() ? OpenFilesOf(dataset, check) : OpenInMemory(disk, std::move(dataset), check);
}

}  // namespace cairn::reader
