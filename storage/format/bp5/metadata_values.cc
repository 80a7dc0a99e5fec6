#include <algorithm>
#include <type_traits>

#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

// Calls `visit` with a value of the C++ type; false: there is no min and max of it.
template <typename Visit>
bool WithOrderedType(Type type, Visit visit) {
  switch (type) {
    case Type::kChar:  // has no order, but arrays of ADIOS2 2.8 have min and max
    case Type::kInt8:
      visit(std::int8_t{});
      return true;
    case Type::kInt16:
      visit(std::int16_t{});
      return true;
    case Type::kInt32:
      visit(std::int32_t{});
      return true;
    case Type::kInt64:
      visit(std::int64_t{});
      return true;
    case Type::kUint8:
      visit(std::uint8_t{});
      return true;
    case Type::kUint16:
      visit(std::uint16_t{});
      return true;
    case Type::kUint32:
      visit(std::uint32_t{});
      return true;
    case Type::kUint64:
      visit(std::uint64_t{});
      return true;
    case Type::kFloat:
      visit(float{});
      return true;
    case Type::kDouble:
      visit(double{});
      return true;
    case Type::kLongDouble:
      visit(static_cast<long double>(0));
      return true;
    default:
      return false;
  }
}

// The least and the greatest so far.
template <typename T>
class Range {
 public:
  void Add(const std::byte* min, const std::byte* max) {
    const T low = Load(min), high = Load(max);
    if (min_ == nullptr || IsNan(low_) || low < low_) {
      low_ = low;
      min_ = min;
    }
    if (max_ == nullptr || IsNan(high_) || high > high_) {
      high_ = high;
      max_ = max;
    }
  }
  std::optional<MinMax> Result() const {
    if (min_ == nullptr) return std::nullopt;
    MinMax result;
    std::memcpy(result.min.data(), min_, sizeof(T));
    std::memcpy(result.max.data(), max_, sizeof(T));
    return result;
  }

 private:
  static bool IsNan(T value) { return !(value == value); }
  static T Load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }

  T low_{}, high_{};
  const std::byte *min_ = nullptr, *max_ = nullptr;
};

bool HasElements(const Block& block) {
  for (std::size_t d = 0; d < block.dimensions(); ++d) {
    if (block.count[d] == 0) return false;
  }
  return true;
}

// Blocks with elements, by whether their bounds are known.
struct Seen {
  std::uint64_t with = 0, without = 0;
};

template <typename T>
absl::Status AddStep(const Metadata& metadata, VariableNumber variable, std::uint32_t step, Range<T>& range,
                     Seen& seen) {
  if (IsArray(metadata.variables()[variable].kind)) {
    BlockWalk walk = metadata.Blocks(variable, step);
    while (walk.Next()) {
      if (walk.block().min != nullptr) {
        range.Add(walk.block().min, walk.block().max);
        ++seen.with;
      } else if (HasElements(walk.block())) {
        ++seen.without;
      }
    }
    return walk.status();
  }
  for (std::uint32_t writer = 0; writer < metadata.writers(step); ++writer) {
    const std::byte* const value = metadata.Find(variable, step, writer);
    if (value != nullptr) range.Add(value, value);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<MinMax>> MinMaxOver(const Metadata& metadata, VariableNumber variable,
                                                 std::span<const std::uint32_t> steps) {
  absl::Status status;
  std::optional<MinMax> result;
  std::uint64_t blocks_without = 0;
  std::uint32_t steps_without = 0;
  WithOrderedType(metadata.variables()[variable].type, [&](auto zero) {
    Range<decltype(zero)> range;
    for (const std::uint32_t step : steps) {
      Seen seen;
      status = AddStep(metadata, variable, step, range, seen);
      if (!status.ok()) return;
      blocks_without += seen.without;
      steps_without += seen.without > 0 && seen.with == 0 ? 1 : 0;
    }
    result = range.Result();
  });
  if (!status.ok()) return status;
  if (result) {
    result->blocks_without = blocks_without;
    result->steps_without = steps_without;
  }
  return result;
}

absl::Status NotWritten(const Metadata& metadata, VariableNumber variable, std::string_view where) {
  if (variable >= metadata.variables().size()) return NotFound("there is no variable {}", variable);
  return NotFound("variable {} was not written {}", Quoted(metadata.variables()[variable].name), where);
}

}  // namespace

const std::byte* Metadata::Find(VariableNumber variable, std::uint32_t step, std::uint32_t writer) const {
  return impl_->Find(variable, step, writer);
}

absl::StatusOr<std::span<const std::byte>> Metadata::Scalar(VariableNumber variable, std::uint32_t step,
                                                            std::uint32_t writer) const {
  const std::byte* const value = Find(variable, step, writer);
  if (value == nullptr) return NotWritten(*this, variable, fmt::format("by writer {} in step {}", writer, step));
  const Variable& v = impl_->variables[variable];
  if (IsArray(v.kind) || v.type == Type::kString) {
    return InvalidArgument("variable {} is {}", Quoted(v.name), IsArray(v.kind) ? "an array" : "a string");
  }
  return std::span(value, v.element_bytes);
}

absl::StatusOr<std::string_view> Metadata::String(VariableNumber variable, std::uint32_t step,
                                                  std::uint32_t writer) const {
  const std::byte* const value = Find(variable, step, writer);
  if (value == nullptr) return NotWritten(*this, variable, fmt::format("by writer {} in step {}", writer, step));
  const Variable& v = impl_->variables[variable];
  if (v.type != Type::kString) return InvalidArgument("variable {} is no string", Quoted(v.name));
  const Impl::Record& record = *impl_->RecordOf(step, writer);
  const std::optional<std::string_view> text =
      TextIn(record.base, record.length, impl_->templates[record.used].fixed_bytes, LoadU64(value));
  if (!text.has_value()) {
    return DataLoss("md.0: variable {}, step {}, writer {}: string at {} of {} bytes", Quoted(v.name), step, writer,
                    LoadU64(value), record.length);
  }
  return *text;
}

absl::StatusOr<std::uint32_t> Metadata::FirstWriter(VariableNumber variable, std::uint32_t step) const {
  for (std::uint32_t writer = 0; writer < writers(step); ++writer) {
    if (Find(variable, step, writer) != nullptr) return writer;
  }
  return NotWritten(*this, variable, fmt::format("in step {}", step));
}

absl::StatusOr<std::optional<MinMax>> Metadata::MinMaxOf(VariableNumber variable, std::uint32_t step) const {
  if (variable >= impl_->variables.size() || step >= impl_->steps.size()) return std::nullopt;
  return MinMaxOver(*this, variable, std::span(&step, 1));
}

absl::StatusOr<std::optional<MinMax>> Metadata::MinMaxOf(VariableNumber variable) const {
  if (variable >= impl_->variables.size()) return std::nullopt;
  return MinMaxOver(*this, variable, impl_->variables[variable].steps);
}

}  // namespace cairn::bp5
