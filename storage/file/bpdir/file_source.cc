#include "storage/file/bpdir/file_source.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "storage/base/clock.h"
#include "storage/base/status.h"
#include "storage/base/unique_fd.h"
#include "storage/file/bpdir/held_bytes.h"
#include "storage/io/errno_status.h"

namespace cairn::bpdir {
namespace {

// Mapped beyond a file's end, so that a file that grows by little at a time does not need a mapping each time.
constexpr off_t kAheadBytes = off_t{16} << 20;
// So often it is looked whether files were cut, at most: most calls take less time than a look.
constexpr std::chrono::milliseconds kLookEach(1);
constexpr std::uint64_t kGrowthBytesMin = std::uint64_t{64} << 10, kGrowthBytesMax = std::uint64_t{1} << 30;

struct OpenFile {
  UniqueFd fd;
  dev_t device = 0;
  ino_t inode = 0;
};

// A pipe has a length, 0, and would be taken for a file that is not written yet.
absl::Status CheckRegular(const struct stat& stat, const std::string& path) {
  return S_ISREG(stat.st_mode) ? absl::OkStatus() : DataLoss("{}: not a regular file", path);
}

absl::StatusOr<std::uint64_t> BytesOf(const OpenFile& file, const std::string& path) {
  struct stat stat {};
  if (::fstat(file.fd.get(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path));
  return static_cast<std::uint64_t>(stat.st_size);
}

absl::Status ReadFully(const OpenFile& file, const std::string& path, std::uint64_t offset,
                       std::span<std::byte> target) {
  for (std::size_t done = 0; done < target.size();) {
    const std::uint64_t at = offset + done;
    if (at < offset || at > static_cast<std::uint64_t>(INT64_MAX)) {
      return DataLoss("{}: there is no byte {}", path, at);
    }
    const ssize_t got = ::pread(file.fd.get(), target.data() + done, target.size() - done, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("read {}", path));
    if (got == 0) return DataLoss("{}: ends at byte {}, before {}", path, at, offset + target.size());
    done += static_cast<std::size_t>(got);
  }
  return absl::OkStatus();
}

// Before mapped pages from `offset` on are looked at. Reads one byte: file systems of networks look for what others
// have written when a file is read, not when its pages are. If it is not in memory, what comes behind it is asked for:
// page by page the system would read little at a time.
absl::Status Prepare(const OpenFile& file, const std::string& path, std::uint64_t offset) {
  std::byte first{};
  const iovec vector = {.iov_base = &first, .iov_len = 1};
  const auto at = static_cast<off_t>(offset);
  const ssize_t got = ::preadv2(file.fd.get(), &vector, 1, at, RWF_NOWAIT);
  if (got == 1) return absl::OkStatus();
  if (got < 0 && errno == EAGAIN) ::posix_fadvise(file.fd.get(), at, kAheadBytes, POSIX_FADV_WILLNEED);
  return ReadFully(file, path, offset, std::span(&first, 1));
}

// A part of a file in memory, perhaps longer than the file was.
class Mapping {
 public:
  Mapping(std::byte* at, std::uint64_t bytes, std::uint64_t offset) : at_(at), bytes_(bytes), offset_(offset) {}
  Mapping(Mapping&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_), offset_(other.offset_) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (at_ != nullptr) ::munmap(at_, bytes_);
  }

  std::span<const std::byte> Part(std::uint64_t offset, std::uint64_t bytes) const {
    if (offset < offset_ || offset - offset_ > bytes_ || bytes > bytes_ - (offset - offset_)) return {};
    return {at_ + (offset - offset_), bytes};
  }

 private:
  std::byte* at_;
  std::uint64_t bytes_, offset_;
};

enum class Mapped { kNothing, kHeld, kHeldAndData };

class PosixFiles final : public FileSource {
 public:
  PosixFiles(std::string directory, Mapped mapped) : directory_(std::move(directory)), mapped_(mapped) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    struct stat stat {};
    if (::stat(NameOf(name).c_str(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat {}", NameOf(name)));
    CAIRN_RETURN_IF_ERROR(CheckRegular(stat, NameOf(name)));
    absl::MutexLock lock(&mutex_);
    const auto found = open_.find(name);
    if (found != open_.end() && (found->second->inode != stat.st_ino || found->second->device != stat.st_dev)) {
      open_.erase(found);  // another file has this name now
    }
    return static_cast<std::uint64_t>(stat.st_size);
  }

  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    CAIRN_ASSIGN_OR_RETURN(const auto file, Open(name));
    return ReadFully(*file, NameOf(name), offset, target);
  }

  absl::StatusOr<std::span<const std::byte>> HoldIf(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                                                    const PrefixCheck& check) override {
    if (bytes == 0) return std::span<const std::byte>();
    CAIRN_ASSIGN_OR_RETURN(const auto file, Open(name));
    CAIRN_ASSIGN_OR_RETURN(const std::uint64_t size, BytesOf(*file, NameOf(name)));
    if (offset > size || bytes > size - offset) {
      return DataLoss("{}: has {} bytes, not {} from {} on", NameOf(name), size, bytes, offset);
    }
    if (mapped_ != Mapped::kNothing) {
      CAIRN_RETURN_IF_ERROR(Prepare(*file, NameOf(name), offset));
      NoteHeld(name, file, offset + bytes);
      return Map(name, *file, size, offset, bytes);
    }
    return held_.Hold(NameOf(name), bytes, check, [&](std::uint64_t at, std::span<std::byte> target) {
      return ReadFully(*file, NameOf(name), offset + at, target);
    });
  }

  void Release(std::span<const std::byte> held) override {
    // Mappings cost no memory, and the next Hold finds them.
    if (mapped_ == Mapped::kNothing) held_.Release(held);
  }

  absl::Status CheckHeld() override {
    if (mapped_ == Mapped::kNothing) return absl::OkStatus();
    const auto now = SteadyNow();
    if (now < look_again_.load(std::memory_order_relaxed)) return absl::OkStatus();
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, held] : mapped_ends_) {
      CAIRN_ASSIGN_OR_RETURN(const std::uint64_t bytes, BytesOf(*held.file, NameOf(name)));
      if (bytes >= held.end) continue;
      return DataLoss("{}: was cut to {} bytes, of which {} are known: refresh, or open it anew", NameOf(name), bytes,
                      held.end);
    }
    look_again_.store(now + kLookEach, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  std::span<const std::byte> InPlace(const std::string& name, std::uint64_t offset, std::uint64_t bytes) override {
    if (mapped_ != Mapped::kHeldAndData || bytes == 0) return {};
    {
      absl::MutexLock lock(&mutex_);
      const auto found = maps_.find(name);
      if (found != maps_.end() && offset <= found->second.file_bytes && bytes <= found->second.file_bytes - offset) {
        const auto part = PartOf(found->second, offset, bytes);
        if (!part.empty()) return part;
      }
    }
    const auto file = Open(name);
    if (!file.ok()) return {};
    const auto size = BytesOf(**file, NameOf(name));
    if (!size.ok() || offset > *size || bytes > *size - offset) return {};
    // From the beginning on: the next one wanted may lie before.
    const auto all = Map(name, **file, *size, 0, *size);
    if (!all.ok()) return {};
    return all->subspan(offset, bytes);
  }

  std::string NameOf(const std::string& name) const override {
    return name.empty() ? directory_ : directory_ + "/" + name;
  }
  std::unique_ptr<FileSource> Anew() const override { return std::make_unique<PosixFiles>(directory_, mapped_); }

 private:
  struct Maps {
    std::vector<Mapping> parts;
    std::uint64_t file_bytes = 0;  // known to be there
  };
  struct HeldEnd {
    std::shared_ptr<const OpenFile> file;
    std::uint64_t end = 0;
  };

  void NoteHeld(const std::string& name, const std::shared_ptr<const OpenFile>& file, std::uint64_t end) {
    absl::MutexLock lock(&mutex_);
    HeldEnd& held = mapped_ends_[name];
    held.file = file;
    held.end = std::max(held.end, end);
  }

  absl::StatusOr<std::shared_ptr<const OpenFile>> Open(const std::string& name) {
    {
      absl::MutexLock lock(&mutex_);
      const auto found = open_.find(name);
      if (found != open_.end()) return found->second;
    }
    const std::string path = NameOf(name);
    auto file = std::make_shared<OpenFile>();
    // O_NONBLOCK: so that a named pipe cannot hold us.
    file->fd = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file->fd.valid()) return ErrnoStatus(errno, fmt::format("open {}", path));
    struct stat stat {};
    if (::fstat(file->fd.get(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat {}", path));
    CAIRN_RETURN_IF_ERROR(CheckRegular(stat, path));
    file->device = stat.st_dev;
    file->inode = stat.st_ino;
    absl::MutexLock lock(&mutex_);
    if (open_.size() >= kOpenFilesMax) open_.clear();  // who reads has the file still
    open_[name] = file;
    return std::shared_ptr<const OpenFile>(std::move(file));
  }

  static std::span<const std::byte> PartOf(const Maps& maps, std::uint64_t offset, std::uint64_t bytes) {
    for (auto mapping = maps.parts.rbegin(); mapping != maps.parts.rend(); ++mapping) {
      const auto part = mapping->Part(offset, bytes);
      if (!part.empty()) return part;
    }
    return {};
  }

  // REQUIRES: offset + bytes <= size, which the file has now; bytes > 0.
  absl::StatusOr<std::span<const std::byte>> Map(const std::string& name, const OpenFile& file, std::uint64_t size,
                                                 std::uint64_t offset, std::uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    Maps& maps = maps_[name];
    maps.file_bytes = std::max(maps.file_bytes, size);
    const auto there = PartOf(maps, offset, bytes);
    if (!there.empty()) return there;
    const std::uint64_t begin = offset - offset % page_bytes_, needed = size - begin;
    void* at = MAP_FAILED;
    std::uint64_t length = 0;
    for (std::uint64_t growth : {std::clamp(needed, kGrowthBytesMin, kGrowthBytesMax), std::uint64_t{0}}) {
      length = needed + growth;
      at = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.fd.get(), static_cast<off_t>(begin));
      if (at != MAP_FAILED) break;
    }
    if (at == MAP_FAILED) return ErrnoStatus(errno, fmt::format("map {}", NameOf(name)));
    maps.parts.emplace_back(static_cast<std::byte*>(at), length, begin);
    return maps.parts.back().Part(offset, bytes);
  }

  const std::string directory_;
  const Mapped mapped_;
  const std::uint64_t page_bytes_ = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  HeldBytes held_;
  absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<const OpenFile>> open_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Maps> maps_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, HeldEnd> mapped_ends_ ABSL_GUARDED_BY(mutex_);
  std::atomic<std::chrono::steady_clock::time_point> look_again_{};  // all of them were there a little before
};

absl::StatusOr<std::unique_ptr<FileSource>> OpenFiles(const std::string& directory, Mapped mapped) {
  struct stat stat {};
  if (::stat(directory.c_str(), &stat) != 0) return ErrnoStatus(errno, fmt::format("stat {}", directory));
  if (!S_ISDIR(stat.st_mode)) return NotFound("{}: not a directory", directory);
  return std::make_unique<PosixFiles>(directory, mapped);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileSource>> MapFiles(const std::string& directory) {
  return OpenFiles(directory, Mapped::kHeldAndData);
}

absl::StatusOr<std::unique_ptr<FileSource>> MapHeldFiles(const std::string& directory) {
  return OpenFiles(directory, Mapped::kHeld);
}

absl::StatusOr<std::unique_ptr<FileSource>> CopyFiles(const std::string& directory) {
  return OpenFiles(directory, Mapped::kNothing);
}

}  // namespace cairn::bpdir
