#include "client/cli/bp/element.h"

#include <algorithm>

#include "client/cli/bp/value.h"
#include "client/cli/text.h"
#include "storage/format/bp5/format.h"

namespace cairn::cli {
namespace {

const bp5::Format* FindFormat(const bp5::Metadata& metadata, const bp5::FormatId& id) {
  const auto formats = metadata.formats();
  const auto found = std::find_if(formats.begin(), formats.end(), [&](const auto* format) { return format->id == id; });
  return found == formats.end() ? nullptr : *found;
}

// Empty if a field is anything but numbers in place.
std::vector<ElementField> FlatFields(const bp5::Structure& structure, std::uint32_t bytes) {
  std::vector<ElementField> fields;
  for (const bp5::Field& field : structure.fields) {
    const auto parsed = bp5::ParseFieldType(field.type);
    if (!parsed || parsed->Elsewhere()) return {};
    const auto type = bp5::NumberTypeOf(parsed->base, field.element_bytes);
    if (!type || field.offset > bytes || parsed->fixed_count * field.element_bytes > bytes - field.offset) return {};
    fields.push_back({.name = std::string(field.name),
                      .type = *type,
                      .offset = field.offset,
                      .count = static_cast<std::uint32_t>(parsed->fixed_count),
                      .single = !parsed->is_array});
  }
  return fields;
}

template <typename AppendValue>
void AppendField(std::string& out, const ElementField& field, const std::byte* at, AppendValue append) {
  const std::byte* const first = at + field.offset;
  if (field.single) return append(out, field.type, first);
  out += "[";
  for (std::uint32_t i = 0; i < field.count; ++i) {
    if (i > 0) out += ", ";
    append(out, field.type, first + std::size_t{i} * bp5::ElementBytes(field.type));
  }
  out += "]";
}

}  // namespace

Element::Element(const bp5::Metadata& metadata, const bp5::Variable& variable)
    : type_(variable.type), bytes_(variable.element_bytes) {
  if (type_ != bp5::Type::kStruct) return;
  const bp5::Format* const format = FindFormat(metadata, variable.element_format);
  if (format == nullptr) return;
  struct_name_ = std::string(format->top().name);
  fields_ = FlatFields(format->top(), bytes_);
}

void Element::AppendExact(std::string& out, const std::byte* at) const {
  if (type_ != bp5::Type::kStruct) return cli::AppendExact(out, type_, at);
  if (fields_.empty()) {
    out += HexOf({at, bytes_});
    return;
  }
  out += "{";
  for (const ElementField& field : fields_) {
    if (&field != &fields_.front()) out += ", ";
    out += Clean(field.name) + ": ";
    AppendField(out, field, at, cli::AppendExact);
  }
  out += "}";
}

void Element::AppendJson(std::string& out, const std::byte* at) const {
  if (type_ != bp5::Type::kStruct) return cli::AppendJson(out, type_, at);
  if (fields_.empty()) {
    out += "\"" + HexOf({at, bytes_}) + "\"";
    return;
  }
  out += "{";
  for (const ElementField& field : fields_) {
    if (&field != &fields_.front()) out += ", ";
    out += JsonString(field.name) + ": ";
    AppendField(out, field, at, cli::AppendJson);
  }
  out += "}";
}

std::string TypeText(const Element& element, const bp5::Variable& variable) {
  std::string text(bp5::NameOf(variable.type));
  if (!element.struct_name().empty()) text += " " + element.struct_name();
  return text;
}

}  // namespace cairn::cli
