#include <array>
#include <charconv>
#include <utility>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint64_t kEntryBytes = 24;  // PrimAttr, StrAttr
constexpr std::string_view kCountEnd = "_ElemCount";

template <std::size_t kFields>
bool HasFields(const Structure* structure, const std::array<ExpectedField, kFields>& expected) {
  return structure != nullptr && std::ranges::equal(structure->fields, expected, IsAsExpected);
}

// The structures of section 8.
bool IsGenericAttributes(const Format& format) {
  return HasFields<4>(&format.top(), {{{"PrimAttrCount", "integer", 8, 0},
                                       {"PrimAttrs", "PrimAttr[PrimAttrCount]", kEntryBytes, 8},
                                       {"StrAttrCount", "integer", 8, 16},
                                       {"StrAttrs", "StrAttr[StrAttrCount]", kEntryBytes, 24}}}) &&
         HasFields<3>(format.Find("PrimAttr"), {{{"name", "string", 8, 0},
                                                 {"TotalElementSize", "integer", 8, 8},
                                                 {"Values", "char[TotalElementSize]", 1, 16}}}) &&
         HasFields<3>(format.Find("StrAttr"), {{{"name", "string", 8, 0},
                                                {"ElementCount", "integer", 8, 8},
                                                {"Values", "string[ElementCount]", 8, 16}}});
}

// The number in front of the next '_', which is taken, too.
std::optional<std::uint32_t> TakeNumber(std::string_view& text) {
  std::uint32_t number = 0;
  const std::size_t end = text.find('_');
  if (end == std::string_view::npos || end == 0 || text.front() == '-') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + end, number);
  if (error != std::errc() || stop != text.data() + end) return std::nullopt;
  text.remove_prefix(end + 1);
  return number;
}

}  // namespace

// One attribute record. Nothing in it is stored twice, so all that is taken out of it is no more than it has: that is
// what keeps a small record from becoming a large answer.
class Metadata::Impl::AttributeReader {
 public:
  AttributeReader(const RecordView& record, std::uint64_t offset, std::map<std::string, Attribute>& attributes)
      : format_(record.entry->format),
        base_(record.base),
        length_(record.length),
        left_(record.length),
        offset_(offset),
        attributes_(attributes) {}

  absl::Status Read() { return format_.top().name == kAttributes ? ReadGeneric() : ReadFields(); }

 private:
  absl::Status ReadGeneric() {
    if (!IsGenericAttributes(format_)) return Bad("its format is not that of generic attributes");
    CAIRN_RETURN_IF_ERROR(ReadEntries(0, false));
    return ReadEntries(16, true);
  }

