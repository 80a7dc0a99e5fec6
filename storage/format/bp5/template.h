// Where the variables lie in the records of one format: made once per format of metadata records. Checks: BP5
// specification, section 14, "MetaData".
#ifndef CAIRN_STORAGE_FORMAT_BP5_TEMPLATE_H_
#define CAIRN_STORAGE_FORMAT_BP5_TEMPLATE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "storage/format/bp5/array_record.h"
#include "storage/format/bp5/field_name.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

// A field that a structure must have.
struct ExpectedField {
  std::string_view name, type;
  std::uint32_t element_bytes, offset;
};
bool IsAsExpected(const Field& field, const ExpectedField& expected);

// A variable as one format of metadata records has it.
struct TemplateEntry {
  FieldName name;             // complete: type and element size of scalars, too
  std::uint32_t offset = 0;   // of the value or of the array record in the fixed part
  bool has_operator = false;  // array records with DataBlockSize
  bool has_min_max = false;   // array records with MinMax
};

// The variables of a format, by bit. `where` goes into errors. kDataLoss: not a format of metadata records.
absl::StatusOr<std::vector<TemplateEntry>> ReadTemplate(std::string_view where, const Format& format);

// A scalar's type, from its field's; nullopt: none of section 7's.
std::optional<Type> ScalarTypeOf(const Format& format, std::string_view type, std::uint32_t element_bytes);

// By variable number: where in the record, which bit. In pages, since a directory of many formats has many more
// variables than each format.
class Template {
 public:
  struct Slot {
    std::uint32_t offset = 0;  // 0: not in this format
    std::uint32_t bit_and_flags = 0;
    std::uint32_t bit() const { return bit_and_flags & kBitMask; }
    bool has_operator() const { return (bit_and_flags & kOperatorFlag) != 0; }
    bool has_min_max() const { return (bit_and_flags & kMinMaxFlag) != 0; }
  };

  // Bits are given in the order of calls. False: the variable is there already.
  bool Add(std::uint32_t variable, const TemplateEntry& entry);

  Slot Find(std::uint32_t variable) const {
    const std::uint32_t page = variable / kPageSlots;
    if (page >= pages_.size()) return {};
    return slots_[pages_[page] * kPageSlots + variable % kPageSlots];
  }
  std::uint32_t bits() const { return static_cast<std::uint32_t>(variables_.size()); }
  std::uint32_t words() const { return (bits() + 63) / 64; }
  std::uint32_t VariableOf(std::uint32_t bit) const { return variables_[bit]; }
  std::uint64_t own_bytes() const;
  void ShrinkToFit();

 private:
  static constexpr std::uint32_t kPageSlots = 32;
  // A format has fewer than 2^28 fields, since its length has 32 bits.
  static constexpr std::uint32_t kOperatorFlag = 1u << 31, kMinMaxFlag = 1u << 30, kBitMask = kMinMaxFlag - 1;

  std::vector<std::uint32_t> pages_;  // by variable / kPageSlots; 0: the empty page
  std::vector<Slot> slots_ = std::vector<Slot>(kPageSlots);
  std::vector<std::uint32_t> variables_;  // by bit
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_TEMPLATE_H_
