#include "tests/daemon/core/run_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn {
namespace {

std::uint64_t SeedOf(const Written& written, Rank rank) {
  std::uint64_t seed = 17;
  for (const std::uint64_t part : {std::uint64_t{written.run}, std::uint64_t{written.launch}, written.step,
                                   std::uint64_t{written.attempt}, std::uint64_t{written.files}, std::uint64_t{rank}}) {
    seed = (seed ^ part) * 0x9e3779b97f4a7c15;
    seed ^= seed >> 29;
  }
  return seed;
}

// So long as a few blocks of 4 KiB, and mostly the same from step to step: then differential checkpoints have something
// to leave out.
std::string BytesOf(const Written& written, Rank rank) {
  std::string bytes = RandomBytes(written.run * 100 + rank, 3000 + 2500 * rank);
  const std::string own = RandomBytes(SeedOf(written, rank), 200);
  const std::size_t at = (SeedOf(written, rank) >> 20) % (bytes.size() - own.size());
  return bytes.replace(at, own.size(), own);
}

}  // namespace

Memory MemoryOf(const Written& written, Rank rank) {
  return {ValueOf(1, "step", written.step), PlainOf(2, BytesOf(written, rank)),
          ValueOf(3, "whose", SeedOf(written, kModelRanks))};
}

std::map<std::string, std::string> FilesOf(const Written& written, Rank rank) {
  return {{fmt::format("out/{}.{}.{}/{}", written.launch, written.step, written.attempt, rank),
           RandomBytes(SeedOf(written, rank), 1000)},
          {fmt::format("state.{}", rank), RandomBytes(SeedOf(written, rank) + 1, 5000)}};
}

void RunModel::Begun(DatasetId id, const Written& written) {
  const auto [at, first] = datasets_.try_emplace(id, Dataset{.written = written});
  if (!first && at->second.written != written) {
    Violated(fmt::format("dataset {} is that of step {} of launch {} and that of step {} of launch {}", id,
                         at->second.written.step, at->second.written.launch, written.step, written.launch));
  }
}

void RunModel::Told(DatasetId id, local::Level level) {
  const auto at = datasets_.find(id);
  if (at == datasets_.end()) return Violated(fmt::format("dataset {} has a level, and nobody has begun it", id));
  Dataset& dataset = at->second;
  if (level >= local::CAPTURED && !dataset.perhaps_whole()) {
    Violated(fmt::format("dataset {} is said to be at {}, and {} ranks have handed over", id, local::Level_Name(level),
                         dataset.handed_over.size()));
  }
  dataset.promised = std::max(dataset.promised, level);
}

// What has left the prefix before does not come back there.
void RunModel::Pinned(DatasetId id, bool pinned) {
  Dataset& dataset = datasets_[id];
  dataset.left |= pinned && MayHaveLeftPrefix(id);
  dataset.pinned = pinned;
}

void RunModel::ToldGone(DatasetId id, const std::string& how) {
  if (MustBeThere(id)) {
    Violated(
        fmt::format("dataset {}, promised at {}, is gone: {}", id, local::Level_Name(datasets_[id].promised), how));
  }
}

// A file that is found damaged may have been the base of those after it.
void RunModel::HurtInCache(DatasetId id, bool bases_too) {
  for (auto& [other, dataset] : datasets_) dataset.hurt_in_cache |= other == id || (bases_too && other > id);
}

void RunModel::CacheLost() {
  for (auto& [id, dataset] : datasets_) dataset.hurt_in_cache = true;
}

const RunModel::Dataset* RunModel::Find(DatasetId id) const {
  const auto at = datasets_.find(id);
  return at == datasets_.end() ? nullptr : &at->second;
}

bool RunModel::anything_hurt() const {
  return std::any_of(datasets_.begin(), datasets_.end(), [](const auto& item) {
    return item.second.hurt_in_cache || item.second.hurt_on_prefix || item.second.removed;
  });
}

// A newer checkpoint that may be safe: then this one need not be in the cache. Its files may have this one's names.
bool RunModel::HasHeir(DatasetId id) const {
  return std::any_of(datasets_.upper_bound(id), datasets_.end(),
                     [](const auto& item) { return item.second.perhaps_whole() && item.second.written.checkpoint; });
}

bool RunModel::MayHaveLeftPrefix(DatasetId id) const {
  const Dataset& dataset = datasets_.at(id);
  std::uint32_t newer = 0;
  for (auto at = datasets_.upper_bound(id); at != datasets_.end(); ++at) {
    if (!at->second.perhaps_whole()) continue;
    if (dataset.written.files && at->second.written.files) return true;  // it has the same names
    newer += at->second.written.checkpoint;
  }
  return keep_last_ != 0 && newer >= keep_last_ && !dataset.written.output && !dataset.pinned;
}

bool RunModel::MustBeThere(DatasetId id) const {
  const Dataset* dataset = Find(id);
  if (dataset == nullptr || dataset->promised < local::LOCAL || dataset->removed) return false;
  if (dataset->promised >= local::PREFIX) return !dataset->hurt_on_prefix && !dataset->left && !MayHaveLeftPrefix(id);
  // It may have been flushed and evicted, and nobody has asked for that.
  if (dataset->hurt_in_cache || dataset->hurt_on_prefix) return false;
  const bool withdrawn = dataset->written.files && MayHaveLeftPrefix(id);
  if (dataset->written.output && !withdrawn) return true;
  return !HasHeir(id) || (dataset->pinned && !withdrawn);
}

// What has made another one go is itself at least as new.
DatasetId RunModel::LatestAtLeast() const {
  DatasetId newest = 0;
  for (const auto& [id, dataset] : datasets_) {
    if (!dataset.written.checkpoint) continue;
    if (MustBeThere(id)) newest = id;
    const bool whole = dataset.promised >= local::LOCAL && !dataset.hurt_in_cache && !dataset.removed;
    const bool heirs_whole = std::none_of(datasets_.upper_bound(id), datasets_.end(), [](const auto& item) {
      return item.second.hurt_in_cache || item.second.hurt_on_prefix || item.second.removed;
    });
    if (whole && heirs_whole && !dataset.hurt_on_prefix) newest = id;
  }
  return newest;
}

}  // namespace cairn
