#include "storage/place/prefix/waiting.h"

#include <utility>

#include "storage/base/ids.h"
#include "storage/base/status.h"
#include "storage/file/transfer/work_file.h"
#include "storage/place/names.h"

namespace cairn {

absl::StatusOr<std::optional<std::string>> FindWaiting(Disk& disk, const std::string& prefix,
                                                       const catalogue::Catalogue& catalogue, int file) {
  const DatasetId id = catalogue.dataset();
  const catalogue::FileEntry& entry = catalogue.file(file);
  std::string places[] = {TransferWorkName(prefix + "/" + entry.prefix_name(), entry, id),
                          fmt::format("{}/{}/{}", prefix, RoutedFolder(id), entry.name()),
                          prefix + "/" + AdoptedName(id, catalogue.rank(), file)};
  for (std::string& place : places) {
    const auto info = disk.Info(place);
    if (info.ok()) return std::move(place);
    if (!absl::IsNotFound(info.status())) return info.status();
  }
  return std::nullopt;
}

absl::StatusOr<WaitingFiles> StillWaiting(Disk& disk, const std::string& prefix,
                                          const std::vector<catalogue::Catalogue>& catalogues) {
  WaitingFiles waiting;
  for (const catalogue::Catalogue& catalogue : catalogues) {
    for (int i = 0; catalogue.files() && i < catalogue.file_size(); ++i) {
      CAIRN_ASSIGN_OR_RETURN(std::optional<std::string> path, FindWaiting(disk, prefix, catalogue, i));
      if (path) waiting.emplace(catalogue.file(i).prefix_name(), *std::move(path));
    }
  }
  return waiting;
}

}  // namespace cairn
