// What Metadata builds of the three files, and how it finds its way: BP5 specification, section 11. For metadata*.cc.
#ifndef CAIRN_STORAGE_FORMAT_BP5_METADATA_IMPL_H_
#define CAIRN_STORAGE_FORMAT_BP5_METADATA_IMPL_H_

#include <absl/base/thread_annotations.h>
#include <absl/container/flat_hash_map.h>
#include <absl/synchronization/mutex.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/step_bounds.h"
#include "storage/format/bp5/template.h"

namespace cairn::bp5 {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};
inline constexpr std::size_t kIdBytes = 12;
inline constexpr std::uint64_t kDimensionsMax = 64;
inline constexpr std::uint64_t kWritersMax = 1u << 30;  // of a step: so that twice as many slots can be counted
// The top structures of attribute records, current and old.
inline constexpr std::string_view kAttributes = "GenericAttributes", kFirstAttributes = "Attributes";

inline ArrayPlace PlaceOf(const Template::Slot& slot, std::uint32_t fixed_bytes) {
  return {.offset = slot.offset,
          .fixed_bytes = fixed_bytes,
          .word = slot.bit() / 64,
          .mask = std::uint64_t{1} << (slot.bit() % 64),
          .has_operator = slot.has_operator(),
          .has_min_max = slot.has_min_max()};
}

inline ArrayTraits TraitsOf(const Variable& variable) {
  return {.dimensions = variable.dimensions,
          .element_bytes = variable.element_bytes,
          .kind = variable.kind,
          .ordered = IsOrdered(variable.type) || variable.type == Type::kChar,  // ADIOS2 2.8 stores them of char, too
          .unknown = NoMinMaxOf(variable.type)};
}

struct Metadata::Impl {
  // An entry of mmd.0.
  struct FormatEntry {
    Format format;
    std::uint64_t begin = 0, end = 0;      // in mmd.0
    std::uint32_t template_index = kNone;  // of formats of metadata records, once one is used
  };

  // A template, and what goes on about it while steps are added.
  struct Used {
    Template places;
    const FormatEntry* entry = nullptr;
    std::uint32_t fixed_bytes = 0;
    std::uint64_t formats_end = 0;       // in mmd.0, of the format and those of its structs
    std::uint32_t last_words = kNone;    // the bit field added last: place in `words`
    std::uint32_t merged_step = kNone;   // in which `merged` says what was written
    std::uint32_t merged_words = kNone;  // the bit field merged last: place in `words`
    std::vector<std::uint64_t> merged;
  };

  struct WriterMap {
    std::size_t first = 0;  // in `subfiles`
    std::uint32_t writers = 0;
  };

  struct Step {
    std::uint32_t writers = 0;
    std::uint32_t map = 0;
    std::uint32_t flushes = 0;
    std::size_t first_record = 0;    // in `records`, one per writer
    std::size_t first_position = 0;  // in `positions`, 2 * flushes + 1 per writer
    const std::byte* at = nullptr;   // in md.0
    std::uint64_t metadata_begin = 0, metadata_end = 0;
    std::uint64_t index_end = 0;
    std::uint64_t formats_end = 0;
  };

  // A metadata record. Its bit field was checked and noted, so that a look-up touches the record itself only.
  struct Record {
    const std::byte* base = nullptr;
    std::uint64_t length = 0;      // from the base on
    std::uint32_t used = 0;        // in `templates`
    std::uint32_t first_word = 0;  // in `words`: as many as the template has
  };

  // A record's bytes behind its header.
  struct RecordView {
    FormatEntry* entry = nullptr;
    const std::byte* base = nullptr;
    std::uint64_t length = 0;
  };

  class Extender;
  class AttributeReader;
  class BoundsPass;

  Header header;
  std::uint64_t index_bytes = 0, formats_bytes = 0, metadata_bytes = 0;
  std::uint64_t steps_bytes = 0;  // of md.0, the sum over all steps

  std::deque<FormatEntry> formats;
  absl::flat_hash_map<std::array<std::uint8_t, kIdBytes>, FormatEntry*> formats_by_id;
  std::vector<Used> templates;
  std::vector<Variable> variables;
  absl::flat_hash_map<std::string_view, VariableNumber> variables_by_name;  // names lie in mmd.0

  std::vector<std::uint32_t> subfiles;
  std::vector<WriterMap> maps;
  std::vector<Step> steps;
  std::vector<Record> records;
  std::vector<std::uint64_t> positions;
  std::vector<std::uint64_t> words;  // of bit fields, each different one about once

  // Of steps of which the bounds of many arrays were asked for.
  absl::Mutex bounds_mutex;
  std::vector<StepBounds> bounds ABSL_GUARDED_BY(bounds_mutex);

  // Bounds of an array in a step; nullopt: they are to be looked for block by block.
  std::optional<ArrayBounds> BoundsIn(VariableNumber variable, std::uint32_t step);

  // Where a variable is in a record; nullopt: not in its format, or not written.
  std::optional<Template::Slot> SlotOf(const Record& record, VariableNumber variable) const {
    const Template::Slot slot = templates[record.used].places.Find(variable);
    if (slot.offset == 0) return std::nullopt;
    const std::uint32_t bit = slot.bit();
    if ((words[record.first_word + bit / 64] >> (bit % 64) & 1) == 0) return std::nullopt;
    return slot;
  }
  const Record* RecordOf(std::uint32_t step, std::uint32_t writer) const {
    if (step >= steps.size() || writer >= steps[step].writers) return nullptr;
    return &records[steps[step].first_record + writer];
  }
  const std::byte* Find(VariableNumber variable, std::uint32_t step, std::uint32_t writer) const {
    const Record* const record = RecordOf(step, writer);
    if (record == nullptr) return nullptr;
    const std::optional<Template::Slot> slot = SlotOf(*record, variable);
    return slot.has_value() ? record->base + slot->offset : nullptr;
  }
  // The pairs of a writer, then its final position.
  std::span<const std::uint64_t> PositionsOf(const Step& step, std::uint32_t writer) const {
    const std::size_t each = 2 * std::size_t{step.flushes} + 1;
    return std::span(positions).subspan(step.first_position + writer * each, each);
  }

  // A slot with a record of a known format: its header, its length. nullptr: all is well; else what is not.
  // `view` may name the format expected.
  const char* OpenRecord(std::span<const std::byte> slot, RecordView& view) const;
  // The attribute records of a step, which was taken.
  std::vector<RecordView> AttributeViews(const Step& step) const;
};

// Of a record's header: section 6.
inline std::uint64_t HeadBytes(const Format& format) {
  return format.version == 1 || !format.top().has_variable_parts ? 16 : 24;
}

// A string in a record, without looking at more than `bytes_max` of it (with its zero byte). nullopt: not in there.
inline std::optional<std::string_view> TextIn(const std::byte* base, std::uint64_t length, std::uint64_t fixed_bytes,
                                              std::uint64_t pointer, std::uint64_t bytes_max = ~std::uint64_t{0}) {
  if (pointer == 0) return std::string_view();
  if (pointer < fixed_bytes || pointer >= length) return std::nullopt;
  const auto* const text = reinterpret_cast<const char*>(base) + pointer;
  const void* const end = std::memchr(text, 0, std::min(length - pointer, bytes_max));
  if (end == nullptr) return std::nullopt;
  return std::string_view(text, static_cast<std::size_t>(static_cast<const char*>(end) - text));
}

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_METADATA_IMPL_H_
