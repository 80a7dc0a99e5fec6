#include "daemon/core/variables.h"

#include <algorithm>
#include <unordered_set>

#include "proto/frame.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

absl::Status ValidateBox(const local::Variable& variable) {
  const int dims = variable.shape_size();
  if (dims < 1 || dims > static_cast<int>(CAIRN_DIMENSIONS_MAX)) {
    return InvalidArgument("variable {}: {} dimensions, 1 to {} are possible", variable.id(), dims,
                           CAIRN_DIMENSIONS_MAX);
  }
  if (variable.box_start_size() != dims || variable.box_count_size() != dims) {
    return InvalidArgument("variable {}: shape, start and count differ in dimensions", variable.id());
  }
  std::uint64_t count = 1;
  for (int d = 0; d < dims; ++d) {
    const std::uint64_t extent = variable.shape(d);
    if (variable.box_start(d) > extent || variable.box_count(d) > extent - variable.box_start(d)) {
      return InvalidArgument("variable {}: the box [{}, +{}) leaves the shape {} in dimension {}", variable.id(),
                             variable.box_start(d), variable.box_count(d), extent, d);
    }
    if (__builtin_mul_overflow(count, variable.box_count(d), &count)) {
      return InvalidArgument("variable {}: the box has more than 2^64 elements", variable.id());
    }
  }
  if (count != variable.count()) {
    return InvalidArgument("variable {}: count {} but the box has {} elements", variable.id(), variable.count(), count);
  }
  return absl::OkStatus();
}

absl::Status ValidateOne(const local::Variable& variable) {
  if (variable.id() < 0) return InvalidArgument("variable id {} is negative", variable.id());
  const std::uint32_t element = ElementBytes(variable.type());
  if (element == 0) return InvalidArgument("variable {}: unknown type {}", variable.id(), variable.type());
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(variable.count(), std::uint64_t{element}, &bytes) || bytes != variable.bytes()) {
    return InvalidArgument("variable {}: {} elements of {} bytes are not {} bytes", variable.id(), variable.count(),
                           element, variable.bytes());
  }
  if (variable.name().size() > CAIRN_NAME_BYTES_MAX || variable.name().find('\0') != std::string::npos) {
    return InvalidArgument("variable {}: a name has at most {} bytes and no zero", variable.id(), CAIRN_NAME_BYTES_MAX);
  }
  const bool boxed = variable.shape_size() + variable.box_start_size() + variable.box_count_size() > 0;
  if (boxed && variable.kind() != local::ARRAY)
    return InvalidArgument("variable {} is no array but has a box", variable.id());
  switch (variable.kind()) {
    case local::PLAIN:
      return absl::OkStatus();
    case local::VALUE:
      if (variable.name().empty()) return InvalidArgument("value {} has no name", variable.id());
      return absl::OkStatus();
    case local::ARRAY:
      if (variable.name().empty()) return InvalidArgument("array {} has no name", variable.id());
      return ValidateBox(variable);
    default:
      return InvalidArgument("variable {}: unknown kind {}", variable.id(), static_cast<int>(variable.kind()));
  }
}

std::string_view KindName(local::Kind kind) {
  return kind == local::VALUE ? "value" : kind == local::ARRAY ? "array" : "plain";
}

// What differs between two ranks' words on one variable; empty: nothing that matters.
std::string Difference(const local::Variable& a, const local::Variable& b) {
  if (a.kind() != b.kind()) return fmt::format("kind {} and {}", KindName(a.kind()), KindName(b.kind()));
  if (a.kind() == local::PLAIN) return "";
  if (a.name() != b.name()) return fmt::format("name \"{}\" and \"{}\"", a.name(), b.name());
  if (a.type() != b.type()) return fmt::format("type {} and {}", a.type(), b.type());
  if (a.kind() == local::VALUE && a.count() != b.count()) return fmt::format("count {} and {}", a.count(), b.count());
  if (a.shape_size() != b.shape_size()) return fmt::format("{} and {} dimensions", a.shape_size(), b.shape_size());
  for (int d = 0; d < a.shape_size(); ++d) {
    if (a.shape(d) != b.shape(d)) return fmt::format("shape {} and {} in dimension {}", a.shape(d), b.shape(d), d);
  }
  return "";
}

}  // namespace

std::uint32_t ElementBytes(std::uint32_t type) {
  // Codes 1 … 15 in order; 14 (string) has no fixed size.
  static constexpr std::uint32_t kBytes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8, 16, 8, 16, 0, 1};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

absl::Status ValidateVariables(const VariableList& variables) {
  if (static_cast<std::uint64_t>(variables.size()) > CAIRN_VARIABLES_MAX) {
    return InvalidArgument("{} variables, at most {} are possible", variables.size(), CAIRN_VARIABLES_MAX);
  }
  std::unordered_set<std::int32_t> ids;
  std::uint64_t total = 0;
  for (const local::Variable& variable : variables) {
    CAIRN_RETURN_IF_ERROR(ValidateOne(variable));
    if (!ids.insert(variable.id()).second) return InvalidArgument("variable {} comes twice", variable.id());
    // Half of the offsets' range leaves room for padding and metadata.
    if (__builtin_add_overflow(total, variable.bytes(), &total) || total > (std::uint64_t{1} << 62)) {
      return InvalidArgument("the variables' sizes add up to more than 2^62 bytes");
    }
  }
  return absl::OkStatus();
}

absl::Status Agreement::Join(Rank rank, const VariableList& variables) {
  for (const local::Variable& variable : variables) {
    auto [at, is_first] = first_.try_emplace(variable.id(), First{rank, variable});
    if (is_first) continue;
    if (const std::string what = Difference(at->second.variable, variable); !what.empty()) {
      return FailedPrecondition("variable {} differs between rank {} and rank {}: {}", variable.id(), at->second.rank,
                                rank, what);
    }
  }
  return absl::OkStatus();
}

}  // namespace cairn
