#include "storage/file/fti/scan.h"

#include "storage/base/path.h"

#include <algorithm>
#include <set>

#include "storage/base/status.h"

namespace cairn::fti {
namespace {

bool BelongsInto(FileKind kind, LevelFolder folder) {
  switch (kind) {
    case FileKind::kRank:
      return folder != LevelFolder::kDifferential;
    case FileKind::kCopy:
      return folder == LevelFolder::kPartner;
    case FileKind::kCode:
      return folder == LevelFolder::kEncoded;
    case FileKind::kDifferential:
      return folder == LevelFolder::kDifferential;
  }
  return false;
}

class Scanner {
 public:
  Scanner(Disk& disk, Warnings& warnings) : disk_(disk), warnings_(warnings) {}

  absl::Status Root(std::string root) {
    while (root.size() > 1 && root.back() == '/') root.pop_back();
    if (root.empty() || root[0] != '/') return InvalidArgument("\"{}\" is not an absolute path", root);
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(root + "/."));  // which follows a link
    if (!info.is_directory()) return InvalidArgument("{}: not a folder", root);
    const absl::StatusOr<std::vector<std::string>> names = disk_.List(root);
    if (!names.ok()) return names.status();
    if (!visited_.emplace(info.device, info.inode).second) return absl::OkStatus();
    return Folder(root, *names, 0);
  }

  Found Take() { return std::move(found_); }

 private:
  // Recursion ends at kScanDepth.
  absl::Status Folder(const std::string& path, const std::vector<std::string>& names, int depth) {
    entries_ += names.size();
    if (entries_ > kScanEntriesMax) {
      return ResourceExhausted("{}: more than {} names so far: name the execution's folders", path, kScanEntriesMax);
    }
    if (const auto level = ParseLevelFolder(BaseOf(path))) {
      return LevelFiles({.execution = BaseOf(ParentOf(path)),
                         .folder = *level,
                         .node = ParseNodeFolder(BaseOf(ParentOf(ParentOf(path)))),
                         .name = {},
                         .path = path},
                        names);
    }
    for (const std::string& name : names) CAIRN_RETURN_IF_ERROR(Entry(path, name, depth));
    return absl::OkStatus();
  }

  absl::Status Entry(const std::string& folder, const std::string& name, int depth) {
    const std::string path = folder == "/" ? "/" + name : folder + "/" + name;
    const absl::StatusOr<FileInfo> info = disk_.Info(path);
    if (!info.ok()) {
      warnings_.Add(fmt::format("passed over: {}", MessageOf(info.status())));
      return absl::OkStatus();
    }
    if (info->is_regular() && name == "Topology.fti") found_.topologies.emplace_back(BaseOf(folder), path);
    if (info->is_symlink()) warnings_.Add(fmt::format("{}: a symbolic link, not followed", path));
    if (!info->is_directory() || name == "tmp" || name == "stash" || name == "stage") return absl::OkStatus();
    if (depth == kScanDepth) {
      warnings_.Add(fmt::format("{}: too deep, not looked into", path));
      return absl::OkStatus();
    }
    if (!visited_.emplace(info->device, info->inode).second) return absl::OkStatus();
    const absl::StatusOr<std::vector<std::string>> names = disk_.List(path);
    if (!names.ok()) {
      warnings_.Add(fmt::format("passed over: {}", MessageOf(names.status())));
      return absl::OkStatus();
    }
    return Folder(path, *names, depth + 1);
  }

  // `place`: all but name, with the folder's path.
  absl::Status LevelFiles(const FoundFile& place, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      FoundFile file = place;
      file.path += "/" + name;
      if (IsOtherModeName(name)) found_.other_modes.emplace_back(file.execution, file.path);
      const std::optional<FileName> parsed = ParseFileName(name);
      if (!parsed) continue;
      const absl::StatusOr<FileInfo> info = disk_.Info(file.path);
      if (!info.ok()) {
        warnings_.Add(fmt::format("passed over: {}", MessageOf(info.status())));
      } else if (!info->is_regular()) {
        warnings_.Add(fmt::format("{}: not a regular file, passed over", file.path));
      } else if (!BelongsInto(parsed->kind, file.folder)) {
        warnings_.Add(fmt::format("{}: does not belong into this folder, passed over", file.path));
      } else {
        file.name = *parsed;
        found_.files.push_back(std::move(file));
      }
    }
    return absl::OkStatus();
  }

  Disk& disk_;
  Warnings& warnings_;
  Found found_;
  std::uint64_t entries_ = 0;
  std::set<std::pair<std::uint64_t, std::uint64_t>> visited_;  // device, inode
};

}  // namespace

std::vector<std::string> Warnings::Take() {
  if (more_ > 0) texts_.push_back(fmt::format("and {} more of such", more_));
  more_ = 0;
  return std::move(texts_);
}

absl::StatusOr<Found> Scan(Disk& disk, const std::vector<std::string>& roots, Warnings& warnings) {
  Scanner scanner(disk, warnings);
  for (const std::string& root : roots) CAIRN_RETURN_IF_ERROR(scanner.Root(root));
  return scanner.Take();
}

}  // namespace cairn::fti
