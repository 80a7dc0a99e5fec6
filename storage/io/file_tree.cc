#include "storage/io/file_tree.h"

#include <algorithm>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

struct Folder {
  std::string name;  // relative; empty: the root
  std::size_t depth = 0;
};

std::string Join(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

absl::StatusOr<std::map<std::string, FileInfo>> ListFilesBelow(Disk& disk, const std::string& root,
                                                               const FileTreeBounds& bounds) {
  CAIRN_ASSIGN_OR_RETURN(const FileInfo top, disk.Info(root));
  if (!top.is_directory()) return FailedPrecondition("{} is not a directory", root);
  std::map<std::string, FileInfo> files;
  std::vector<Folder> open = {Folder()};
  std::size_t entries = 0;
  while (!open.empty()) {
    const Folder folder = std::move(open.back());
    open.pop_back();
    if (folder.depth > bounds.depth_max) {
      return FailedPrecondition("{}/{}: deeper than {} directories", root, folder.name, bounds.depth_max);
    }
    CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           disk.List(folder.name.empty() ? root : root + "/" + folder.name));
    for (const std::string& base : names) {
      if (++entries > bounds.entries_max)
        return ResourceExhausted("{}: more than {} entries", root, bounds.entries_max);
      const std::string name = Join(folder.name, base);
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk.Info(root + "/" + name));
      if (info.is_directory()) {
        open.push_back({.name = name, .depth = folder.depth + 1});
      } else if (info.is_regular()) {
        files[name] = info;
      } else {
        return FailedPrecondition("{}/{} is {}", root, name,
                                  info.is_symlink() ? "a symbolic link" : "neither a file nor a directory");
      }
    }
  }
  return files;
}

std::uint64_t BytesBelow(Disk& disk, const std::string& root) {
  std::uint64_t bytes = 0;
  std::vector<std::string> open = {root};
  while (!open.empty()) {
    const std::string path = std::move(open.back());
    open.pop_back();
    const auto info = disk.Info(path);
    if (info.ok() && info->is_regular()) bytes += info->bytes;
    if (!info.ok() || !info->is_directory()) continue;
    const auto names = disk.List(path);
    if (!names.ok()) continue;
    for (const std::string& name : *names) open.push_back(path + "/" + name);
  }
  return bytes;
}

std::vector<std::string> FindDirectoriesWith(Disk& disk, const std::string& root, const std::string& name,
                                             const FileTreeBounds& bounds) {
  std::vector<std::string> found;
  std::vector<Folder> open = {Folder()};
  std::size_t entries = 0;
  while (!open.empty()) {
    const Folder folder = std::move(open.back());
    open.pop_back();
    const auto names = disk.List(folder.name.empty() ? root : root + "/" + folder.name);
    if (!names.ok()) continue;
    if (std::ranges::find(*names, name) != names->end()) {
      found.push_back(folder.name);
      continue;
    }
    if (folder.depth == bounds.depth_max) continue;
    for (const std::string& base : *names) {
      if (++entries > bounds.entries_max) return found;
      const std::string below = Join(folder.name, base);
      const auto info = disk.Info(root + "/" + below);
      if (info.ok() && info->is_directory()) open.push_back({.name = below, .depth = folder.depth + 1});
    }
  }
  std::ranges::sort(found);
  return found;
}

void RemoveEmptyFolders(Disk& disk, const std::string& root, const std::set<std::string>& folders) {
  const std::string below = root + "/";
  // From the back: what is inside of another one comes behind it.
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    for (std::string path = *folder; path.size() > below.size() && path.starts_with(below); path = ParentOf(path)) {
      const auto info = disk.Info(path);
      if (!info.ok() || !info->is_directory() || !disk.Remove(path).ok()) break;
    }
  }
}

}  // namespace cairn
