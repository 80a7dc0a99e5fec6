#include "client/reader/dataset.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/reader/view_source.h"
#include "storage/base/status.h"
#include "storage/format/view/view.h"
#include "storage/place/view/folder.h"

namespace cairn::reader {
namespace {

using OpenedDirectory = absl::StatusOr<std::unique_ptr<bpdir::Directory>>;

OpenedDirectory OpenFilesOf(Prefix& prefix, DatasetId id, const std::vector<catalogue::Catalogue>& catalogues) {
  constexpr std::string_view kIndex = "/md.idx";
  std::set<std::string> found;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (const catalogue::FileEntry& file : catalogue.file()) {
      const std::string_view name = file.prefix_name();
      if (name.ends_with(kIndex)) found.emplace(name.substr(0, name.size() - kIndex.size()));
    }
  }
  if (found.size() == 1) return bpdir::Directory::Open(prefix.FilePath(*found.begin()));
  if (found.empty()) return InvalidArgument("dataset {}: files of the application's, none of them BP5", id);
  return InvalidArgument("dataset {}: several BP5 directories, open one by its path: {}", id, fmt::join(found, ", "));
}

OpenedDirectory OpenInMemory(Disk& disk, Prefix& prefix, DatasetId id, std::vector<catalogue::Catalogue> catalogues) {
  CAIRN_RETURN_IF_ERROR(view::Complete(disk, prefix.path(), catalogues));
  CAIRN_ASSIGN_OR_RETURN(view::ViewFiles files, view::BuildView(catalogues));
  CAIRN_ASSIGN_OR_RETURN(auto source, SourceOfView(prefix.path(), view::FolderName(id), std::move(files)));
  return bpdir::Directory::Open(std::move(source));
}

}  // namespace

absl::StatusOr<std::unique_ptr<bpdir::Directory>> OpenDataset(Disk& disk, Prefix& prefix, DatasetId id) {
  auto view = bpdir::Directory::Open(prefix.FilePath(view::FolderName(id)));
  if (view.ok()) return view;
  CAIRN_ASSIGN_OR_RETURN(std::vector<catalogue::Catalogue> catalogues, prefix.Catalogues(id));
  const bool files = !catalogues.empty() && catalogues.front().files();
  return files ? OpenFilesOf(prefix, id, catalogues) : OpenInMemory(disk, prefix, id, std::move(catalogues));
}

}  // namespace cairn::reader
