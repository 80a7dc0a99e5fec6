#include "storage/file/redundancy/copies.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/status.h"

namespace cairn::redundancy {
namespace {

constexpr std::uint64_t kBlockBytes = 1 << 20;

// One place where a logical file is, was, or is to be.
struct Place {
  std::uint32_t member = 0;  // who holds it
  bool own = false;          // its own data; else in the payload, at `offset`
  std::uint64_t offset = 0;
  Source source;  // empty: lost
  WriteAt write;  // lost and wanted
};

std::vector<Place> PlacesOf(const Set& set, const std::map<std::uint32_t, Targets>& targets, std::uint32_t owner) {
  const auto members = static_cast<std::uint32_t>(set.members.size());
  std::vector<Place> places;
  for (std::uint32_t distance = 0; distance <= set.replicas; ++distance) {
    Place place{.member = (owner + distance) % members, .own = distance == 0, .source = {}, .write = {}};
    const Member& member = set.members[place.member];
    const auto target = targets.find(place.member);
    if (place.own) {
      place.source = member.data;
      if (!place.source && target != targets.end()) place.write = target->second.data;
    } else {
      place.offset = CopyOffset(set, place.member, distance);
      place.source = member.payload;
      if (!place.source && target != targets.end()) place.write = target->second.payload;
    }
    places.push_back(std::move(place));
  }
  return places;
}

bool IsThere(const Place& place) {
  return static_cast<bool>(place.source);
}

// All of the file from `at` on.
void Expect(const Place& place, std::uint64_t at, std::uint64_t bytes) {
  if (place.source.expect && at < bytes) place.source.expect(place.offset + at, bytes - at);
}

// Bytes of the file from `at` on, where their owner has them, or all of them in `scratch`.
absl::StatusOr<std::span<const std::byte>> BlockOf(const Place& place, std::uint64_t at, std::uint64_t bytes,
                                                   std::vector<std::byte>& scratch) {
  if (place.source.lend) return place.source.lend(place.offset + at, bytes);
  scratch.resize(static_cast<std::size_t>(bytes));
  CAIRN_RETURN_IF_ERROR(place.source.read(place.offset + at, scratch));
  return scratch;
}

absl::StatusOr<std::optional<Difference>> WalkFile(std::uint64_t bytes, const std::vector<Place>& places) {
  const auto source = std::find_if(places.begin(), places.end(), IsThere);
  const auto of_use = [&](const Place& place) { return place.write || (place.source && &place != &*source); };
  if (source == places.end() || std::none_of(places.begin(), places.end(), of_use)) return std::nullopt;
  std::vector<std::byte> scratch, other;
  for (const Place& place : places) Expect(place, 0, bytes);
  for (std::uint64_t at = 0, count = 0; at < bytes; at += count) {
    CAIRN_ASSIGN_OR_RETURN(const auto block, BlockOf(*source, at, std::min(kBlockBytes, bytes - at), scratch));
    count = block.size();
    for (auto place = places.begin(); place != places.end(); ++place) {
      if (place->write) CAIRN_RETURN_IF_ERROR(place->write(place->offset + at, block));
      if (place == source || !place->source) continue;
      other.resize(block.size());
      CAIRN_RETURN_IF_ERROR(place->source.read(place->offset + at, other));
      if (std::memcmp(block.data(), other.data(), count) == 0) continue;
      const auto differs = std::mismatch(block.begin(), block.end(), other.begin());
      const auto index = static_cast<std::uint64_t>(differs.first - block.begin());
      return Difference{.member = place->member, .offset = place->offset + at + index};
    }
  }
  return std::nullopt;
}

absl::Status AllLost(std::string_view members) {
  return DataLoss("member {} of the set is lost, and so are all copies of it", members);
}

// What is wanted has to be somewhere; an empty file is everywhere.
absl::Status CheckLosses(const Set& set, const std::map<std::uint32_t, Targets>& targets) {
  std::string gone;
  for (std::uint32_t owner = 0; owner < set.members.size(); ++owner) {
    const std::vector<Place> places = PlacesOf(set, targets, owner);
    const bool wanted =
        std::any_of(places.begin(), places.end(), [](const Place& place) { return static_cast<bool>(place.write); });
    if (!wanted || set.members[owner].bytes == 0 || std::any_of(places.begin(), places.end(), IsThere)) continue;
    gone += fmt::format("{}{}", gone.empty() ? "" : ", ", owner);
  }
  return gone.empty() ? absl::OkStatus() : AllLost(gone);
}

}  // namespace

std::uint64_t CopyOffset(const Set& set, std::uint32_t member, std::uint32_t distance) {
  const auto members = static_cast<std::uint32_t>(set.members.size());
  std::uint64_t offset = 0;
  for (std::uint32_t nearer = 1; nearer < distance; ++nearer) {
    offset += set.members[(member + members - nearer) % members].bytes;
  }
  return offset;
}

absl::StatusOr<std::optional<Difference>> WalkCopies(const Set& set, const std::map<std::uint32_t, Targets>& targets) {
  CAIRN_RETURN_IF_ERROR(CheckLosses(set, targets));
  std::optional<Difference> first;
  // A payload has its left neighbours' files, nearest first.
  const auto members = static_cast<std::uint32_t>(set.members.size());
  const std::uint32_t begin = targets.empty() ? 0 : targets.begin()->first;
  for (std::uint32_t i = 1; i <= members; ++i) {
    const std::uint32_t owner = (begin % members + members - i) % members;
    CAIRN_ASSIGN_OR_RETURN(const auto difference, WalkFile(set.members[owner].bytes, PlacesOf(set, targets, owner)));
    if (difference && !first) first = difference;
  }
  return first;
}

absl::Status CheckLostCopy(const Set& set, std::uint32_t member) {
  const std::vector<Place> places = PlacesOf(set, {}, member);
  return std::any_of(places.begin(), places.end(), IsThere) ? absl::OkStatus() : AllLost(std::to_string(member));
}

absl::Status ReadLostCopy(const Set& set, std::uint32_t member, std::uint64_t offset, std::span<std::byte> target) {
  const std::vector<Place> places = PlacesOf(set, {}, member);
  const auto copy = std::find_if(places.begin(), places.end(), IsThere);
  if (copy == places.end()) return AllLost(std::to_string(member));
  Expect(*copy, offset, set.members[member].bytes);
  return copy->source.read(copy->offset + offset, target);
}

std::vector<Ranges> UncheckedCopies(const Set& set) {
  std::vector<Ranges> unchecked(set.members.size());
  for (std::uint32_t owner = 0; owner < set.members.size(); ++owner) {
    const std::vector<Place> places = PlacesOf(set, {}, owner);
    if (std::count_if(places.begin(), places.end(), IsThere) > 1) continue;
    AddRange({.begin = 0, .end = set.members[owner].bytes}, &unchecked[owner]);
  }
  return unchecked;
}

}  // namespace cairn::redundancy
