#include "storage/format/scr/prefix_index.h"

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/scr/fields.h"

namespace cairn::scr {
namespace {

constexpr std::uint64_t kIndexVersion = 2;

absl::StatusOr<IndexEntry> GetIndexEntry(DatasetId id, const kvtree::Tree& tree) {
  IndexEntry entry;
  CAIRN_ASSIGN_OR_RETURN(entry.descriptor, GetDescriptorOf(id, tree, "DSET"));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetBool("COMPLETE"), entry.complete));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("FLUSHED"), entry.flushed));
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("FAILED"), entry.failed));
  if (const kvtree::Tree* fetched = tree.Find("FETCHED"); fetched != nullptr) {
    for (const auto& [time, nothing] : fetched->elements()) entry.fetched.push_back(time);
    std::sort(entry.fetched.begin(), entry.fetched.end());  // the form makes it the order of time
  }
  return entry;
}

// The newest complete checkpoint below `id` that may be restarted from; no name: none.
Descriptor NewestBefore(DatasetId id, const kvtree::Tree& index) {
  const absl::StatusOr<Index> read = GetIndex(index);
  if (!read.ok()) return {};
  for (auto at = std::make_reverse_iterator(read->datasets.lower_bound(id)); at != read->datasets.rend(); ++at) {
    const IndexEntry& entry = at->second;
    if (entry.complete && entry.failed.empty() && entry.descriptor.checkpoint) return entry.descriptor;
  }
  return {};
}

// Of two datasets of one name the one that it leads to: a complete one, and of these the newer.
using Claim = std::pair<bool, DatasetId>;

Claim ClaimOf(DatasetId id, const kvtree::Tree& index) {
  const kvtree::Tree* entry = index.FindPath({"DSET", std::to_string(id)});
  return {entry != nullptr && entry->GetBool("COMPLETE").value_or(false), id};
}

// A new dataset has its name from when it is complete. What CURRENT means is not changed so: who moves CURRENT moves
// the name, too.
void ClaimName(const IndexEntry& entry, kvtree::Tree& index) {
  const std::string& name = entry.descriptor.name;
  if (name.empty()) return;
  const std::optional<DatasetId> holder = FindByName(name, index);
  if (holder && *holder != entry.descriptor.id) {
    const Claim claim(entry.complete, entry.descriptor.id), held = ClaimOf(*holder, index);
    if (claim < held || (held.first && index.Get("CURRENT") == name)) return;
  }
  PutName(entry.descriptor.id, name, index);
}

// The one that the name leads to when its dataset is gone.
std::optional<DatasetId> HeirOf(std::string_view name, const kvtree::Tree& index) {
  const kvtree::Tree* datasets = index.Find("DSET");
  std::optional<DatasetId> heir;
  if (datasets == nullptr) return heir;
  for (const auto& [key, entry] : datasets->elements()) {
    const kvtree::Tree* descriptor = entry.Find("DSET");
    if (descriptor == nullptr || descriptor->Get("NAME") != name) continue;
    const absl::StatusOr<std::uint64_t> id = NumberKey(key, "dataset", 1);
    if (id.ok() && (!heir || ClaimOf(*heir, index) < ClaimOf(*id, index))) heir = *id;
  }
  return heir;
}

}  // namespace

absl::StatusOr<Index> GetIndex(const kvtree::Tree& tree) {
  const std::optional<std::string_view> version = tree.Get("VERSION");
  if (version != std::to_string(kIndexVersion)) {
    return FailedPrecondition("prefix index: VERSION is {}, not {}", Quoted(version.value_or("")), kIndexVersion);
  }
  Index index;
  CAIRN_RETURN_IF_ERROR(Take(tree.GetString("CURRENT"), index.current));
  const kvtree::Tree* datasets = tree.Find("DSET");
  if (datasets == nullptr) return index;
  for (const auto& [key, child] : datasets->elements()) {
    CAIRN_ASSIGN_OR_RETURN(const DatasetId id, NumberKey(key, "prefix index: dataset", 1));
    absl::StatusOr<IndexEntry> entry = GetIndexEntry(id, child);
    if (!entry.ok()) return Annotate(entry.status(), fmt::format("prefix index: dataset {}", id));
    index.datasets.emplace(id, *std::move(entry));
  }
  return index;
}

void PutIndexEntry(const IndexEntry& entry, kvtree::Tree& index) {
  const std::string id = std::to_string(entry.descriptor.id);
  index.Set("VERSION", kIndexVersion);
  ClaimName(entry, index);
  kvtree::Tree& tree = index.At("DSET").At(id);
  PutDescriptor(entry.descriptor, tree.At("DSET"));
  tree.SetBool("COMPLETE", entry.complete);
  PutText("FLUSHED", entry.flushed, tree);
  PutText("FAILED", entry.failed, tree);
  tree.Erase("FETCHED");
  for (const std::string& time : entry.fetched) tree.At("FETCHED").At(time);
}

std::optional<DatasetId> FindByName(std::string_view name, const kvtree::Tree& index) {
  const kvtree::Tree* mapping = index.FindPath({"NAME", name});
  if (mapping == nullptr) return std::nullopt;
  const std::string_view key = mapping->Get("DSET").value_or("");
  const kvtree::Tree* descriptor = index.FindPath({"DSET", key, "DSET"});
  if (descriptor == nullptr || descriptor->Get("NAME") != name) return std::nullopt;
  const absl::StatusOr<std::uint64_t> id = NumberKey(key, "dataset", 1);
  return id.ok() ? std::optional<DatasetId>(*id) : std::nullopt;
}

void EraseIndexEntry(DatasetId id, kvtree::Tree& index) {
  const std::string current(index.Get("CURRENT").value_or(""));
  const bool was_current = !current.empty() && FindByName(current, index) == id;
  const std::string key = std::to_string(id);
  if (kvtree::Tree* datasets = index.Find("DSET"); datasets != nullptr) datasets->Erase(key);
  if (kvtree::Tree* names = index.Find("NAME"); names != nullptr) {
    std::vector<std::string> gone;
    for (const auto& [name, mapping] : names->elements()) {
      if (mapping.Get("DSET") == key) gone.push_back(name);
    }
    for (const std::string& name : gone) {
      names->Erase(name);
      if (const std::optional<DatasetId> heir = HeirOf(name, index)) PutName(*heir, name, index);
    }
  }
  if (!was_current) return;
  const Descriptor next = NewestBefore(id, index);
  if (!next.name.empty()) PutName(next.id, next.name, index);
  SetCurrent(next.name, index);
}

void PutName(DatasetId id, std::string_view name, kvtree::Tree& index) {
  index.At("NAME").At(name).Set("DSET", id);
}

void SetCurrent(std::string_view name, kvtree::Tree& index) {
  PutText("CURRENT", name, index);
}

std::string LocalTime(std::int64_t us_since_epoch) {
  constexpr std::int64_t kMicroseconds = 1'000'000;
  const std::time_t seconds = us_since_epoch / kMicroseconds - (us_since_epoch % kMicroseconds < 0 ? 1 : 0);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);  // cannot fail: 64 bits of microseconds end in the year 294247
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace cairn::scr
