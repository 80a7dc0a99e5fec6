// What operator.cc hands a block to, and how they read it.
#ifndef CAIRN_STORAGE_FORMAT_BP5_OPERATOR_CODECS_H_
#define CAIRN_STORAGE_FORMAT_BP5_OPERATOR_CODECS_H_

#include <absl/status/statusor.h>

#include <cstring>
#include <string_view>

#include "storage/base/status.h"
#include "storage/format/bp5/operator.h"

namespace cairn::bp5 {

// Operator, version, two zeros.
inline constexpr std::uint64_t kOperatorCommonBytes = 4;

// Takes numbers and texts from a block, one after the other.
class OperatorBytes {
 public:
  explicit OperatorBytes(std::span<const std::byte> bytes) : all_(bytes) {}

  template <typename T>
  absl::StatusOr<T> Take(const char* what) {
    CAIRN_ASSIGN_OR_RETURN(const auto bytes, Take(sizeof(T), what));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  absl::StatusOr<std::span<const std::byte>> Take(std::uint64_t bytes, const char* what) {
    if (bytes > all_.size() - at_) {
      return DataLoss("byte {} of {} stored ones: {} leaves them", at_, all_.size(), what);
    }
    at_ += bytes;
    return all_.subspan(at_ - bytes, bytes);
  }
  std::uint64_t at() const { return at_; }
  std::span<const std::byte> rest() const { return all_.subspan(at_); }
  std::span<const std::byte> all() const { return all_; }

 private:
  const std::span<const std::byte> all_;
  std::uint64_t at_ = 0;
};

// `stored`: behind the operator's common bytes. Their errors do not name the operator.
absl::StatusOr<Memory> UndoBzip2(OperatorBytes stored, std::uint64_t bytes);
absl::StatusOr<Memory> UndoBlosc(OperatorBytes stored, std::uint64_t bytes);
absl::StatusOr<Memory> UndoZfp(OperatorBytes stored, Type type, std::uint64_t bytes);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_OPERATOR_CODECS_H_
