#include "storage/place/prefix/stale_work.h"

#include "storage/base/path.h"
#include "storage/place/names.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cairn {
namespace {

// Of a prefix with very many datasets not every folder is listed at each start: who is killed works at new ones.
constexpr std::size_t kFoldersMax = 1024;

bool IsStale(const FileInfo& info, std::time_t now) {
  return info.mtime.tv_sec > 0 && now - info.mtime.tv_sec > kStaleWorkSeconds;
}

void RemoveStaleIn(Disk& disk, const std::string& folder, const std::vector<std::string>& names, std::time_t now) {
  for (const std::string& name : names) {
    if (!IsWorkName(name)) continue;
    const std::string path = folder + "/" + name;
    const auto info = disk.Info(path);
    if (info.ok() && info->is_regular() && IsStale(*info, now)) disk.Remove(path).IgnoreError();
  }
}

// ckpt.<id>.bp with the end of a work name: nobody but Cairn makes such names.
void RemoveStaleViews(Disk& disk, const std::string& prefix, std::time_t now) {
  const auto names = disk.List(prefix);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!IsWorkName(name)) continue;
    const std::string_view stem = std::string_view(name).substr(0, name.rfind(kWorkSuffix));
    if (!DatasetOfView(stem)) continue;
    const std::string path = prefix + "/" + name;
    const auto info = disk.Info(path);
    if (info.ok() && info->is_directory() && IsStale(*info, now)) RemoveTree(disk, path).IgnoreError();
  }
}

}  // namespace

void RemoveStaleWork(Disk& disk, const std::string& prefix, std::time_t now) {
  RemoveStaleViews(disk, prefix, now);
  const std::string own = prefix + "/.cairn";
  if (const auto left = disk.List(own); left.ok()) RemoveStaleIn(disk, own, *left, now);
  const std::string records = prefix + "/.scr";
  const auto names = disk.List(records);
  if (!names.ok()) return;
  RemoveStaleIn(disk, records, *names, now);
  for (const char* changes : {"/index.changes", "/flush.changes"}) {
    const auto inside = disk.List(records + changes);
    if (inside.ok()) RemoveStaleIn(disk, records + changes, *inside, now);
  }
  std::vector<std::uint64_t> ids;
  for (const std::string& name : *names) {
    if (const auto id = DatasetOfRecords(name)) ids.push_back(*id);
  }
  std::ranges::sort(ids, std::ranges::greater());
  ids.resize(std::min(ids.size(), kFoldersMax));
  for (const std::uint64_t id : ids) {
    const std::string folder = records + "/" + RecordsFolderName(id);
    const auto inside = disk.List(folder);
    if (inside.ok()) RemoveStaleIn(disk, folder, *inside, now);
  }
}

}  // namespace cairn
