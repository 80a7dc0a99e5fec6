#include "storage/format/bp5/template.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn::bp5 {
namespace {

constexpr std::size_t kLeadingFields = 3;
constexpr std::size_t kArrayFieldsMin = 7, kArrayFieldsMax = 9;

constexpr std::array<ExpectedField, kLeadingFields> kLeading = {{
    {"BitFieldCount", "integer", 8, 0},
    {"BitField", "integer[BitFieldCount]", 8, 8},
    {"DataBlockSize", "integer", 8, 16},
}};
constexpr std::array<ExpectedField, kArrayFieldsMin> kArrayFields = {{
    {"Dims", "integer", 8, 0},
    {"BlockCount", "integer", 8, 8},
    {"DBCount", "integer", 8, 16},
    {"Shape", "integer[Dims]", 8, 24},
    {"Count", "integer[DBCount]", 8, 32},
    {"Offset", "integer[DBCount]", 8, 40},
    {"DataBlockLocation", "integer[BlockCount]", 8, 48},
}};
// How the names of the first layout's fields end; the fifth is read apart. Numbers, then pointers.
constexpr std::array<std::string_view, kArrayFieldsMax> kFirstLayoutEnds = {
    "_Dims", "_BlockCount", "_DBCount", "_Shape", "_Count", "_Offsets", "_DataLocations", "_DataLengths", "_MinMax"};
constexpr std::size_t kFirstLayoutCount = 4, kFirstLayoutLengths = 7, kFirstLayoutNumbers = 3;

// What the name of an array record's structure says.
struct ArrayProperties {
  bool has_operator = false;
  std::uint32_t min_max_bytes = 0;  // of an element; 0: no min/max
};

std::optional<ArrayProperties> ArrayPropertiesOf(std::string_view name) {
  ArrayProperties structure;
  if (!name.starts_with("MetaArray")) return std::nullopt;
  name.remove_prefix(9);
  if (name.starts_with("Op")) {
    structure.has_operator = true;
    name.remove_prefix(2);
  }
  if (name.empty()) return structure;
  if (!name.starts_with("MM")) return std::nullopt;
  name.remove_prefix(2);
  for (const std::uint32_t bytes : {1, 2, 4, 8, 16}) {
    if (name == fmt::format_int(bytes).c_str()) structure.min_max_bytes = bytes;
  }
  return structure.min_max_bytes == 0 ? std::nullopt : std::optional(structure);
}

// Has the fields that its name promises, where they belong.
bool IsArrayRecord(const Structure& structure, const ArrayProperties& says) {
  std::vector<ExpectedField> expected(kArrayFields.begin(), kArrayFields.end());
  const std::string min_max_type = fmt::format("char[{}][BlockCount]", 2 * says.min_max_bytes);
  if (says.has_operator) expected.push_back({"DataBlockSize", "integer[BlockCount]", 8, kArrayRecordBytes});
  const std::uint32_t min_max_offset = kArrayRecordBytes + (says.has_operator ? 8 : 0);
  if (says.min_max_bytes > 0) expected.push_back({"MinMax", min_max_type, 1, min_max_offset});
  return std::ranges::equal(structure.fields, expected, IsAsExpected);
}

class Reader {
 public:
  Reader(std::string_view where, const Format& format)
      : where_(where), format_(format), checked_(format.structures.size()) {}

  absl::StatusOr<std::vector<TemplateEntry>> Read() {
    const std::vector<Field>& fields = format_.top().fields;
    if (fields.size() < kLeadingFields ||
        !std::equal(kLeading.begin(), kLeading.end(), fields.begin(),
                    [](const ExpectedField& e, const Field& f) { return IsAsExpected(f, e); })) {
      return DataLoss("{}: structure {}: its first three fields are not those of metadata records", where_,
                      Quoted(format_.top().name));
    }
    std::vector<TemplateEntry> entries;
    for (std::size_t i = kLeadingFields; i < fields.size();) {
      CAIRN_ASSIGN_OR_RETURN(const std::size_t used, ReadEntry(i, entries.emplace_back()));
      i += used;
    }
    return entries;
  }

 private:
  // Answers how many fields the variable has.
  absl::StatusOr<std::size_t> ReadEntry(std::size_t index, TemplateEntry& entry) {
    const Field& field = format_.top().fields[index];
    entry.offset = field.offset;
    if (ArrayKindOf(field.name).has_value() && !field.type.starts_with('M')) return ReadFirstLayout(index, entry);
    const std::optional<FieldName> name = ParseFieldName(field.name);
    if (!name.has_value()) return Bad(index, "its name is none of a variable");
    entry.name = *name;
    if (IsArray(name->kind)) {
      CAIRN_RETURN_IF_ERROR(ReadArray(index, entry));
      return 1;
    }
    const std::optional<Type> type = ScalarTypeOf(format_, field.type, field.element_bytes);
    if (!type.has_value()) return Bad(index, "its type is none of a variable");
    entry.name.type = *type;
    entry.name.element_bytes = ElementBytes(*type);
    return 1;
  }