  // The list whose length lies at `at`.
  absl::Status ReadEntries(std::uint64_t at, bool strings) {
    const std::uint64_t count = LoadU64(base_ + at);
    if (count > length_ / kEntryBytes) return Bad("{} attributes in {} bytes", count, length_);
    CAIRN_ASSIGN_OR_RETURN(const std::byte* const entries, Array(LoadU64(base_ + at + 8), count * kEntryBytes));
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::byte* const entry = entries + i * kEntryBytes;
      CAIRN_ASSIGN_OR_RETURN(const std::string_view stored, Text(LoadU64(entry)));
      if (stored.size() < 2) return Bad("attribute {} has no name", i);
      Attribute attribute;
      attribute.name = stored.substr(1);
      int type = static_cast<unsigned char>(stored[0]) - '0';
      attribute.single = type <= kArrayMark;
      if (!attribute.single) type -= kArrayMark;
      const bool known = type >= static_cast<int>(Type::kInt8) && type <= static_cast<int>(Type::kChar);
      attribute.type = static_cast<Type>(type);
      if (!known || strings != (attribute.type == Type::kString)) {
        return Bad("attribute {} has type {}", Quoted(attribute.name), type);
      }
      CAIRN_RETURN_IF_ERROR(Fill(attribute, LoadU64(entry + 16), LoadU64(entry + 8)));
    }
    return absl::OkStatus();
  }

  // Values at `pointer`; `size`: in bytes, of strings their number. Then the attribute is complete.
  absl::Status Fill(Attribute& attribute, std::uint64_t pointer, std::uint64_t size) {
    const bool strings = attribute.type == Type::kString;
    const std::uint64_t element_bytes = strings ? 1 : ElementBytes(attribute.type);
    if (size > length_ / (strings ? 8 : 1) || size % element_bytes != 0 ||
        (attribute.single && size != element_bytes)) {
      return Bad("attribute {}: size {} of {}", Quoted(attribute.name), size, NameOf(attribute.type));
    }
    CAIRN_ASSIGN_OR_RETURN(const std::byte* const values, Array(pointer, strings ? 8 * size : size));
    if (!strings) {
      if (size > left_) return Bad("attribute {}: values that others have, too", Quoted(attribute.name));
      left_ -= size;
      attribute.values.assign(reinterpret_cast<const char*>(values), size);
    }
    for (std::uint64_t i = 0; strings && i < size; ++i) {
      CAIRN_ASSIGN_OR_RETURN(const std::string_view text, Text(LoadU64(values + 8 * i)));
      attribute.strings.emplace_back(text);
    }
    Put(std::move(attribute));
    return absl::OkStatus();
  }

  // Old records: a field or two per attribute.
  absl::Status ReadFields() {
    const std::vector<Field>& fields = format_.top().fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      std::string_view rest = fields[i].name;
      if (rest.starts_with("BPg_")) {
        CAIRN_RETURN_IF_ERROR(ReadSingle(fields[i], rest.substr(4)));
        continue;
      }
      // That a name ends so says nothing: what counts is that the next field's type refers to it.
      const std::optional<FieldType> type =
          i + 1 < fields.size() ? ParseFieldType(fields[i + 1].type) : std::optional<FieldType>();
      if (!rest.starts_with("BPG_") || !rest.ends_with(kCountEnd) || !type.has_value() || type->length_field != rest) {
        return Bad("field {} is none of an attribute", Quoted(rest));
      }
      CAIRN_RETURN_IF_ERROR(ReadArray(fields[i], fields[i + 1], *type));
      ++i;
    }
    return absl::OkStatus();
  }

  // `rest`: <esize>_<type>_<name>
  absl::Status ReadSingle(const Field& field, std::string_view rest) {
    const std::optional<std::uint32_t> element_bytes = TakeNumber(rest);
    const std::optional<std::uint32_t> type = TakeNumber(rest);
    if (!element_bytes.has_value() || !type.has_value() || rest.empty()) {
      return Bad("field {} is none of an attribute", Quoted(field.name));
    }
    Attribute attribute;
    attribute.name = rest;
    if (*type == static_cast<std::uint32_t>(Type::kString) && field.type == "string") {
      attribute.type = Type::kString;
      CAIRN_ASSIGN_OR_RETURN(const std::string_view text, Text(LoadU64(base_ + field.offset)));
      attribute.strings.emplace_back(text);
      Put(std::move(attribute));
      return absl::OkStatus();
    }
    const std::optional<Type> known = ArrayTypeOf(*type, *element_bytes);
    const std::optional<Type> field_type = ScalarTypeOf(format_, field.type, field.element_bytes);
    if (!known.has_value() || !field_type.has_value() || ElementBytes(*field_type) != *element_bytes) {
      return Bad("field {}: its type is none of an attribute", Quoted(field.name));
    }
    attribute.type = *known;
    attribute.values.assign(reinterpret_cast<const char*>(base_ + field.offset), *element_bytes);
    Put(std::move(attribute));
    return absl::OkStatus();
  }

  absl::Status ReadArray(const Field& count, const Field& values, const FieldType& type) {
    const std::optional<Type> known = ScalarTypeOf(format_, type.word, values.element_bytes);
    const std::string_view name = values.name.starts_with("BPG_") ? values.name.substr(4) : std::string_view();
    if (name.empty() || !known.has_value() || type.fixed_count != 1 || type.is_pointer) {
      return Bad("field {}: its type is none of an attribute", Quoted(values.name));
    }
    Attribute attribute;
    attribute.name = name;
    attribute.single = false;
    attribute.type = *known;
    const std::uint64_t element_bytes = *known == Type::kString ? 1 : ElementBytes(*known);
    const std::uint64_t elements = LoadU64(base_ + count.offset);
    if (elements > length_ / element_bytes) {
      return Bad("attribute {}: {} elements in {} bytes", Quoted(name), elements, length_);
    }
    return Fill(attribute, LoadU64(base_ + values.offset), elements * element_bytes);
  }

  void Put(Attribute attribute) {
    std::string name = attribute.name;
    attributes_.insert_or_assign(std::move(name), std::move(attribute));
  }

  absl::StatusOr<const std::byte*> Array(std::uint64_t pointer, std::uint64_t bytes) const {
    if (bytes == 0) return base_;
    if (pointer < format_.top().fixed_bytes || pointer % 8 != 0 || pointer > length_ || bytes > length_ - pointer) {
      return Bad("{} bytes at {} of {}", bytes, pointer, length_);
    }
    return base_ + pointer;
  }

  absl::StatusOr<std::string_view> Text(std::uint64_t pointer) {
    const std::optional<std::string_view> text = TextIn(base_, length_, format_.top().fixed_bytes, pointer, left_);
    if (!text.has_value()) return Bad("text at {} of {}", pointer, length_);
    left_ -= text->size() + (pointer == 0 ? 0 : 1);
    return *text;
  }

  template <typename... Args>
  absl::Status Bad(fmt::format_string<Args...> format, Args&&... args) const {
    return DataLoss("md.0: attribute record at {}: {}", offset_, fmt::format(format, std::forward<Args>(args)...));
  }

  const Format& format_;
  const std::byte* const base_;
  const std::uint64_t length_;
  std::uint64_t left_;  // bytes that may still be taken out of the record
  const std::uint64_t offset_;
  std::map<std::string, Attribute>& attributes_;
};

