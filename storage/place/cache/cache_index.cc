#include "storage/place/cache/cache_index.h"

#include <absl/synchronization/mutex.h>

#include <string>
#include <utility>
#include <vector>

#include "storage/base/status.h"
#include "storage/file/trees/tree_file.h"
#include "storage/io/create_once.h"

namespace cairn {
namespace {

// Of SCR's: it has none of Cairn's keys.
bool IsForeign(const kvtree::Tree& entry) {
  const kvtree::Tree* descriptor = entry.Find("DSETDESC");
  return descriptor == nullptr || descriptor->Find("CAIRN_LAUNCH") == nullptr;
}

}  // namespace

absl::Status CacheIndex::MakeIfMissing(Disk& disk, const std::string& path) {
  // SCR reads it, too.
  const absl::Status made = CreateFileOnce(disk, path, kvtree::Encode(kvtree::Tree()), {.framed = false});
  return absl::IsAlreadyExists(made) ? absl::OkStatus() : made;
}

absl::Status CacheIndex::Read() {
  auto tree = ReadTree(disk_, path_);
  if (absl::IsNotFound(tree.status())) tree = kvtree::Tree();
  absl::Status status = tree.status();
  if (status.ok()) {
    if (const auto entries = scr::GetCacheEntries(*tree); !entries.ok()) {
      status = DataLoss("{}: {}", path_, MessageOf(entries.status()));
    }
  }
  const absl::MutexLock lock(&mutex_);
  damaged_ = !status.ok();
  if (!damaged_) tree_ = *std::move(tree);
  return status;
}

void CacheIndex::MarkLost() {
  const absl::MutexLock lock(&mutex_);
  damaged_ = true;
}

absl::Status CacheIndex::Rebuild(const std::map<DatasetId, scr::CacheEntry>& entries) {
  kvtree::Tree tree;
  for (const auto& [id, entry] : entries) scr::PutCacheEntry(entry, tree);
  CAIRN_RETURN_IF_ERROR(ReplaceTree(disk_, path_, tree));
  const absl::MutexLock lock(&mutex_);
  damaged_ = false;
  tree_ = std::move(tree);
  return absl::OkStatus();
}

absl::Status CacheIndex::CheckWritable() const {
  const absl::MutexLock lock(&mutex_);
  if (damaged_) return FailedPrecondition("{}: damaged or lost, and not yet made anew", path_);
  return absl::OkStatus();
}

void CacheIndex::TakeForeign(kvtree::Tree* tree) const {
  const auto file = ReadTree(disk_, path_);
  if (!file.ok() || !scr::GetCacheEntries(*file).ok()) return;  // what is written instead is sound
  const kvtree::Tree none;
  const kvtree::Tree* there = file->Find("DSET");
  const kvtree::Tree* had = tree->Find("DSET");
  std::vector<std::string> gone;
  for (const auto& [key, entry] : (had != nullptr ? *had : none).elements()) {
    if (IsForeign(entry) && (there == nullptr || there->Find(key) == nullptr)) gone.push_back(key);
  }
  for (const std::string& key : gone) tree->At("DSET").Erase(key);
  for (const auto& [key, entry] : (there != nullptr ? *there : none).elements()) {
    if (!IsForeign(entry)) continue;
    const kvtree::Tree* own = tree->FindPath({"DSET", key});
    if (own == nullptr || IsForeign(*own)) tree->At("DSET").At(key) = entry;
  }
}

absl::Status CacheIndex::Apply(const Change& change) {
  CAIRN_RETURN_IF_ERROR(CheckWritable());
  Pending own{.change = &change, .done = false, .status = {}};
  std::vector<Pending*> batch;
  kvtree::Tree next;
  bool write = false;
  {
    const absl::MutexLock lock(&mutex_);
    waiting_.push_back(&own);
    while (writing_ && !own.done) written_.Wait(&mutex_);
    if (own.done) return own.status;
    // Nobody writes: this one does, for all that wait.
    writing_ = true;
    batch = std::exchange(waiting_, {});
    next = tree_;
    for (const Pending* pending : batch) (*pending->change)(next);
    write = uncertain_ || !next.SameAs(tree_);
  }
  absl::Status status;
  if (write) {
    TakeForeign(&next);
    status = ReplaceTree(disk_, path_, next);
  }
  const absl::MutexLock lock(&mutex_);
  uncertain_ = !status.ok();
  if (status.ok()) tree_ = std::move(next);
  for (Pending* pending : batch) {
    pending->status = status;
    pending->done = true;
  }
  writing_ = false;
  written_.SignalAll();
  return status;
}

void CacheIndex::ApplyLater(const Change& change) {
  const absl::MutexLock lock(&mutex_);
  change(tree_);
  uncertain_ = true;
}

bool CacheIndex::ContainsOwn(DatasetId id) const {
  const absl::MutexLock lock(&mutex_);
  const kvtree::Tree* entry = tree_.FindPath({"DSET", std::to_string(id)});
  return entry != nullptr && !IsForeign(*entry);
}

std::map<DatasetId, scr::CacheEntry> CacheIndex::Entries() const {
  const absl::MutexLock lock(&mutex_);
  auto entries = scr::GetCacheEntries(tree_);
  if (!entries.ok()) return {};  // cannot be: what is in memory was read so, or made by PutCacheEntry
  return *std::move(entries);
}

}  // namespace cairn
