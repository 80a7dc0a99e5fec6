// Lays out one encoded record: BP5 specification, sections 6 and 13. Its targets are added in depth-first order.
#ifndef CAIRN_STORAGE_FORMAT_BP5_RECORD_H_
#define CAIRN_STORAGE_FORMAT_BP5_RECORD_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "storage/base/check.h"
#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

class RecordWriter {
 public:
  // `variable_bytes`: at least what is added, each array with 7 bytes of padding before it.
  RecordWriter(const FormatId& id, std::uint64_t fixed_bytes, std::uint64_t variable_bytes)
      : bytes_((kHeaderBytes + fixed_bytes + variable_bytes + 15) & ~std::uint64_t{7}, '\0'), end_(fixed_bytes) {
    std::memcpy(bytes_.data(), id.bytes.data(), id.bytes.size());
  }

  // Places `at` count from the base, and may lie in what was added before.
  void SetNumber(std::uint64_t at, std::uint64_t number) {
    std::memcpy(bytes_.data() + kHeaderBytes + at, &number, sizeof(number));
  }
  void SetBytes(std::uint64_t at, std::string_view bytes) {
    std::memcpy(bytes_.data() + kHeaderBytes + at, bytes.data(), bytes.size());
  }

  // Where the array begins that is added next: a multiple of 8.
  std::uint64_t BeginArray() { return end_ = (end_ + 7) & ~std::uint64_t{7}; }
  void AddNumber(std::uint64_t number) { SetNumber(std::exchange(end_, end_ + 8), number); }
  void AddBytes(std::string_view bytes) { SetBytes(std::exchange(end_, end_ + bytes.size()), bytes); }
  std::uint64_t AddZeros(std::uint64_t bytes) { return std::exchange(end_, end_ + bytes); }
  // With the NUL behind it. Answers its place.
  std::uint64_t AddString(std::string_view text) {
    const std::uint64_t begin = AddZeros(text.size() + 1);
    SetBytes(begin, text);
    return begin;
  }

  // The slot: the record, padded to 8.
  std::string Finish() && {
    const std::uint64_t slot = (kHeaderBytes + end_ + 7) & ~std::uint64_t{7};
    CAIRN_CHECK(slot <= bytes_.size());
    std::memcpy(bytes_.data() + 12, &end_, sizeof(end_));
    bytes_.resize(slot);
    return std::move(bytes_);
  }

 private:
  static constexpr std::uint64_t kHeaderBytes = 24;

  std::string bytes_;
  std::uint64_t end_;  // of what was added, from the base
};

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_RECORD_H_
