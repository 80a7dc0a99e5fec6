#include "storage/prefix/stale_work.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "storage/cache/tree_file.h"

namespace cairn {
namespace {

// Of a prefix with very many datasets not every folder is listed at each start: who is killed works at new ones.
constexpr std::size_t kFoldersMax = 1024;

void RemoveStaleIn(Disk& disk, const std::string& folder, const std::vector<std::string>& names, std::time_t now) {
  for (const std::string& name : names) {
    if (!IsWorkName(name)) continue;
    const std::string path = folder + "/" + name;
    const auto info = disk.Info(path);
    if (!info.ok() || !info->is_regular() || info->mtime.tv_sec <= 0) continue;
    if (now - info->mtime.tv_sec > kStaleWorkSeconds) disk.Remove(path).IgnoreError();
  }
}

}  // namespace

void RemoveStaleWork(Disk& disk, const std::string& prefix, std::time_t now) {
  const std::string records = prefix + "/.scr";
  const auto names = disk.List(records);
  if (!names.ok()) return;
  RemoveStaleIn(disk, records, *names, now);
  std::vector<std::uint64_t> ids;
  for (const std::string& name : *names) {
    if (const auto id = NumberAfter(name, "scr.dataset.")) ids.push_back(*id);
  }
  std::ranges::sort(ids, std::ranges::greater());
  ids.resize(std::min(ids.size(), kFoldersMax));
  for (const std::uint64_t id : ids) {
    const std::string folder = records + "/scr.dataset." + std::to_string(id);
    const auto inside = disk.List(folder);
    if (inside.ok()) RemoveStaleIn(disk, folder, *inside, now);
  }
}

}  // namespace cairn
