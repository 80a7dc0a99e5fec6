#include "storage/io/disk.h"

#include "storage/base/path.h"

#include "storage/base/status.h"

namespace cairn {
namespace {

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

absl::Status WriteSynced(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                         disk.Open(path, {.writable = true, .create = true, .exclusive = true, .mode = mode}));
  if (!bytes.empty()) CAIRN_RETURN_IF_ERROR(file->WriteAt(0, AsBytes(bytes)));
  return file->Sync();
}

// Writes a work file and lets `publish` make the name of it; the work file is gone afterwards if that can be had.
template <typename Publish>
absl::Status WriteAndPublish(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode,
                             Publish publish) {
  const std::string work = WorkName(path);
  absl::Status status = WriteSynced(disk, work, bytes, mode);
  if (status.ok()) status = publish(work);
  if (!status.ok()) disk.Remove(work).IgnoreError();  // the first error counts; a work name is garbage anyway
  return status;
}

// Whether both names are the same file. NFS may answer EEXIST to a link that it made, when the first answer was lost.
bool SameFile(Disk& disk, const std::string& a, const std::string& b) {
  const auto a_info = disk.Info(a);
  const auto b_info = disk.Info(b);
  return a_info.ok() && b_info.ok() && a_info->inode == b_info->inode && a_info->device == b_info->device;
}

// A link to a directory is one, too: sites like to have them in the paths that they give out.
absl::StatusOr<bool> IsDirectory(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path + "/.");
  if (absl::IsNotFound(info.status())) return false;
  if (!info.ok()) return info.status();
  return info->is_directory();
}

}  // namespace

absl::StatusOr<std::string> ReadWhole(Disk& disk, const std::string& path, std::uint64_t bytes_max) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (!info.is_regular()) return InvalidArgument("{}: not a regular file", path);
  if (info.bytes > bytes_max) {
    return ResourceExhausted("{}: {} bytes, at most {} are read", path, info.bytes, bytes_max);
  }
  std::string text(info.bytes, '\0');
  if (!text.empty()) CAIRN_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  return text;
}

absl::Status ReplaceFile(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode) {
  return WriteAndPublish(disk, path, bytes, mode, [&](const std::string& work) -> absl::Status {
    CAIRN_RETURN_IF_ERROR(disk.Rename(work, path));
    return disk.SyncDirectory(ParentOf(path));  // before this a crash may undo the rename
  });
}

absl::Status CreateFileOnce(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode) {
  return WriteAndPublish(disk, path, bytes, mode, [&](const std::string& work) -> absl::Status {
    absl::Status linked = disk.Link(work, path);
    if (absl::IsAlreadyExists(linked) && SameFile(disk, work, path)) linked = absl::OkStatus();
    if (!linked.ok() && !absl::IsAlreadyExists(linked)) return linked;
    disk.Remove(work).IgnoreError();  // garbage from here on
    // If another was first, its maker may not have come to this yet, but our caller will rely on the name.
    CAIRN_RETURN_IF_ERROR(disk.SyncDirectory(ParentOf(path)));
    return linked;
  });
}

absl::Status MakeDirectories(Disk& disk, const std::string& path, std::uint32_t mode) {
  CAIRN_ASSIGN_OR_RETURN(const bool there, IsDirectory(disk, path));
  const std::string parent = ParentOf(path);
  if (there || parent == path) return absl::OkStatus();
  CAIRN_RETURN_IF_ERROR(MakeDirectories(disk, parent, mode));
  absl::Status made = disk.MakeDirectory(path, mode);
  if (absl::IsAlreadyExists(made)) {  // another was faster, with whatever
    CAIRN_ASSIGN_OR_RETURN(const bool now, IsDirectory(disk, path));
    if (!now) return AlreadyExists("{}: there, but no directory", path);
  } else if (!made.ok()) {
    return made;
  }
  const absl::Status synced = disk.SyncDirectory(parent);
  // Else the next to come finds it there, takes it to be durable, and builds upon it.
  if (!synced.ok() && made.ok()) disk.Remove(path).IgnoreError();  // the error before tells
  return synced;
}

absl::Status RemoveTree(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  if (!info.ok()) return info.status();
  if (info->is_directory()) {
    const auto names = disk.List(path);
    if (!names.ok() && !absl::IsNotFound(names.status())) return names.status();
    if (names.ok()) {
      for (const std::string& name : *names) {
        CAIRN_RETURN_IF_ERROR(RemoveTree(disk, fmt::format("{}/{}", path, name)));
      }
    }
  }
  const absl::Status removed = disk.Remove(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace cairn
