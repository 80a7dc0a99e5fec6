#include "storage/place/prefix/index_rules.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "storage/base/status.h"

namespace cairn::index_rules {
namespace {

constexpr std::string_view kBoundKey = "CAIRN_CURRENT";
// Beside FAILED, with the same time: it was Cairn that marked it, for the bytes on the prefix alone.
constexpr std::string_view kDamagedKey = "CAIRN_DAMAGED";
constexpr std::string_view kSetBackKey = "CAIRN_SET_BACK";  // / <id> / UNTIL / <µs>
// The dataset that a commit has made CURRENT last, if nothing was newer then.
constexpr std::string_view kFollowedKey = "CAIRN_FOLLOWED";

std::string Key(DatasetId id) {
  return std::to_string(id);
}

// One that cannot be read is none.
std::optional<Bound> ReadBound(const kvtree::Tree& index) {
  const kvtree::Tree* tree = index.Find(kBoundKey);
  if (tree == nullptr) return std::nullopt;
  const auto id = tree->GetUnsigned("ID");
  if (!id.ok() || *id == 0) return std::nullopt;
  return Bound{.id = *id, .set_us = tree->GetInt("SET").value_or(0)};
}

std::optional<scr::Descriptor> DescriptorOf(DatasetId id, const kvtree::Tree& index) {
  const kvtree::Tree* entry = index.FindPath({"DSET", Key(id)});
  if (entry == nullptr) return std::nullopt;
  auto descriptor = scr::GetDescriptorOf(id, *entry, "DSET");
  if (!descriptor.ok()) return std::nullopt;
  return *std::move(descriptor);
}

// The one that `cairn index current` has noted, unless someone has moved CURRENT since.
std::optional<Bound> NotedBound(const kvtree::Tree& index) {
  const auto bound = ReadBound(index);
  const bool stands = bound && (index.Get("CURRENT").value_or("").empty() || CurrentOf(index) == bound->id);
  return stands ? bound : std::nullopt;
}

bool HasNewer(const scr::Descriptor& descriptor, const kvtree::Tree& index) {
  const auto parsed = scr::GetIndex(index);
  return parsed.ok() && std::any_of(parsed->datasets.begin(), parsed->datasets.end(), [&](const auto& other) {
           return IsRestartable(other.second) && IsNewer(other.second.descriptor, descriptor);
         });
}

// Those whose dataset is still there, and that pass over nothing that was chosen since.
std::vector<SetBack> NotedSetBacks(const scr::Index& parsed, const kvtree::Tree& index,
                                   const std::optional<Age>& chosen) {
  std::vector<SetBack> noted;
  const kvtree::Tree* const notes = index.Find(kSetBackKey);
  if (notes == nullptr) return noted;
  for (const std::string_view key : notes->SortedKeys(kvtree::SortBy::kNumber)) {
    const auto until = notes->Find(key)->GetInt("UNTIL");
    const auto to = parsed.datasets.find(std::strtoull(std::string(key).c_str(), nullptr, 10));
    if (!until.ok() || to == parsed.datasets.end()) continue;
    const SetBack one{.to = AgeOf(to->second.descriptor), .until_us = *until};
    if (!chosen || !IsSetBack(*chosen, std::span(&one, 1))) noted.push_back(one);
  }
  return noted;
}

// Nobody has set CURRENT back: it still names what a commit has made it name, and no note says otherwise. Then a commit
// need not look through all entries.
bool StandsAsFollowed(DatasetId current, const kvtree::Tree& index) {
  if (index.Find(kBoundKey) != nullptr || index.Find(kSetBackKey) != nullptr) return false;
  const auto followed = index.GetUnsigned(kFollowedKey);
  return followed.ok() && *followed == current;
}

// A commit lifts the bound. What it has passed over is told by this from now on; what tells nothing any more goes.
void NoteSetBack(const scr::Descriptor& committed, kvtree::Tree& index) {
  auto parsed = scr::GetIndex(index);
  if (!parsed.ok()) return;
  parsed->datasets.erase(committed.id);
  std::vector<SetBack> all = SetBacksOf(*parsed, index, committed.created_us - 1);
  std::erase_if(all, [&](const SetBack& one) {
    return std::none_of(parsed->datasets.begin(), parsed->datasets.end(),
                        [&](const auto& item) { return IsSetBack(AgeOf(item.second.descriptor), std::span(&one, 1)); });
  });
  index.Erase(kSetBackKey);
  for (const SetBack& one : all) index.At(kSetBackKey).At(Key(one.to.id)).SetInt("UNTIL", one.until_us);
}

}  // namespace

bool IsSetBack(const Age& checkpoint, std::span<const SetBack> set_backs) {
  return std::any_of(set_backs.begin(), set_backs.end(), [&checkpoint](const SetBack& one) {
    return cairn::IsNewer(checkpoint, one.to) && checkpoint.created_us <= one.until_us;
  });
}

std::vector<SetBack> SetBacksOf(const scr::Index& parsed, const kvtree::Tree& index, std::int64_t now_us) {
  const Bound bound = BoundOf(parsed, index);
  const auto chosen = parsed.datasets.find(bound.id);
  if (chosen == parsed.datasets.end()) return NotedSetBacks(parsed, index, std::nullopt);
  const Age to = AgeOf(chosen->second.descriptor);
  std::vector<SetBack> all = NotedSetBacks(parsed, index, to);
  std::erase_if(all, [&to](const SetBack& one) { return one.to.id == to.id; });
  all.push_back({.to = to, .until_us = bound.set_us != 0 ? bound.set_us : now_us});
  return all;
}

Age AgeOf(const scr::Descriptor& descriptor) {
  Age age{.maker = Age::Maker::kScr, .launch = 0, .created_us = descriptor.created_us, .id = descriptor.id};
  if (!descriptor.launch) return age;
  age.maker = *descriptor.launch == 0 ? Age::Maker::kAdopted : Age::Maker::kLaunch;
  age.launch = *descriptor.launch;
  return age;
}

bool IsNewer(const scr::Descriptor& a, const scr::Descriptor& b) {
  return cairn::IsNewer(AgeOf(a), AgeOf(b));
}

bool IsRestartable(const scr::IndexEntry& entry) {
  return entry.complete && entry.failed.empty() && entry.descriptor.checkpoint;
}

bool IsRefused(const scr::IndexEntry& entry, const kvtree::Tree& index) {
  if (entry.failed.empty()) return false;
  const kvtree::Tree* marks = index.FindPath({"DSET", Key(entry.descriptor.id)});
  return marks == nullptr || marks->Get(kDamagedKey).value_or("") != entry.failed;
}

void MarkFailed(DatasetId id, const std::string& time, Because why, kvtree::Tree& entry, kvtree::Tree& index) {
  entry.Set("FAILED", time);
  if (why == Because::kDamaged) {
    entry.Set(kDamagedKey, time);
  } else {
    entry.Erase(kDamagedKey);
  }
  if (CurrentOf(index) == id) index.Erase("CURRENT");
}

absl::StatusOr<std::optional<scr::IndexEntry>> EntryOf(DatasetId id, const kvtree::Tree& index) {
  const kvtree::Tree* entry = index.FindPath({"DSET", Key(id)});
  if (entry == nullptr) return std::optional<scr::IndexEntry>();
  kvtree::Tree alone;
  alone.Set("VERSION", index.Get("VERSION").value_or(""));
  alone.At("DSET").At(Key(id)) = *entry;
  CAIRN_ASSIGN_OR_RETURN(const scr::Index parsed, scr::GetIndex(alone));
  return std::optional(parsed.datasets.at(id));
}

std::optional<DatasetId> FindDataset(std::string_view name, const kvtree::Tree& index) {
  if (name.empty()) return std::nullopt;
  if (const auto id = scr::FindByName(name, index)) return id;
  const kvtree::Tree* datasets = index.Find("DSET");
  if (datasets == nullptr) return std::nullopt;
  std::optional<DatasetId> newest;
  for (const auto& [key, entry] : datasets->elements()) {
    const kvtree::Tree* descriptor = entry.Find("DSET");
    if (descriptor == nullptr || descriptor->Get("NAME") != name) continue;
    const std::uint64_t id = std::strtoull(key.c_str(), nullptr, 10);
    if (id != 0 && (!newest || id > *newest)) newest = id;
  }
  return newest;
}

std::optional<DatasetId> CurrentOf(const kvtree::Tree& index) {
  return FindDataset(index.Get("CURRENT").value_or(""), index);
}

Bound BoundOf(const scr::Index& parsed, const kvtree::Tree& index) {
  if (const auto bound = NotedBound(index)) return *bound;
  const std::optional<DatasetId> current = CurrentOf(index);
  if (!current) return {};
  const auto at = parsed.datasets.find(*current);
  if (at == parsed.datasets.end() || !IsRestartable(at->second)) return {};
  const bool behind = std::any_of(parsed.datasets.begin(), parsed.datasets.end(), [&](const auto& other) {
    return IsRestartable(other.second) && IsNewer(other.second.descriptor, at->second.descriptor);
  });
  return behind ? Bound{.id = *current, .set_us = 0} : Bound();
}

void Bind(DatasetId id, std::string_view name, std::int64_t now_us, kvtree::Tree& index) {
  scr::PutName(id, name, index);
  scr::SetCurrent(name, index);
  kvtree::Tree& bound = index.SetEmpty(kBoundKey);
  bound.Set("ID", id);
  bound.SetInt("SET", now_us);
}

void FollowCommit(const scr::Descriptor& committed, kvtree::Tree& index) {
  if (!committed.checkpoint) return;
  if (const auto bound = NotedBound(index); bound && committed.created_us <= bound->set_us) return;
  const std::optional<DatasetId> current = CurrentOf(index);
  if (current) {
    if (*current == committed.id) return;
    const auto descriptor = DescriptorOf(*current, index);
    if (descriptor && IsNewer(*descriptor, committed)) return;
  } else if (HasNewer(committed, index)) {
    return;  // naming an older one would bound restarts
  }
  const bool goes_on = current && StandsAsFollowed(*current, index);
  if (!goes_on) NoteSetBack(committed, index);
  scr::PutName(committed.id, committed.name, index);
  scr::SetCurrent(committed.name, index);
  index.Erase(kBoundKey);
  if (goes_on || !HasNewer(committed, index)) {
    index.Set(kFollowedKey, committed.id);
  } else {
    index.Erase(kFollowedKey);
  }
}

void Erase(DatasetId id, kvtree::Tree& index) {
  const auto bound = ReadBound(index);
  scr::EraseIndexEntry(id, index);
  if (!bound || bound->id != id) return;
  const auto current = CurrentOf(index);
  if (!current) {
    index.Erase(kBoundKey);
  } else {
    index.At(kBoundKey).Set("ID", *current);
  }
}

}  // namespace cairn::index_rules
