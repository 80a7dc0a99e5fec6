#include "storage/format/ftiff/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <span>

#include "storage/base/status.h"
#include "storage/format/ftiff/layout.h"
#include "storage/format/ftiff/variables.h"

namespace cairn::ftiff {
namespace {

constexpr std::uint64_t kComparedAtOnce = 1 << 20;

using ContainersById = std::map<std::int32_t, std::vector<const Container*>>;

// Those with bytes, in order of their place in the variable.
ContainersById ById(const FileLayout& layout) {
  ContainersById by_id;
  for (const Container& container : layout.containers) {
    std::vector<const Container*>& containers = by_id[container.id];
    if (container.chunk_bytes > 0) containers.push_back(&container);
  }
  return by_id;
}

std::string OrderOf(const Variables& variables) {
  constexpr std::size_t kShown = 16;
  std::vector<std::int32_t> ids;
  for (const VariableSize& variable : variables.sizes()) ids.push_back(variable.id);
  const bool more = ids.size() > kShown;
  if (more) ids.resize(kShown);
  return fmt::format("{}{}", fmt::join(ids, " "), more ? " …" : "");
}

bool SameOrder(const Variables& a, const Variables& b) {
  return std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end(),
                    [](const VariableSize& x, const VariableSize& y) { return x.id == y.id; });
}

// The same containers in the same order, as far as the sizes of the variables allow.
bool SamePacking(const FileLayout& a, const FileLayout& b) {
  return a.block_containers == b.block_containers &&
         std::equal(a.containers.begin(), a.containers.end(), b.containers.begin(), b.containers.end(),
                    [](const Container& x, const Container& y) {
                      return x.id == y.id && x.index == y.index &&
                             (x.container_bytes == y.container_bytes || x.chunk_bytes != y.chunk_bytes);
                    });
}

std::string PackingOf(const FileLayout& layout) {
  constexpr std::size_t kShown = 8;
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < std::min(layout.containers.size(), kShown); ++i) {
    sizes.push_back(layout.containers[i].container_bytes);
  }
  return fmt::format("{} in {}: {}{}", layout.containers.size(), layout.block_containers.size(), fmt::join(sizes, " "),
                     layout.containers.size() > kShown ? " …" : "");
}

// Walks two variables of the same id through the containers of both.
class VariableComparer {
 public:
  VariableComparer(const SideOfDiff& a, const SideOfDiff& b)
      : sides_{&a, &b},
        containers_{ById(a.metadata.layout), ById(b.metadata.layout)},
        buffers_{std::make_unique_for_overwrite<std::byte[]>(kComparedAtOnce),
                 std::make_unique_for_overwrite<std::byte[]>(kComparedAtOnce)} {}

  // REQUIRES: both files have it.
  absl::Status Compare(VariableDiff* diff) {
    const std::uint64_t common = std::min(*diff->bytes[0], *diff->bytes[1]);
    std::array<std::size_t, 2> next{};
    for (std::uint64_t at = 0; at < common;) {
      std::uint64_t end = std::min(common, at + kComparedAtOnce);
      std::array<const Container*, 2> now;
      for (const std::size_t side : {0, 1}) {
        const std::vector<const Container*>& containers = containers_[side].at(diff->id);
        while (End(*containers[next[side]]) <= at) ++next[side];  // one ends behind `at`: it is below the size
        now[side] = containers[next[side]];
        end = std::min(end, End(*now[side]));
      }
      CAIRN_RETURN_IF_ERROR(ComparePiece(at, end - at, now, diff));
      at = end;
    }
    if (diff->differing == 0) diff->first = common;
    return absl::OkStatus();
  }

 private:
  static std::uint64_t End(const Container& container) { return container.variable_offset + container.chunk_bytes; }

