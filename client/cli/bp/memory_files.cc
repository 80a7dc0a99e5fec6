#include "client/cli/bp/memory_files.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "storage/base/status.h"

namespace cairn::cli {
namespace {

class MemoryFiles : public bpdir::FileSource {
 public:
  MemoryFiles(Disk& disk, std::shared_ptr<const MemoryDirectory> directory)
      : disk_(disk), directory_(std::move(directory)) {}

  absl::StatusOr<std::uint64_t> Bytes(const std::string& name) override {
    if (const std::string* const held = Held(name); held != nullptr) return held->size();
    CAIRN_ASSIGN_OR_RETURN(File* const file, Open(name));
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    return info.bytes;
  }

  absl::Status Read(const std::string& name, std::uint64_t offset, std::span<std::byte> target) override {
    if (Held(name) == nullptr) {
      CAIRN_ASSIGN_OR_RETURN(File* const file, Open(name));
      return file->ReadAt(offset, target);
    }
    CAIRN_ASSIGN_OR_RETURN(const auto bytes, Hold(name, offset, target.size()));
    std::copy(bytes.begin(), bytes.end(), target.begin());
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<const std::byte>> Hold(const std::string& name, std::uint64_t offset,
                                                  std::uint64_t bytes) override {
    const std::string* const held = Held(name);
    if (held == nullptr) return Internal("{}: data is read, not held", NameOf(name));
    if (offset > held->size() || bytes > held->size() - offset) {
      return DataLoss("{}: {} bytes at {} of {}", NameOf(name), bytes, offset, held->size());
    }
    return std::as_bytes(std::span(*held)).subspan(offset, bytes);
  }

  void Release(std::span<const std::byte>) override {}  // the strings stay

  std::unique_ptr<bpdir::FileSource> Anew() const override { return std::make_unique<MemoryFiles>(disk_, directory_); }

  std::span<const std::byte> InPlace(const std::string&, std::uint64_t, std::uint64_t) override { return {}; }

  std::string NameOf(const std::string& name) const override {
    const auto data = directory_->data.find(name);
    return data != directory_->data.end() ? data->second : directory_->title + ": " + name;
  }

 private:
  const std::string* Held(const std::string& name) const {
    const auto found = directory_->held.find(name);
    return found == directory_->held.end() ? nullptr : &found->second;
  }

  absl::StatusOr<File*> Open(const std::string& name) {
    const absl::MutexLock lock(&mutex_);
    std::unique_ptr<File>& file = open_[name];
    if (file != nullptr) return file.get();
    const auto path = directory_->data.find(name);
    if (path == directory_->data.end()) return NotFound("{}", NameOf(name));
    CAIRN_ASSIGN_OR_RETURN(file, disk_.Open(path->second, {}));
    return file.get();
  }

  Disk& disk_;
  const std::shared_ptr<const MemoryDirectory> directory_;
  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<File>> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<bpdir::FileSource> FilesOf(Disk& disk, std::shared_ptr<const MemoryDirectory> directory) {
  return std::make_unique<MemoryFiles>(disk, std::move(directory));
}

}  // namespace cairn::cli
