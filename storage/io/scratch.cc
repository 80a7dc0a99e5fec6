#include "storage/io/scratch.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn {

absl::StatusOr<ScratchFile> ScratchFile::Open(Disk& disk, const std::string& path) {
  absl::StatusOr<std::unique_ptr<File>> unnamed = disk.OpenUnnamed(ParentOf(path));
  if (unnamed.ok()) return ScratchFile(disk, *std::move(unnamed), "");
  if (!absl::IsFailedPrecondition(unnamed.status())) return unnamed.status();
  std::string name = WorkName(path);
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         disk.Open(name, {.direct = true, .writable = true, .create = true, .exclusive = true}));
  return ScratchFile(disk, std::move(file), std::move(name));
}

ScratchFile::~ScratchFile() {
  if (file_ != nullptr) Remove().IgnoreError();  // an error came before this, or Remove would have been called
}

absl::Status ScratchFile::Remove() {
  file_ = nullptr;  // first: see NFS in the header
  return name_.empty() ? absl::OkStatus() : disk_->Remove(std::exchange(name_, ""));
}

namespace {

constexpr std::size_t kWorkDigits = 16;  // WorkName's

// Work files of others have shorter numbers: TransferWorkName.
bool IsScratchOf(const std::string& stem, const std::string& name) {
  return name.size() == stem.size() + kWorkDigits && name.starts_with(stem) && IsWorkName(name);
}

// Gone already: OK.
absl::Status RemoveIfFile(Disk& disk, const std::string& path) {
  const auto info = disk.Info(path);
  if (!info.ok()) return absl::IsNotFound(info.status()) ? absl::OkStatus() : info.status();
  if (!info->is_regular()) return absl::OkStatus();
  const absl::Status removed = disk.Remove(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace

absl::Status RemoveScratch(Disk& disk, const std::string& path) {
  const std::string folder = ParentOf(path), stem = BaseOf(path) + std::string(kWorkSuffix);
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(folder));
  absl::Status first;
  for (const std::string& name : names) {
    if (IsScratchOf(stem, name)) first.Update(RemoveIfFile(disk, folder + "/" + name));
  }
  return first;
}

}  // namespace cairn
