#include "storage/format/bp5/attribute_encode.h"

#include <set>
#include <string_view>
#include <vector>

#include "storage/base/check.h"
#include "storage/base/status.h"
#include "storage/format/bp5/nul.h"
#include "storage/format/bp5/record.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint64_t kFixedBytes = 32;
constexpr std::uint64_t kElementBytes = 24;  // of PrimAttr and StrAttr

absl::Status Check(const Attribute& attribute) {
  if (attribute.name.empty() || HasNul(attribute.name)) {
    return InvalidArgument("attribute \"{}\": no name, or a NUL in it", attribute.name);
  }
  if (attribute.type == Type::kString) {
    for (const std::string& text : attribute.strings) {
      if (HasNul(text)) return InvalidArgument("attribute {}: a string with a NUL in it", attribute.name);
    }
    if (!attribute.values.empty() || (attribute.single && attribute.strings.size() != 1)) {
      return InvalidArgument("attribute {}: {} strings and {} bytes of values", attribute.name,
                             attribute.strings.size(), attribute.values.size());
    }
    return absl::OkStatus();
  }
  const std::uint32_t element_bytes = ElementBytes(attribute.type);
  if (element_bytes == 0) return InvalidArgument("attribute {}: of a type that attributes cannot have", attribute.name);
  const bool fits =
      attribute.single ? attribute.values.size() == element_bytes : attribute.values.size() % element_bytes == 0;
  if (!fits || !attribute.strings.empty()) {
    return InvalidArgument("attribute {}: {} bytes of values and {} strings for type {}", attribute.name,
                           attribute.values.size(), attribute.strings.size(), NameOf(attribute.type));
  }
  return absl::OkStatus();
}

std::string StoredName(const Attribute& attribute) {
  const char mark = static_cast<char>('0' + static_cast<int>(attribute.type) + (attribute.single ? 0 : kArrayMark));
  return mark + attribute.name;
}

std::uint64_t BytesMax(const Attribute& attribute) {
  std::uint64_t bytes = kElementBytes + attribute.name.size() + 2 + 7 + attribute.values.size() + 7;
  for (const std::string& text : attribute.strings) bytes += 8 + text.size() + 1;
  return bytes;
}

void FillValues(const Attribute& attribute, std::uint64_t at, RecordWriter& record) {
  if (attribute.type != Type::kString) {
    record.SetNumber(at + 8, attribute.values.size());
    if (attribute.values.empty()) return;
    record.SetNumber(at + 16, record.BeginArray());
    record.AddBytes(attribute.values);
    return;
  }
  record.SetNumber(at + 8, attribute.strings.size());
  if (attribute.strings.empty()) return;
  std::uint64_t place = record.BeginArray();
  record.SetNumber(at + 16, place);
  record.AddZeros(8 * attribute.strings.size());
  for (const std::string& text : attribute.strings) {
    record.SetNumber(place, record.AddString(text));
    place += 8;
  }
}

// One of the two lists, with the count at `at` and the pointer behind it.
void FillList(const std::vector<const Attribute*>& attributes, std::uint64_t at, RecordWriter& record) {
  record.SetNumber(at, attributes.size());
  if (attributes.empty()) return;
  std::uint64_t element = record.BeginArray();
  record.SetNumber(at + 8, element);
  record.AddZeros(kElementBytes * attributes.size());
  for (const Attribute* attribute : attributes) {
    record.SetNumber(element, record.AddString(StoredName(*attribute)));
    FillValues(*attribute, element, record);
    element += kElementBytes;
  }
}

NewStructure Element(const char* name, const char* count, const char* values_type, std::uint32_t values_bytes) {
  return {.name = name,
          .fixed_bytes = kElementBytes,
          .fields = {{"name", "string", 8, 0}, {count, "integer", 8, 8}, {"Values", values_type, values_bytes, 16}}};
}

}  // namespace

std::shared_ptr<const FormatBlock> AttributesFormat() {
  static const auto& format = *new std::shared_ptr<const FormatBlock>([] {
    const NewStructure top{.name = "GenericAttributes",
                           .fixed_bytes = kFixedBytes,
                           .fields = {{"PrimAttrCount", "integer", 8, 0},
                                      {"PrimAttrs", "PrimAttr[PrimAttrCount]", kElementBytes, 8},
                                      {"StrAttrCount", "integer", 8, 16},
                                      {"StrAttrs", "StrAttr[StrAttrCount]", kElementBytes, 24}}};
    absl::StatusOr<FormatBlock> block =
        EncodeFormat(top, {Element("PrimAttr", "TotalElementSize", "char[TotalElementSize]", 1),
                           Element("StrAttr", "ElementCount", "string[ElementCount]", 8)});
    CAIRN_CHECK(block.ok());
    return std::make_shared<const FormatBlock>(*std::move(block));
  }());
  return format;
}

absl::StatusOr<std::string> EncodeAttributes(std::span<const Attribute> attributes) {
  std::vector<const Attribute*> numbers, strings;
  std::set<std::string_view> names;
  std::uint64_t bytes = 0;
  for (const Attribute& attribute : attributes) {
    CAIRN_RETURN_IF_ERROR(Check(attribute));
    if (!names.insert(attribute.name).second) return InvalidArgument("attribute {}: given twice", attribute.name);
    (attribute.type == Type::kString ? strings : numbers).push_back(&attribute);
    bytes += BytesMax(attribute);
  }
  RecordWriter record(AttributesFormat()->id, kFixedBytes, bytes + 14);  // both lists begin at a multiple of 8
  FillList(numbers, 0, record);
  FillList(strings, 16, record);
  return std::move(record).Finish();
}

}  // namespace cairn::bp5
