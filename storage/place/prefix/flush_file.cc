#include "storage/place/prefix/flush_file.h"

#include <absl/synchronization/mutex.h>

#include <optional>
#include <utility>

namespace cairn {
namespace {

scr::FlushEntry EntryOf(const scr::Descriptor& descriptor, FlushFile::Place place) {
  scr::FlushEntry entry;
  entry.name = descriptor.name;
  entry.in_cache = true;
  entry.in_prefix = place == FlushFile::Place::kCacheAndPrefix;
  entry.flushing = place == FlushFile::Place::kFlushing;
  entry.checkpoint = descriptor.checkpoint;
  entry.output = descriptor.output;
  entry.descriptor = descriptor;
  return entry;
}

}  // namespace

void FlushFile::Put(const scr::Descriptor& descriptor, Place place) {
  const absl::MutexLock lock(&mutex_);
  entries_[descriptor.id] = {.descriptor = descriptor, .place = place};
  changed_.insert(descriptor.id);
}

void FlushFile::KeepOnly(const std::set<DatasetId>& cached) {
  const absl::MutexLock lock(&mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (cached.contains(at->first)) {
      ++at;
      continue;
    }
    changed_.insert(at->first);
    at = entries_.erase(at);
  }
}

bool FlushFile::Says(DatasetId id, Place place) const {
  const absl::MutexLock lock(&mutex_);
  const auto entry = entries_.find(id);
  return entry != entries_.end() && entry->second.place == place;
}

bool FlushFile::stale() const {
  const absl::MutexLock lock(&mutex_);
  return !changed_.empty() || !mended_;
}

absl::Status FlushFile::Write(Prefix& prefix) {
  const absl::MutexLock writing(&writing_);
  std::map<DatasetId, std::optional<scr::FlushEntry>> changes;
  std::set<DatasetId> taken;
  bool mend = false;
  {
    const absl::MutexLock lock(&mutex_);
    if (changed_.empty() && mended_) return absl::OkStatus();
    mend = !std::exchange(mended_, true);
    taken = std::exchange(changed_, {});
    for (const auto& [id, entry] : entries_) {
      if (mend || taken.contains(id)) changes[id] = EntryOf(entry.descriptor, entry.place);
    }
    for (const DatasetId id : taken) changes.try_emplace(id, std::nullopt);
  }
  absl::Status written = prefix.UpdateFlushFile(node_, changes, mend);
  if (!written.ok()) {
    const absl::MutexLock lock(&mutex_);
    changed_.merge(taken);
    if (mend) mended_ = false;
  }
  return written;
}

}  // namespace cairn
