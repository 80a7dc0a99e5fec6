// ReadFiles: the files of a directory through a Disk.
#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <filesystem>
#include <map>
#include <utility>

#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/file/bpdir/file_source.h"
#include "storage/file/bpdir/held_bytes.h"

namespace cairn::bpdir {
namespace {

constexpr std::uint64_t kFileBytesMax = INT64_MAX;
constexpr int kLinksMax = 8;  // one after the other

bool IsBelow(const std::string& path, const std::string& directory) {
  return directory == "/" || path.starts_with(directory + "/");
}

class DiskFiles final : public FileSource {
 public:
  DiskFiles(Disk& disk, std::string directory) : disk_(disk), directory_(std::move(directory)) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    CAIRN_ASSIGN_OR_RETURN(const Place place, Resolve(name));
    CAIRN_RETURN_IF_ERROR(CheckRegular(place));
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(name);
    if (found != open_.end() &&
        (found->second.inode != place.info.inode || found->second.device != place.info.device)) {
      open_.erase(found);  // another file has this name now
    }
    return place.info.bytes;
  }

  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<File> file, Open(name));
    // A place that no file can have is the metadata's mistake, not the reader's.
    if (offset > kFileBytesMax || target.size() > kFileBytesMax - offset) {
      return DataLoss("{}: there is no byte {}", NameOf(name), offset);
    }
    return file->ReadAt(offset, target);
  }

  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    if (bytes == 0) return std::span<const std::byte>();
    CAIRN_ASSIGN_OR_RETURN(const std::shared_ptr<File> file, Open(name));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    if (offset > info.bytes || bytes > info.bytes - offset) {
      return DataLoss("{}: has {} bytes, not {} from {} on", NameOf(name), info.bytes, bytes, offset);
    }
    return held_.Hold(NameOf(name), bytes, check,
                      [&](std::uint64_t at, std::span<std::byte> target) { return file->ReadAt(offset + at, target); });
  }

  void Release(std::span<const std::byte> held) override { held_.Release(held); }
  std::span<const std::byte> InPlace(const std::string&, std::uint64_t, std::uint64_t) override { return {}; }
  std::string NameOf(const std::string& name) const override {
    return name.empty() ? directory_ : directory_ + "/" + name;
  }
  std::unique_ptr<FileSource> Anew() const override { return std::make_unique<DiskFiles>(disk_, directory_); }

 private:
  struct Place {
    std::string path;
    FileInfo info;
  };
  struct Opened {
    std::shared_ptr<File> file;
    std::uint64_t device = 0, inode = 0;
  };

  static absl::Status CheckRegular(const Place& place) {
    return place.info.is_regular() ? absl::OkStatus() : DataLoss("{}: not a regular file", place.path);
  }

  // Where a name leads through its links: never out of the directory's surroundings.
  absl::StatusOr<Place> Resolve(const std::string& name) {
    std::string path = NameOf(name);
    for (int links = 0; links <= kLinksMax; ++links) {
      CAIRN_ASSIGN_OR_RETURN(const FileInfo info, disk_.Info(path));
      if (!info.is_symlink()) return Place{std::move(path), info};
      CAIRN_ASSIGN_OR_RETURN(const std::string target, disk_.ReadLink(path));
      std::string next = (std::filesystem::path(ParentOf(path)) / target).lexically_normal().string();
      if (target.starts_with('/') || !IsBelow(next, ParentOf(directory_))) {
        return PermissionDenied("{}: a link to {}, which is not followed", NameOf(name), target);
      }
      path = std::move(next);
    }
    return PermissionDenied("{}: more than {} links, one after the other", NameOf(name), kLinksMax);
  }

  absl::StatusOr<std::shared_ptr<File>> Open(const std::string& name) {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = open_.find(name);
      if (found != open_.end()) return found->second.file;
    }
    CAIRN_ASSIGN_OR_RETURN(const Place place, Resolve(name));
    CAIRN_RETURN_IF_ERROR(CheckRegular(place));
    CAIRN_ASSIGN_OR_RETURN(std::shared_ptr<File> file, disk_.Open(place.path, {}));
    absl::MutexLock lock(&mutex_);
    if (open_.size() >= kOpenFilesMax) open_.clear();  // who reads has the file still
    open_[name] = {.file = file, .device = place.info.device, .inode = place.info.inode};
    return file;
  }

  Disk& disk_;
  const std::string directory_;
  HeldBytes held_;
  absl::Mutex mutex_;
  std::map<std::string, Opened> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<FileSource> ReadFiles(Disk& disk, const std::string& directory) {
  // Without a slash at its end, so that its parent is the one that links lead out of.
  std::string path = std::filesystem::path(directory).lexically_normal().string();
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return std::make_unique<DiskFiles>(disk, std::move(path));
}

}  // namespace cairn::bpdir
