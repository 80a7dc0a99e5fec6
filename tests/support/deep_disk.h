// A FakeDisk whose asynchronous transfers stay under way until `depth` of them are, or nothing has come for a while:
// tells how large they were and how many at once.
#ifndef CAIRN_TESTS_SUPPORT_DEEP_DISK_H_
#define CAIRN_TESTS_SUPPORT_DEEP_DISK_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/fake_disk.h"

namespace cairn {

class DeepDisk final : public FakeDisk {
 public:
  struct Seen {
    std::size_t transfers = 0, at_once_max = 0;
    std::uint64_t bytes_max = 0;
  };

  explicit DeepDisk(std::size_t depth) : FakeDisk({.direct = true}), depth_(depth), thread_([this] { Run(); }) {}
  ~DeepDisk() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  Seen seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

  absl::StatusOr<std::unique_ptr<File>> Open(const std::string& path, OpenOptions options) override {
    auto file = FakeDisk::Open(path, options);
    if (!file.ok()) return file.status();
    return std::make_unique<DeepFile>(*this, *std::move(file));
  }

 private:
  class DeepFile final : public File {
   public:
    DeepFile(DeepDisk& disk, std::shared_ptr<File> file) : disk_(disk), file_(std::move(file)) {}
    absl::Status ReadAt(std::uint64_t offset, std::span<std::byte> target) override {
      return file_->ReadAt(offset, target);
    }
    absl::Status WriteAt(std::uint64_t offset, std::span<const std::byte> bytes) override {
      return file_->WriteAt(offset, bytes);
    }
    void ReadAsync(std::uint64_t offset, std::span<std::byte> target, Done done) override {
      disk_.Add(target.size(), [file = file_, offset, target, done] { file->ReadAsync(offset, target, done); });
    }
    void WriteAsync(std::uint64_t offset, std::span<const std::byte> bytes, Done done) override {
      disk_.Add(bytes.size(), [file = file_, offset, bytes, done] { file->WriteAsync(offset, bytes, done); });
    }
    absl::Status Truncate(std::uint64_t bytes) override { return file_->Truncate(bytes); }
    absl::Status Sync() override { return file_->Sync(); }
    absl::StatusOr<FileInfo> Info() override { return file_->Info(); }
    absl::Status TryLock() override { return file_->TryLock(); }
    bool direct() const override { return file_->direct(); }
    const std::string& path() const override { return file_->path(); }

   private:
    DeepDisk& disk_;
    const std::shared_ptr<File> file_;
  };

  void Add(std::uint64_t bytes, std::function<void()> transfer) {
    const std::lock_guard lock(mutex_);
    held_.push_back(std::move(transfer));
    ++seen_.transfers;
    seen_.at_once_max = std::max(seen_.at_once_max, held_.size());
    seen_.bytes_max = std::max(seen_.bytes_max, bytes);
    changed_.notify_all();
  }

  void Run() {
    std::unique_lock lock(mutex_);
    while (!ended_ || !held_.empty()) {
      changed_.wait(lock, [this] { return ended_ || !held_.empty(); });
      changed_.wait_for(lock, std::chrono::milliseconds(50), [this] { return ended_ || held_.size() >= depth_; });
      if (held_.empty()) continue;
      const std::function<void()> transfer = std::move(held_.front());
      held_.pop_front();
      lock.unlock();
      transfer();
      lock.lock();
    }
  }

  const std::size_t depth_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> held_;
  Seen seen_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace cairn

#endif  // CAIRN_TESTS_SUPPORT_DEEP_DISK_H_
