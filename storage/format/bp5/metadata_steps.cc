#include <bit>

#include "storage/base/quoted.h"
#include "storage/format/bp5/metadata_extend.h"

namespace cairn::bp5 {
namespace {

constexpr std::uint64_t kShortHeadBytes = 16;  // of records
constexpr std::size_t kLengthOffset = 12;

}  // namespace

const char* Metadata::Impl::OpenRecord(std::span<const std::byte> slot, RecordView& view) const {
  if (slot.size() < kShortHeadBytes) return "no room for a record";
  if (view.entry == nullptr || std::memcmp(view.entry->format.id.bytes.data(), slot.data(), kIdBytes) != 0) {
    std::array<std::uint8_t, kIdBytes> id;
    std::memcpy(id.data(), slot.data(), kIdBytes);
    const auto found = formats_by_id.find(id);
    if (found == formats_by_id.end()) return "its format is not in mmd.0";
    view.entry = found->second;
  }
  const Structure& top = view.entry->format.top();
  const std::uint64_t head = HeadBytes(view.entry->format);
  if (slot.size() < head) return "no room for a record";
  if (!top.has_variable_parts) {
    view.length = top.fixed_bytes;
  } else if (view.entry->format.version == 1) {
    std::uint32_t length;
    std::memcpy(&length, &slot[kLengthOffset], sizeof(length));
    view.length = length;
  } else {
    view.length = LoadU64(&slot[kLengthOffset]);
  }
  if (view.length > slot.size() - head) return "its length leaves the slot";
  if (top.fixed_bytes > view.length) return "its length is less than its fixed part";
  view.base = slot.data() + head;
  return nullptr;
}

// Every writer's record, then the attribute records: section 6.
absl::Status Metadata::Impl::Extender::TakeStepMetadata(Bytes bytes) {
  const std::uint32_t writers = step_.writers;
  step_.at = bytes.data();
  if (LoadU64(bytes.data()) != bytes.size() - 8) {
    return BadStep("{} bytes by md.0, {} by md.idx", LoadU64(bytes.data()), bytes.size() - 8);
  }
  const std::byte* const sizes = &bytes[8];
  Bytes rest = bytes.subspan(8 + 16 * std::uint64_t{writers});
  impl_.records.resize(step_.first_record + writers);
  for (std::uint32_t i = 0; i < 2 * writers; ++i) {
    const std::uint64_t size = LoadU64(sizes + 8 * std::uint64_t{i});
    const bool attributes = i >= writers;
    if (attributes && size == 0) continue;
    if (size > rest.size() || size % 8 != 0) {
      return BadStep("{} slot {} of {} bytes, {} are left", attributes ? "attribute" : "metadata",
                     attributes ? i - writers : i, size, rest.size());
    }
    const Bytes slot = rest.first(size);
    rest = rest.subspan(size);
    CAIRN_RETURN_IF_ERROR(attributes ? TakeAttributeRecord(slot) : TakeRecord(i, slot));
  }
  if (!rest.empty()) return BadStep("{} bytes behind the slots", rest.size());
  return absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeRecord(std::uint32_t writer, Bytes slot) {
  // The next record mostly has the same format, and its bit field behind the fixed part.
  const std::byte* const next = slot.data() + slot.size();
  __builtin_prefetch(next);
  if (record_view_.entry != nullptr) {
    const Format& format = record_view_.entry->format;
    __builtin_prefetch(next + HeadBytes(format) + format.top().fixed_bytes);
  }
  if (const char* const what = impl_.OpenRecord(slot, record_view_); what != nullptr) {
    return BadStep("record of writer {} at {}: {}", writer, OffsetOf(slot.data()), what);
  }
  FormatEntry& entry = *record_view_.entry;
  if (entry.template_index == kNone) CAIRN_RETURN_IF_ERROR(UseFormat(entry));
  Used& used = impl_.templates[entry.template_index];
  const std::byte* const base = record_view_.base;
  const std::uint64_t length = record_view_.length;
  const std::uint64_t count = LoadU64(base), pointer = LoadU64(base + 8);
  if (count != 0 &&
      (pointer < used.fixed_bytes || pointer % 8 != 0 || pointer > length || count > (length - pointer) / 8)) {
    return BadStep("record of writer {} at {}: bit field of {} words at {}, of {} bytes", writer, OffsetOf(slot.data()),
                   count, pointer, length);
  }
  Record& record = impl_.records[step_.first_record + writer];
  const std::byte* const bits = count == 0 ? base : base + pointer;  // of no words the pointer may be anything
  record = {base, length, entry.template_index, NoteBits(used, writer, bits, count)};
  Merge(used, record);
  step_.formats_end = std::max(step_.formats_end, used.formats_end);
  return absl::OkStatus();
}

absl::Status Metadata::Impl::Extender::TakeAttributeRecord(Bytes slot) {
  RecordView view;
  if (const char* const what = impl_.OpenRecord(slot, view); what != nullptr) {
    return BadStep("attribute record at {}: {}", OffsetOf(slot.data()), what);
  }
  const std::string_view name = view.entry->format.top().name;
  if (name != kAttributes && name != kFirstAttributes) {
    return BadStep("attribute record at {}: its format is of {}", OffsetOf(slot.data()), Quoted(name));
  }
  step_.formats_end = std::max(step_.formats_end, view.entry->end);
  return absl::OkStatus();
}

// Makes the template of a format of metadata records.
absl::Status Metadata::Impl::Extender::UseFormat(FormatEntry& entry) {
  const std::string where = fmt::format("mmd.0: entry at {}", entry.begin);
  if (entry.format.top().name != "MetaData") {
    return BadStep("a metadata record has the format of {}, {}", Quoted(entry.format.top().name), where);
  }
  CAIRN_ASSIGN_OR_RETURN(const std::vector<TemplateEntry> entries, ReadTemplate(where, entry.format));
  Used used;
  used.entry = &entry;
  used.fixed_bytes = entry.format.top().fixed_bytes;
  used.formats_end = entry.end;
  for (const TemplateEntry& variable : entries) {
    CAIRN_ASSIGN_OR_RETURN(const VariableNumber number, NumberOf(entry, variable));
    if (!used.places.Add(number, variable)) {
      return DataLoss("{}: variable {} is there twice", where, Quoted(variable.name.name));
    }
    if (variable.name.type != Type::kStruct) continue;
    const auto elements = impl_.formats_by_id.find(variable.name.element_format.bytes);
    if (elements != impl_.formats_by_id.end()) used.formats_end = std::max(used.formats_end, elements->second->end);
  }
  used.merged.resize(used.places.words());
  used.places.ShrinkToFit();
  entry.template_index = static_cast<std::uint32_t>(impl_.templates.size());
  impl_.templates.push_back(std::move(used));
  return absl::OkStatus();
}

// Of the variable of this name, new or not; not if it is another one.
absl::StatusOr<VariableNumber> Metadata::Impl::Extender::NumberOf(const FormatEntry& entry,
                                                                  const TemplateEntry& variable) {
  const FieldName& name = variable.name;
  const auto [found, is_new] =
      impl_.variables_by_name.try_emplace(name.name, static_cast<VariableNumber>(impl_.variables.size()));
  if (is_new) {
    Variable& made = impl_.variables.emplace_back();
    made.name = name.name;
    made.kind = name.kind;
    made.type = name.type;
    made.element_bytes = name.element_bytes;
    made.has_operator = variable.has_operator;
    made.expression = name.expression;
    made.element_format = name.element_format;
    return found->second;
  }
  Variable& known = impl_.variables[found->second];
  if (known.kind != name.kind || known.type != name.type || known.element_bytes != name.element_bytes ||
      known.element_format != name.element_format) {
    return DataLoss("mmd.0: entry at {}: variable {} is of kind {} and type {} here, of {} and {} before", entry.begin,
                    Quoted(name.name), static_cast<char>(name.kind), NameOf(name.type), static_cast<char>(known.kind),
                    NameOf(known.type));
  }
  if (variable.has_operator && !known.has_operator) {
    KeepForGoingBack(found->second);
    known.has_operator = true;
  }
  return found->second;
}

// Answers where the bit field is noted. Most are as the writer's before, in this step or in the last.
std::uint32_t Metadata::Impl::Extender::NoteBits(Used& used, std::uint32_t writer, const std::byte* bits,
                                                 std::uint64_t count) {
  const std::uint32_t words = used.places.words(), last_bits = used.places.bits() % 64;
  const auto word = [&](std::uint32_t i) {
    if (i >= count) return std::uint64_t{0};
    const std::uint64_t all = LoadU64(bits + 8 * std::uint64_t{i});
    return i + 1 == words && last_bits != 0 ? all & ((std::uint64_t{1} << last_bits) - 1) : all;
  };
  const auto same = [&](std::uint32_t first) {
    for (std::uint32_t i = 0; i < words; ++i) {
      if (impl_.words[first + i] != word(i)) return false;
    }
    return true;
  };
  if (used.last_words != kNone && same(used.last_words)) return used.last_words;
  if (!impl_.steps.empty() && writer < impl_.steps.back().writers) {
    const Record& before = impl_.records[impl_.steps.back().first_record + writer];
    const bool same_format = &impl_.templates[before.used] == &used;
    if (same_format && same(before.first_word)) return used.last_words = before.first_word;
  }
  used.last_words = static_cast<std::uint32_t>(impl_.words.size());
  for (std::uint32_t i = 0; i < words; ++i) impl_.words.push_back(word(i));
  return used.last_words;
}

// Notes in the variables what this record has and none before it in the step and format had.
void Metadata::Impl::Extender::Merge(Used& used, const Record& record) {
  const auto step = static_cast<std::uint32_t>(impl_.steps.size());
  if (used.merged_step == step && used.merged_words == record.first_word) return;
  if (used.merged_step != step) std::ranges::fill(used.merged, 0);
  used.merged_step = step;
  used.merged_words = record.first_word;
  for (std::uint32_t i = 0; i < used.merged.size(); ++i) {
    std::uint64_t fresh = impl_.words[record.first_word + i] & ~used.merged[i];
    used.merged[i] |= fresh;
    for (; fresh != 0; fresh &= fresh - 1) {
      const std::uint32_t bit = 64 * i + static_cast<std::uint32_t>(std::countr_zero(fresh));
      const VariableNumber number = used.places.VariableOf(bit);
      NoteWritten(number, record.base + used.places.Find(number).offset);
    }
  }
}

void Metadata::Impl::Extender::NoteWritten(VariableNumber number, const std::byte* at) {
  const auto step = static_cast<std::uint32_t>(impl_.steps.size());
  Variable& variable = impl_.variables[number];
  if (variable.steps.empty() || variable.steps.back() != step) variable.steps.push_back(step);
  if (variable.dimensions != 0 || !IsArray(variable.kind)) return;
  // The first record says how many dimensions the variable has; all others must agree when they are used.
  const std::uint64_t dimensions = LoadU64(at);
  if (dimensions > kDimensionsMax) return;
  KeepForGoingBack(number);
  variable.dimensions = static_cast<std::uint32_t>(dimensions);
}

void Metadata::Impl::Extender::KeepForGoingBack(VariableNumber number) {
  if (number >= before_.variables) return;
  kept_.push_back({number, impl_.variables[number].has_operator, impl_.variables[number].dimensions});
}

}  // namespace cairn::bp5
