#include "storage/io/disk.h"

#include <algorithm>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/io/once_frame.h"

namespace cairn {
namespace {

constexpr int kLooksMax = 2;  // at an empty file: between two its maker may have finished

std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

absl::Status WriteSynced(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                         disk.Open(path, {.writable = true, .create = true, .exclusive = true, .mode = mode}));
  if (!bytes.empty()) CAIRN_RETURN_IF_ERROR(file->WriteAt(0, AsBytes(bytes)));
  return file->Sync();
}

absl::StatusOr<std::string> ReadBytes(Disk& disk, const std::string& path, std::uint64_t bytes_max) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk.Open(path, {}));
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
  if (!info.is_regular()) return InvalidArgument("{}: not a regular file", path);
  const std::uint64_t room = std::min(bytes_max, UINT64_MAX - kFrameBytes);
  std::string text;
  if (info.bytes <= room + kFrameBytes) {
    text.resize(info.bytes);
    if (!text.empty()) CAIRN_RETURN_IF_ERROR(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  }
  if (info.bytes > room && StateOfFrame(text) == FrameState::kPlain) {
    return ResourceExhausted("{}: {} bytes, at most {} are read", path, info.bytes, bytes_max);
  }
  return text;
}

// Is somebody making the empty file that was just read, or died over it? Work files come before it and go after it.
absl::StatusOr<bool> HasMaker(Disk& disk, const std::string& path) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(ParentOf(path)));
  const std::string stem = OnceWorkStem(path);
  return std::ranges::any_of(names, [&stem](const std::string& name) { return name.starts_with(stem); });
}

// A link to a directory is one, too: sites like to have them in the paths that they give out.
absl::StatusOr<bool> IsDirectory(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path + "/.");
  if (absl::IsNotFound(info.status())) return false;
  if (!info.ok()) return info.status();
  return info->is_directory();
}

}  // namespace

absl::StatusOr<std::unique_ptr<File>> Disk::OpenUnnamed(const std::string& directory) {
  return FailedPrecondition("{}: this disk makes no files without names", directory);
}

absl::StatusOr<HandedFile> Disk::OpenForHanding(const std::string& path) {
  return FailedPrecondition("{}: this disk hands no files out", path);
}

absl::StatusOr<std::string> ReadWhole(Disk& disk, const std::string& path, std::uint64_t bytes_max) {
  for (int look = 1;; ++look) {
    CAIRN_ASSIGN_OR_RETURN(std::string text, ReadBytes(disk, path, bytes_max));
    switch (StateOfFrame(text)) {
      case FrameState::kPlain:
        break;
      case FrameState::kWhole:
        return text.substr(kFrameBytes);
      case FrameState::kIncomplete:
        return NotFound("{}: was never made completely", path);
      case FrameState::kDamaged:
        return DataLoss("{}: its {} bytes are not what its frame says", path, text.size());
    }
    if (!text.empty()) return text;
    CAIRN_ASSIGN_OR_RETURN(const bool made, HasMaker(disk, path));
    if (made) return NotFound("{}: its maker has not finished", path);
    if (look == kLooksMax) return text;  // nothing but an empty file
  }
}

absl::Status ReplaceFile(Disk& disk, const std::string& path, std::string_view bytes, std::uint32_t mode) {
  const std::string work = WorkName(path);
  absl::Status status = WriteSynced(disk, work, bytes, mode);
  if (status.ok()) status = disk.Rename(work, path);
  if (status.ok()) status = disk.SyncDirectory(ParentOf(path));  // before this a crash may undo the rename
  if (!status.ok()) disk.Remove(work).IgnoreError();  // the first error counts; a work name is garbage anyway
  return status;
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
