#include "storage/place/cache/spare_files.h"

#include <utility>

#include "storage/base/path.h"
#include "storage/format/scr/redset_records.h"

namespace cairn {
namespace {

bool IsOfData(const std::string& name) {
  const auto redset = scr::ParseRedsetName(name);
  return redset && redset->kind == scr::RedsetKind::kData && redset->what == scr::RedsetName::What::kHeader;
}

}  // namespace

std::vector<SpareFile> TakeSpareFiles(Disk& disk, const std::string& run_folder, const std::string& records,
                                      std::uint64_t bytes_max) {
  std::vector<SpareFile> taken;
  const auto names = disk.List(records);
  if (!names.ok()) return taken;
  for (const std::string& name : *names) {
    if (!IsOfData(name)) continue;
    const std::string path = records + "/" + name;
    const auto info = disk.Info(path);
    if (!info.ok() || !info->is_regular() || info->links != 1) continue;
    if (info->bytes < kSpareBytesMin || info->bytes > bytes_max) continue;
    SpareFile spare{.path = WorkName(run_folder + "/spare.redset"), .bytes = info->bytes};
    if (!disk.Rename(path, spare.path).ok()) continue;
    bytes_max -= spare.bytes;
    taken.push_back(std::move(spare));
  }
  return taken;
}

}  // namespace cairn