std::vector<Metadata::Impl::RecordView> Metadata::Impl::AttributeViews(const Step& step) const {
  std::vector<RecordView> views;
  const std::byte* const sizes = step.at + 8;
  const auto size = [&](std::uint64_t slot) { return LoadU64(sizes + 8 * slot); };
  const std::uint64_t bytes = step.metadata_end - step.metadata_begin;
  std::uint64_t at = 8 + 16 * std::uint64_t{step.writers};
  for (std::uint64_t i = 0; i < 2 * std::uint64_t{step.writers}; ++i) {
    if (size(i) > bytes - at) break;  // was checked when the step was taken
    RecordView view;
    const std::span<const std::byte> slot(step.at + at, size(i));
    at += slot.size();
    if (i < step.writers || slot.empty()) continue;
    if (OpenRecord(slot, view) == nullptr) views.push_back(view);
  }
  return views;
}

absl::StatusOr<std::map<std::string, Attribute>> Metadata::Attributes(std::uint32_t step) const {
  if (step >= impl_->steps.size()) return NotFound("there is no step {}", step);
  std::map<std::string, Attribute> attributes;
  for (std::uint32_t s = 0; s <= step; ++s) {
    const Impl::Step& from = impl_->steps[s];
    for (const Impl::RecordView& view : impl_->AttributeViews(from)) {
      const std::uint64_t offset = from.metadata_begin + static_cast<std::uint64_t>(view.base - from.at);
      CAIRN_RETURN_IF_ERROR(Impl::AttributeReader(view, offset, attributes).Read());
    }
  }
  return attributes;
}

std::vector<Metadata::RecordPlace> Metadata::AttributeRecords(std::uint32_t step) const {
  std::vector<RecordPlace> places;
  if (step >= impl_->steps.size()) return places;
  const Impl::Step& from = impl_->steps[step];
  for (const Impl::RecordView& view : impl_->AttributeViews(from)) {
    const std::uint64_t base = from.metadata_begin + static_cast<std::uint64_t>(view.base - from.at);
    places.push_back({&view.entry->format, base - HeadBytes(view.entry->format), {view.base, view.length}});
  }
  return places;
}

}  // namespace cairn::bp5
