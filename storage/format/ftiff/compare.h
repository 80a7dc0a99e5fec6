// How two checkpoint files differ. The content is compared variable by variable: layout, packing and order do not
// matter.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_COMPARE_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_COMPARE_H_

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "storage/format/ftiff/codec.h"

namespace cairn::ftiff {

// A value of both files; null: this layout has no such field.
struct FieldDiff {
  std::string_view field;
  std::array<nlohmann::ordered_json, 2> values;
};

struct VariableDiff {
  std::int32_t id = 0;
  std::array<std::optional<std::uint64_t>, 2> bytes;  // nullopt: not in that file
  std::uint64_t differing = 0;                        // bytes, as far as both have any
  std::uint64_t first = 0;  // offset of the first in the variable; if sizes differ, where one ends
  std::array<std::set<std::int32_t>, 2> containers{};  // of each file, those with differing bytes, by containerid
  std::array<std::uint64_t, 2> first_in_file{};        // where the first lies, if bytes differ

  bool in_both() const { return bytes[0].has_value() && bytes[1].has_value(); }
  bool equal() const { return in_both() && bytes[0] == bytes[1] && differing == 0; }
};

struct FileDiff {
  std::vector<FieldDiff> fields;        // that differ; they tell nothing about the content
  std::vector<VariableDiff> variables;  // all: in the order of the first file, then what only the second has

  std::size_t different() const;  // variables
};

struct SideOfDiff {
  const FileMetadata& metadata;
  ReadAt read;
};

std::vector<FieldDiff> CompareFields(const FileMetadata& a, const FileMetadata& b);

// Reads both files whole. Errors of the reads pass through.
absl::StatusOr<FileDiff> CompareFiles(const SideOfDiff& a, const SideOfDiff& b);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_COMPARE_H_
