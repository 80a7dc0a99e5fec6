#include "client/reader/dataset.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/file/bpdir/memory_source.h"
#include "storage/job/dataset_bp5/dataset_bp5.h"

namespace cairn::reader {
namespace {

using OpenedDirectory = absl::StatusOr<std::unique_ptr<bpdir::Directory>>;

OpenedDirectory OpenFilesOf(const StoredDataset& dataset) {
  const std::map<std::string, std::string> found = DirectoriesIn(dataset);
  if (found.size() == 1) return bpdir::Directory::Open(found.begin()->second);
  if (found.empty()) return InvalidArgument("dataset {}: files of the application's, none of them BP5", dataset.id);
  std::vector<std::string> names;
  for (const auto& [name, path] : found) names.push_back(name);
  return InvalidArgument("dataset {}: several BP5 directories, open one by its path: {}", dataset.id,
                         fmt::join(names, ", "));
}

// Its data: the ranks' files in the prefix, mapped.
OpenedDirectory OpenInMemory(Disk& disk, StoredDataset dataset) {
  const std::string title = fmt::format("dataset {} of {}", dataset.id, dataset.root);
  CAIRN_ASSIGN_OR_RETURN(auto below, bpdir::MapFiles(dataset.root));
  CAIRN_ASSIGN_OR_RETURN(const MadeView view, ViewInMemory(disk, std::move(dataset), title));
  return bpdir::Directory::Open(bpdir::FilesInMemory(view.directory, std::move(below)));
}

}  // namespace

OpenedDirectory OpenDataset(Disk& disk, Prefix& prefix, DatasetId id) {
  if (const auto path = ViewOnDisk(disk, prefix.path(), id)) {
    auto view = bpdir::Directory::Open(*path);
    if (view.ok()) return view;  // a damaged one is made anew
  }
  CAIRN_ASSIGN_OR_RETURN(StoredDataset dataset, DatasetInPrefix(prefix, id));
  return dataset.holds_files() ? OpenFilesOf(dataset) : OpenInMemory(disk, std::move(dataset));
}

}  // namespace cairn::reader