  absl::Status ComparePiece(std::uint64_t at, std::uint64_t bytes, const std::array<const Container*, 2>& now,
                            VariableDiff* diff) {
    std::array<std::uint64_t, 2> places{};
    for (const std::size_t side : {0, 1}) {
      places[side] = now[side]->file_offset + (at - now[side]->variable_offset);
      CAIRN_RETURN_IF_ERROR(sides_[side]->read(places[side], {buffers_[side].get(), bytes}));
    }
    const std::byte* const a = buffers_[0].get();
    const std::byte* const b = buffers_[1].get();
    if (std::memcmp(a, b, bytes) == 0) return absl::OkStatus();
    if (diff->differing == 0) {
      const auto first = static_cast<std::uint64_t>(std::mismatch(a, a + bytes, b).first - a);
      diff->first = at + first;
      diff->first_in_file = {places[0] + first, places[1] + first};
    }
    std::uint64_t differing = 0;
    for (std::uint64_t i = 0; i < bytes; ++i) differing += a[i] != b[i] ? 1 : 0;
    diff->differing += differing;
    for (const std::size_t side : {0, 1}) diff->containers[side].insert(now[side]->index);
    return absl::OkStatus();
  }

  const std::array<const SideOfDiff*, 2> sides_;
  const std::array<ContainersById, 2> containers_;
  const std::array<std::unique_ptr<std::byte[]>, 2> buffers_;
};

}  // namespace

std::size_t FileDiff::different() const {
  return static_cast<std::size_t>(
      std::count_if(variables.begin(), variables.end(), [](const VariableDiff& v) { return !v.equal(); }));
}

std::vector<FieldDiff> CompareFields(const FileMetadata& a, const FileMetadata& b) {
  using Json = nlohmann::ordered_json;
  std::vector<FieldDiff> fields;
  const auto compare = [&fields](std::string_view field, const Json& value_a, const Json& value_b) {
    if (value_a != value_b) fields.push_back({field, {value_a, value_b}});
  };
  const auto id = [](const FileMetadata& metadata) {
    return HoldsCheckpointId(metadata.letter) ? Json(metadata.header.checkpoint_id) : Json(nullptr);
  };
  const auto layout = [](const FileMetadata& metadata) { return std::string(1, static_cast<char>(metadata.letter)); };
  compare("layout", layout(a), layout(b));
  compare("ckptId", id(a), id(b));
  compare("ckptSize", a.file_bytes, b.file_bytes);
  compare("maxFs", a.header.file_bytes_max, b.header.file_bytes_max);
  compare("ptFs", a.header.partner_bytes, b.header.partner_bytes);
  compare("timestamp", a.header.timestamp_ns, b.header.timestamp_ns);
  const Variables variables_a(a.layout), variables_b(b.layout);
  if (!SameOrder(variables_a, variables_b)) {
    fields.push_back({"order", {OrderOf(variables_a), OrderOf(variables_b)}});
  }
  if (!SamePacking(a.layout, b.layout)) fields.push_back({"containers", {PackingOf(a.layout), PackingOf(b.layout)}});
  return fields;
}

absl::StatusOr<FileDiff> CompareFiles(const SideOfDiff& a, const SideOfDiff& b) {
  FileDiff diff{.fields = CompareFields(a.metadata, b.metadata), .variables = {}};
  const Variables variables_a(a.metadata.layout), variables_b(b.metadata.layout);
  std::map<std::int32_t, std::size_t> places;
  for (const VariableSize& variable : variables_a.sizes()) {
    places.emplace(variable.id, diff.variables.size());
    diff.variables.push_back({.id = variable.id, .bytes = {variable.bytes, std::nullopt}});
  }
  for (const VariableSize& variable : variables_b.sizes()) {
    if (const auto place = places.find(variable.id); place != places.end()) {
      diff.variables[place->second].bytes[1] = variable.bytes;
    } else {
      diff.variables.push_back({.id = variable.id, .bytes = {std::nullopt, variable.bytes}});
    }
  }
  VariableComparer comparer(a, b);
  for (VariableDiff& variable : diff.variables) {
    if (variable.in_both()) CAIRN_RETURN_IF_ERROR(comparer.Compare(&variable));
  }
  return diff;
}

}  // namespace cairn::ftiff
