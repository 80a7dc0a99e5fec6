// How a writer's metadata records are laid out, shared by all who put the same variables in the same order.
// Source: BP5 specification, sections 7 and 13.
#ifndef CAIRN_STORAGE_FORMAT_BP5_WRITER_FORMAT_H_
#define CAIRN_STORAGE_FORMAT_BP5_WRITER_FORMAT_H_

#include <absl/container/flat_hash_map.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/bp5/array_record.h"
#include "storage/format/bp5/format.h"
#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

struct FieldSpec {
  std::string_view name;
  Kind kind = Kind::kGlobalValue;
  Type type = Type::kInt8;
};

class WriterFormat {
 public:
  struct FieldPlace {
    std::string name;
    Kind kind = Kind::kGlobalValue;
    Type type = Type::kInt8;
    std::uint32_t offset = 0;  // in the record's fixed part
    FieldSpec spec() const { return {name, kind, type}; }
  };

  // The format with these variables, each of a type and kind that go together: as long as somebody has it the same
  // object, else one of the few that are kept; or made now. Thread-safe.
  //   kInvalidArgument  naming the variable: twice; or the block becomes too large
  static absl::StatusOr<std::shared_ptr<const WriterFormat>> For(std::span<const FieldSpec> specs);

  const std::vector<FieldPlace>& fields() const { return fields_; }
  std::uint32_t fixed_bytes() const { return fixed_bytes_; }
  const FormatBlock& block() const { return block_; }
  std::optional<std::uint32_t> Find(std::string_view name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  WriterFormat() = default;
  static absl::StatusOr<std::shared_ptr<const WriterFormat>> Make(std::span<const FieldSpec> specs);

  std::vector<FieldPlace> fields_;
  absl::flat_hash_map<std::string_view, std::uint32_t, std::hash<std::string_view>, std::equal_to<>> places_;
  std::uint32_t fixed_bytes_ = 0;
  FormatBlock block_;
};

// Of MetaArray or MetaArrayMM<k>. Arrays of an ordered type always have the latter: the reference reader takes the
// place of min and max from any one format and reads it in all.
constexpr std::uint32_t kArrayRecordBytesWithMinMax = kArrayRecordBytes + 8;

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_WRITER_FORMAT_H_
