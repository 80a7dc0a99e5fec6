#include "tests/daemon/core/lasting_deposits.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

namespace cairn {
namespace {

// Labels of tests are short.
constexpr std::uint64_t kLabelBytesUsed = 64 << 10;

std::string BytesOf(int fd, std::uint64_t bytes) {
  std::string content(bytes, '\0');
  EXPECT_EQ(::pread(fd, content.data(), content.size(), 0), static_cast<ssize_t>(content.size()));
  return content;
}

}  // namespace

absl::StatusOr<UniqueFd> LastingDeposits::Make(std::uint64_t bytes) {
  before_change();
  absl::StatusOr<UniqueFd> made = MakeSealedMemory("test", bytes);
  const absl::MutexLock lock(&mutex_);
  if (!made.ok() || dead_) return made;
  const SealedMemory what = *LookAtMemory(made->get());
  held_[what.inode] = {.fd = UniqueFd(::dup(made->get())), .what = what, .saved = {}};
  return made;
}

void LastingDeposits::GiveUp(std::uint64_t inode) {
  before_change();
  const absl::MutexLock lock(&mutex_);
  if (!dead_) held_.erase(inode);
}

std::vector<UniqueFd> LastingDeposits::TakeLeft() {
  const absl::MutexLock lock(&mutex_);
  std::vector<UniqueFd> left;
  for (const auto& [inode, memory] : held_) left.emplace_back(::dup(memory.fd.get()));
  return left;
}

std::uint64_t LastingDeposits::Hold(UniqueFd fd) {
  const absl::MutexLock lock(&mutex_);
  const SealedMemory what = *LookAtMemory(fd.get());
  held_[what.inode] = {.fd = std::move(fd), .what = what, .saved = {}};
  return what.inode;
}

std::size_t LastingDeposits::size() const {
  const absl::MutexLock lock(&mutex_);
  return held_.size();
}

std::vector<LastingDeposits::Sealed> LastingDeposits::AllSealed() const {
  const absl::MutexLock lock(&mutex_);
  std::vector<Sealed> sealed;
  for (const auto& [inode, label] : held_) {
    if (!IsLabel(label.what)) continue;
    const auto frame = ReadLabel(label.fd.get(), UINT64_MAX);
    if (!frame.ok() || !frame->has_value()) continue;
    const auto image = held_.find(ImageOfLabel(**frame));
    if (image == held_.end()) continue;
    absl::StatusOr<CapturedPart> part = DecodeLabel(**frame, image->second.what);
    if (!part.ok()) continue;
    sealed.push_back({.part = *std::move(part),
                      .inode = image->first,
                      .image = BytesOf(image->second.fd.get(), image->second.what.bytes)});
  }
  return sealed;
}

void LastingDeposits::CountTries(std::uint64_t tries) const {
  const absl::MutexLock lock(&mutex_);
  for (const auto& [inode, memory] : held_) {
    if (IsLabel(memory.what)) CountTry(memory.fd.get(), static_cast<int>(tries));
  }
}

void LastingDeposits::LoseImages() {
  const absl::MutexLock lock(&mutex_);
  std::erase_if(held_, [](const auto& item) { return !IsLabel(item.second.what); });
}

void LastingDeposits::Die() {
  const absl::MutexLock lock(&mutex_);
  dead_ = true;
  for (auto& [inode, memory] : held_) {
    const std::uint64_t bytes = IsLabel(memory.what) ? kLabelBytesUsed : memory.what.bytes;
    memory.saved = BytesOf(memory.fd.get(), bytes);
  }
}

void LastingDeposits::Revive() {
  const absl::MutexLock lock(&mutex_);
  dead_ = false;
  for (auto& [inode, memory] : held_) {
    const std::string saved = std::exchange(memory.saved, {});
    EXPECT_EQ(::pwrite(memory.fd.get(), saved.data(), saved.size(), 0), static_cast<ssize_t>(saved.size()));
  }
}

void LastingDeposits::Free() {
  const absl::MutexLock lock(&mutex_);
  for (const auto& [inode, memory] : held_) {
    ::fallocate(memory.fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(memory.what.bytes));
  }
  held_.clear();
}

}  // namespace cairn
