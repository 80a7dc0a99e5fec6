#include "storage/base/quoted.h"
#include "storage/base/status.h"
#include "storage/format/bp5/metadata_impl.h"

namespace cairn::bp5 {
namespace {

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

}  // namespace cairn::bp5
