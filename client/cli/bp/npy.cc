#include "client/cli/bp/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "client/cli/bp/element.h"
#include "client/cli/bp/value.h"
#include "storage/base/box.h"
#include "storage/base/status.h"

namespace cairn::cli {
namespace {

using bp5::Kind;
using bp5::Type;
using Shape = std::vector<std::uint64_t>;

std::string NumberDescr(Type type) {
  const std::uint32_t bytes = bp5::ElementBytes(type);
  switch (type) {
    case Type::kInt8:
    case Type::kChar:
      return "|i1";
    case Type::kUint8:
      return "|u1";
    case Type::kInt16:
    case Type::kInt32:
    case Type::kInt64:
      return fmt::format("<i{}", bytes);
    case Type::kUint16:
    case Type::kUint32:
    case Type::kUint64:
      return fmt::format("<u{}", bytes);
    case Type::kComplexFloat:
    case Type::kComplexDouble:
      return fmt::format("<c{}", bytes);
    default:
      return fmt::format("<f{}", bytes);
  }
}

bool IsPlainName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(),
                                      [](unsigned char c) { return c >= 0x20 && c < 0x7f && c != '\'' && c != '\\'; });
}

// The fields with their gaps, as numpy writes them itself. What it could not read back is opaque bytes.
std::string StructDescr(const Element& element) {
  const std::string opaque = fmt::format("'|V{}'", element.bytes());
  std::string text;
  std::set<std::string> names;
  std::uint32_t end = 0;
  const auto gap = [&](std::uint32_t until) {
    if (until > end) text += fmt::format("('', '|V{}'), ", until - end);
  };
  for (const ElementField& field : element.fields()) {
    if (field.offset < end || !IsPlainName(field.name) || !names.insert(field.name).second) return opaque;
    gap(field.offset);
    text += fmt::format("('{}', '{}'{}), ", field.name, NumberDescr(field.type),
                        field.single ? "" : fmt::format(", ({},)", field.count));
    end = field.offset + field.count * bp5::ElementBytes(field.type);
  }
  if (text.empty()) return opaque;
  gap(element.bytes());
  text.resize(text.size() - 2);
  // Version 1.0 has room for 65535 bytes of header.
  constexpr std::size_t kDescrMax = 60000;
  return text.size() > kDescrMax ? opaque : "[" + text + "]";
}

// numpy's description of the element's type, as Python source.
absl::StatusOr<std::string> DescrOf(const DumpTarget& target) {
  const bp5::Variable& variable = target.variable();
  if (variable.type == Type::kString) {
    return FailedPrecondition("{} is text, which a .npy of numbers cannot hold: dump it as text or with --json",
                              variable.name);
  }
  if (variable.type == Type::kStruct) return StructDescr(Element(target.metadata, variable));
  return "'" + NumberDescr(variable.type) + "'";
}

absl::Status AddScalar(const DumpTarget& target, std::uint32_t step, std::uint32_t writer, NpyArray& array) {
  const auto value = target.metadata.Scalar(target.number, step, writer);
  if (absl::IsNotFound(value.status())) {
    return FailedPrecondition("{}: writer {} has none in step {}: dump it as text or with --json",
                              target.variable().name, writer, step);
  }
  if (!value.ok()) return value.status();
  array.values.append(reinterpret_cast<const char*>(value->data()), value->size());
  return absl::OkStatus();
}

// What one step has, and its shape.
absl::StatusOr<Shape> AddStep(const DumpTarget& target, std::uint32_t step, NpyArray& array) {
  const bp5::Variable& variable = target.variable();
  if (variable.kind == Kind::kGlobalValue) {
    CAIRN_ASSIGN_OR_RETURN(const std::uint32_t writer, target.metadata.FirstWriter(target.number, step));
    CAIRN_RETURN_IF_ERROR(AddScalar(target, step, writer, array));
    return Shape();
  }
  if (variable.kind == Kind::kLocalValue) {
    CAIRN_ASSIGN_OR_RETURN(const Box box, BoxOf(Extents{target.metadata.writers(step)}, target.selection));
    for (std::uint64_t i = 0; i < box.count[0]; ++i) {
      CAIRN_RETURN_IF_ERROR(AddScalar(target, step, static_cast<std::uint32_t>(box.start[0] + i), array));
    }
    return Shape(box.count.begin(), box.count.end());
  }
  CAIRN_ASSIGN_OR_RETURN(auto parts, PartsOf(target.metadata, target.number, step, target.selection));
  if (parts.size() != 1) {
    return InvalidArgument("{} has {} blocks in step {}, each an array of its own: choose one with --block",
                           variable.name, parts.size(), step);
  }
  array.parts.push_back(parts.front());
  const Extents& count = parts.front().box.count;
  return Shape(count.begin(), count.end());
}

}  // namespace

std::string NpyHeader(const std::string& descr, std::span<const std::uint64_t> shape) {
  constexpr std::size_t kAlignment = 64, kFixedBytes = 10;
  const std::string text = fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                       fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t padded = (kFixedBytes + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  const std::size_t length = padded - kFixedBytes;
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(length & 0xff);
  header += static_cast<char>(length >> 8);
  header += text;
  header.append(padded - header.size() - 1, ' ');
  return header + "\n";
}

absl::StatusOr<NpyArray> PlanNpy(const DumpTarget& target) {
  CAIRN_ASSIGN_OR_RETURN(const std::string descr, DescrOf(target));
  NpyArray array;
  std::optional<Shape> first;
  for (const std::uint32_t step : target.steps) {
    CAIRN_ASSIGN_OR_RETURN(const Shape shape, AddStep(target, step, array));
    if (first && *first != shape) {
      return InvalidArgument("{} is {} in step {} and {} in step {}: choose one with --step", target.variable().name,
                             Braces(*first), target.steps.front(), Braces(shape), step);
    }
    first = shape;
  }
  if (target.steps.size() > 1) array.shape.push_back(target.steps.size());
  if (first) array.shape.insert(array.shape.end(), first->begin(), first->end());
  const auto elements = Elements(array.shape);
  const std::uint64_t bytes = target.variable().element_bytes;
  if (!elements || (bytes > 0 && *elements > std::numeric_limits<std::int64_t>::max() / bytes)) {
    return FailedPrecondition("{}: {} elements of {} bytes are no file", target.variable().name, Braces(array.shape),
                              bytes);
  }
  array.data_bytes = *elements * bytes;
  array.header = NpyHeader(descr, array.shape);
  return array;
}

absl::StatusOr<bool> WriteNpy(const DumpTarget& target, const NpyArray& array,
                              const std::function<absl::Status(std::span<const std::byte>)>& write) {
  CAIRN_RETURN_IF_ERROR(write(std::as_bytes(std::span(array.header))));
  if (!array.values.empty()) CAIRN_RETURN_IF_ERROR(write(std::as_bytes(std::span(array.values))));
  bool covered = true;
  for (const DumpPart& part : array.parts) {
    CAIRN_ASSIGN_OR_RETURN(const bool all, ReadPart(target.metadata, target.number, part, target.source, 0, write));
    covered &= all;
  }
  return covered;
}

}  // namespace cairn::cli
