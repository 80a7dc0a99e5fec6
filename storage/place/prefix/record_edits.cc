#include "storage/place/prefix/record_edits.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace cairn::record_edits {
namespace {

constexpr std::uint64_t kVersion = 1;
// Of index.scr DSET, NAME and Cairn's list of commits; of flush.scr DATASET.
constexpr std::array<std::string_view, 4> kTables = {"DSET", "NAME", "CAIRN_COMMITTED", "DATASET"};

// How many of the oldest elements, which are at the end, are the same in both. A change is nearly always one of few
// elements near the front of a long record.
std::size_t SameAtTheEnd(const kvtree::Tree& before, const kvtree::Tree& after) {
  const kvtree::Tree::Elements was_there = before.elements(), is_there = after.elements();
  const std::size_t most = std::min(was_there.size(), is_there.size());
  for (std::size_t same = before.SharedAtTheEnd(after); same < most; ++same) {
    const auto& [key, child] = was_there[was_there.size() - 1 - same];
    const auto& [other_key, other_child] = is_there[is_there.size() - 1 - same];
    if (key != other_key || !child.SameAs(other_child)) return same;
  }
  return most;
}

// `set` and `erase` receive what differs; keys of `before` that `after` lacks, and the others.
template <typename Set, typename Erase>
void Compare(const kvtree::Tree& before, const kvtree::Tree& after, const Set& set, const Erase& erase) {
  const kvtree::Tree::Elements was_there = before.elements(), is_there = after.elements();
  const std::size_t same = SameAtTheEnd(before, after);
  for (std::size_t at = 0; at + same < was_there.size(); ++at) {
    if (after.Find(was_there[at].first) == nullptr) erase(was_there[at].first);
  }
  // The last one first: what is set goes to the front.
  std::vector<std::string_view> changed;
  for (std::size_t at = 0; at + same < is_there.size(); ++at) {
    const auto& [key, child] = is_there[at];
    const kvtree::Tree* was = before.Find(key);
    if (was == nullptr || !was->SameAs(child)) changed.push_back(key);
  }
  std::reverse(changed.begin(), changed.end());
  for (const std::string_view key : changed) set(key, before.Find(key), *after.Find(key));
}

void CompareTable(std::string_view table, const kvtree::Tree& before, const kvtree::Tree& after, kvtree::Tree& edits) {
  Compare(
      before, after,
      [&](std::string_view line, const kvtree::Tree*, const kvtree::Tree& now) {
        edits.At("SET_IN").At(table).At(line) = now;
      },
      [&](std::string_view line) { edits.At("ERASE_IN").At(table).At(line); });
}

std::vector<std::string_view> InOrderOfEntry(const kvtree::Tree& tree) {
  std::vector<std::string_view> keys;
  for (const auto& [key, child] : tree.elements()) keys.push_back(key);
  std::reverse(keys.begin(), keys.end());
  return keys;
}

}  // namespace

bool IsTable(std::string_view key) {
  return std::find(kTables.begin(), kTables.end(), key) != kTables.end();
}

kvtree::Tree Between(const kvtree::Tree& before, const kvtree::Tree& after) {
  kvtree::Tree edits;
  Compare(
      before, after,
      [&](std::string_view key, const kvtree::Tree* was, const kvtree::Tree& now) {
        if (was != nullptr && IsTable(key)) {
          CompareTable(key, *was, now, edits);
        } else if (IsTable(key)) {  // a line at a time: another may make the table at the same time
          CompareTable(key, kvtree::Tree(), now, edits);
          if (now.empty()) edits.At("SET").At(key);
        } else {
          edits.At("SET").At(key) = now;
        }
      },
      [&](std::string_view key) { edits.At("ERASE").At(key); });
  if (!edits.empty()) edits.Set("VERSION", kVersion);
  return edits;
}

absl::Status Apply(const std::string& path, const kvtree::Tree& edits, kvtree::Tree& record) {
  const auto version = edits.GetUnsigned("VERSION");
  if (!version.ok()) return DataLoss("{}: {}", path, MessageOf(version.status()));
  if (*version != kVersion)
    return FailedPrecondition("{}: VERSION {}, this program knows {}", path, *version, kVersion);
  if (const kvtree::Tree* erase = edits.Find("ERASE")) {
    for (const auto& [key, child] : erase->elements()) record.Erase(key);
  }
  if (const kvtree::Tree* tables = edits.Find("ERASE_IN")) {
    for (const auto& [table, lines] : tables->elements()) {
      kvtree::Tree* there = record.Find(table);
      if (there == nullptr) continue;
      for (const auto& [line, child] : lines.elements()) there->Erase(line);
    }
  }
  if (const kvtree::Tree* tables = edits.Find("SET_IN")) {
    for (const std::string_view table : InOrderOfEntry(*tables)) {
      const kvtree::Tree& lines = *tables->Find(table);
      kvtree::Tree& there = record.At(table);
      for (const std::string_view line : InOrderOfEntry(lines)) there.At(line) = *lines.Find(line);
    }
  }
  if (const kvtree::Tree* set = edits.Find("SET")) {
    for (const std::string_view key : InOrderOfEntry(*set)) record.At(key) = *set->Find(key);
  }
  return absl::OkStatus();
}

}  // namespace cairn::record_edits