  absl::Status ReadArray(std::size_t index, TemplateEntry& entry) {
    const Field& field = format_.top().fields[index];
    const std::optional<ArrayProperties> says = ArrayPropertiesOf(field.type);
    const Structure* const structure = format_.Find(field.type);  // null: a type with lengths
    if (!says.has_value() || structure == nullptr) return Bad(index, "its type is none of an array");
    const auto place = static_cast<std::size_t>(structure - format_.structures.data());
    if (!checked_[place] && !IsArrayRecord(*structure, *says)) {
      return DataLoss("{}: structure {}: its fields are not those of array records", where_, Quoted(structure->name));
    }
    checked_[place] = true;
    if (says->min_max_bytes != 0 && says->min_max_bytes != entry.name.element_bytes) {
      return Bad(index, "min/max of another element size");
    }
    entry.has_operator = says->has_operator;
    entry.has_min_max = says->min_max_bytes != 0;
    return absl::OkStatus();
  }

  // Seven to nine fields whose bytes make an array record.
  absl::StatusOr<std::size_t> ReadFirstLayout(std::size_t index, TemplateEntry& entry) {
    const std::span<const Field> fields = std::span(format_.top().fields).subspan(index);
    if (fields.size() < kArrayFieldsMin) return Bad(index, "an array, but fields are missing behind it");
    const std::optional<FieldName> name = ParseFirstLayoutCount(fields[kFirstLayoutCount].name);
    if (!name.has_value()) return Bad(index + kFirstLayoutCount, "its name is none of an array");
    entry.name = *name;
    entry.has_operator = name->has_operator;
    entry.has_min_max = name->has_min_max;
    std::size_t used = 0;
    for (std::size_t end = 0; end < kFirstLayoutEnds.size(); ++end) {
      if (end == kFirstLayoutLengths && !name->has_operator) continue;
      if (end == kFirstLayoutLengths + 1 && !name->has_min_max) continue;
      if (used == fields.size()) return Bad(index, "an array, but fields are missing behind it");
      const Field& field = fields[used];
      const std::optional<FieldType> type = ParseFieldType(field.type);
      const bool number = field.type == "integer" && field.element_bytes == 8;
      const bool fits = end < kFirstLayoutNumbers ? number : type.has_value() && type->Elsewhere();
      if (ArrayKindOf(field.name) != name->kind || !field.name.ends_with(kFirstLayoutEnds[end]) || !fits ||
          field.offset != entry.offset + 8 * used) {
        return Bad(index + used, "does not belong to the array that began before");
      }
      ++used;
    }
    return used;
  }

  absl::Status Bad(std::size_t index, std::string_view what) const {
    const Field& field = format_.top().fields[index];
    return DataLoss("{}: structure {}: field {} {}, type {}, offset {}: {}", where_, Quoted(format_.top().name), index,
                    Quoted(field.name), Quoted(field.type), field.offset, what);
  }

  const std::string_view where_;
  const Format& format_;
  std::vector<bool> checked_;  // structures found to be array records
};

}  // namespace

bool IsAsExpected(const Field& field, const ExpectedField& expected) {
  return field.name == expected.name && field.type == expected.type && field.element_bytes == expected.element_bytes &&
         field.offset == expected.offset;
}

absl::StatusOr<std::vector<TemplateEntry>> ReadTemplate(std::string_view where, const Format& format) {
  return Reader(where, format).Read();
}

std::optional<Type> ScalarTypeOf(const Format& format, std::string_view type, std::uint32_t element_bytes) {
  const std::uint32_t bytes = element_bytes;
  const auto sized = [bytes](Type one, Type two, Type four, Type eight) {
    return bytes == 1 ? one : bytes == 2 ? two : bytes == 4 ? four : eight;
  };
  if (type == "integer") return sized(Type::kInt8, Type::kInt16, Type::kInt32, Type::kInt64);
  if (type == "unsigned integer") return sized(Type::kUint8, Type::kUint16, Type::kUint32, Type::kUint64);
  if (type == "float") return bytes == 4 ? Type::kFloat : bytes == 8 ? Type::kDouble : Type::kLongDouble;
  if (type == "char" && bytes == 1) return Type::kChar;
  if (type == "string") return Type::kString;
  const auto complex = [&](std::string_view name, std::uint32_t part_bytes) {
    if (type != name || bytes != 2 * part_bytes) return false;
    const std::vector<Field>& parts = format.Find(name)->fields;
    return parts.size() == 2 && IsAsExpected(parts[0], {"real", "float", part_bytes, 0}) &&
           IsAsExpected(parts[1], {"imag", "float", part_bytes, part_bytes});
  };
  if (complex("complex4", 4)) return Type::kComplexFloat;
  if (complex("complex8", 8)) return Type::kComplexDouble;
  return std::nullopt;
}

bool Template::Add(std::uint32_t variable, const TemplateEntry& entry) {
  const std::uint32_t page = variable / kPageSlots;
  if (page >= pages_.size()) pages_.resize(page + 1, 0);
  if (pages_[page] == 0) {
    pages_[page] = static_cast<std::uint32_t>(slots_.size() / kPageSlots);
    slots_.resize(slots_.size() + kPageSlots);
  }
  Slot& slot = slots_[pages_[page] * kPageSlots + variable % kPageSlots];
  if (slot.offset != 0) return false;
  slot = {entry.offset, bits() | (entry.has_operator ? kOperatorFlag : 0) | (entry.has_min_max ? kMinMaxFlag : 0)};
  variables_.push_back(variable);
  return true;
}

std::uint64_t Template::own_bytes() const {
  return pages_.capacity() * sizeof(pages_[0]) + slots_.capacity() * sizeof(slots_[0]) +
         variables_.capacity() * sizeof(variables_[0]);
}

void Template::ShrinkToFit() {
  pages_.shrink_to_fit();
  slots_.shrink_to_fit();
  variables_.shrink_to_fit();
}

}  // namespace cairn::bp5
