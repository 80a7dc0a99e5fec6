#include "daemon/data/shared_blocks.h"

namespace cairn {

bool SharedFile::Claim(std::uint64_t block, Owner owner) {
  const absl::MutexLock lock(&mutex_);
  const auto [place, fresh] = blocks_.try_emplace(block);
  if (fresh) place->second.owner = owner;
  return fresh;
}

void SharedFile::Ask(std::uint64_t block, std::function<void(Lent)> then) {
  Lent lent;
  {
    const absl::MutexLock lock(&mutex_);
    const auto known = blocks_.find(block);
    if (known != blocks_.end()) {
      if (known->second.lent.image == nullptr) return known->second.waiting.push_back(std::move(then));
      lent = known->second.lent;
    }
  }
  then(std::move(lent));
}

void SharedFile::Lend(std::uint64_t block, Owner owner, Lent lent) {
  std::vector<std::function<void(Lent)>> waiting;
  {
    const absl::MutexLock lock(&mutex_);
    const auto known = blocks_.find(block);
    if (known == blocks_.end() || known->second.owner != owner) return;
    known->second.lent = lent;
    waiting.swap(known->second.waiting);
  }
  for (const auto& then : waiting) then(lent);
}

void SharedFile::Forget(std::uint64_t block, Owner owner) {
  std::vector<std::function<void(Lent)>> waiting;
  {
    const absl::MutexLock lock(&mutex_);
    const auto known = blocks_.find(block);
    if (known == blocks_.end() || known->second.owner != owner) return;
    waiting.swap(known->second.waiting);
    blocks_.erase(known);
  }
  for (const auto& then : waiting) then({});
}

std::shared_ptr<SharedFile> SharedBlocks::FileOf(Disk& disk, const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  std::erase_if(files_, [](const auto& file) { return file.second.expired(); });
  std::weak_ptr<SharedFile>& known = files_[{&disk, path}];
  std::shared_ptr<SharedFile> file = known.lock();
  if (file == nullptr) known = file = std::make_shared<SharedFile>();
  return file;
}

}  // namespace cairn
