#include "storage/format/bp5/operator.h"

#include <algorithm>
#include <array>
#include <new>

#include "storage/format/bp5/operator_codecs.h"

namespace cairn::bp5 {
namespace {

// Numbers of ADIOS2's core/Operator.h.
constexpr std::uint8_t kBlosc = 0, kBzip2 = 1, kZfp = 7, kNoOperator = 127;
struct Named {
  std::uint8_t number;
  const char* name;
};
constexpr std::array<Named, 19> kNames = {{
    {kBlosc, "blosc"},     {kBzip2, "bzip2"},  {2, "libpressio"}, {3, "mgard"},          {4, "png"},
    {5, "sirius"},         {6, "sz"},          {kZfp, "zfp"},     {8, "mgardplus"},      {9, "bigwhoop"},
    {10, "mgard_complex"}, {11, "sz3"},        {41, "mdr"},       {42, "prodm"},         {45, "caesar"},
    {51, "a callback"},    {52, "a callback"}, {53, "a plugin"},  {kNoOperator, "none"},
}};

constexpr std::uint8_t kOperatorVersion = 1;
constexpr std::uint64_t kRawBegin = kOperatorCommonBytes + 8;  // of "none": behind the number of bytes
// Blosc's own head: number of bytes, three numbers of its version, 0 (else an older layout), chunks.
constexpr std::uint64_t kBloscHeadBytes = kOperatorCommonBytes + 8 + 3 + 8;
static_assert(kBloscHeadBytes <= kOperatorHeadBytes);

// At once: a block is in memory as a whole while its elements are got back.
constexpr std::uint64_t kBytesMax = std::uint64_t{16} << 30;
// What does not get smaller is stored with some bytes more, or in whole words.
constexpr std::uint64_t kStoredTimesMax = 4, kStoredMoreMax = std::uint64_t{1} << 20;

absl::StatusOr<OperatorHead> ReadNone(OperatorBytes head, std::uint64_t stored_bytes, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const auto behind, head.Take<std::uint64_t>("the number of bytes"));
  if (behind != bytes || stored_bytes - kRawBegin < bytes) {
    return DataLoss("{} bytes stand behind its operator, {} of {} stored ones are its elements", behind, bytes,
                    stored_bytes);
  }
  return OperatorHead{.number = kNoOperator, .raw = kRawBegin};
}

// Elements that did not get smaller stand at the end, as they are.
absl::StatusOr<std::optional<std::uint64_t>> RawBehindBlosc(OperatorBytes head, std::uint64_t stored_bytes,
                                                            std::uint64_t bytes) {
  if (head.all().size() < kBloscHeadBytes) return std::nullopt;  // an older layout, if at all
  CAIRN_RETURN_IF_ERROR(head.Take(8 + 3, "its head").status());
  CAIRN_ASSIGN_OR_RETURN(const auto format, head.Take<std::uint32_t>("its head"));
  CAIRN_ASSIGN_OR_RETURN(const auto chunks, head.Take<std::uint32_t>("its head"));
  if (format != 0 || chunks != 0) return std::nullopt;
  if (stored_bytes < bytes || stored_bytes - bytes < kBloscHeadBytes) {
    return DataLoss("{} bytes that did not get smaller are not in {} stored ones", bytes, stored_bytes);
  }
  return stored_bytes - bytes;
}

absl::Status CheckSizes(std::uint64_t stored_bytes, std::uint64_t bytes) {
  if (bytes > kBytesMax) {
    return ResourceExhausted("{} bytes are more than the {} that are got back at once", bytes, kBytesMax);
  }
  if (stored_bytes > kStoredTimesMax * bytes + kStoredMoreMax) {
    return DataLoss("{} stored bytes are too many for {}", stored_bytes, bytes);
  }
  return absl::OkStatus();
}

absl::StatusOr<OperatorHead> ReadHead(std::uint8_t number, OperatorBytes head, std::uint64_t stored_bytes,
                                      std::uint64_t bytes) {
  OperatorHead found{.number = number, .raw = std::nullopt};
  if (number == kNoOperator) return ReadNone(head, stored_bytes, bytes);
  if (number == kBlosc || number == kBzip2) {
    OperatorBytes numbers = head;
    CAIRN_ASSIGN_OR_RETURN(const auto says, numbers.Take<std::uint64_t>("the number of bytes"));
    if (says != bytes) return DataLoss("it says that it has {} bytes, its elements are {}", says, bytes);
  }
  if (number == kBlosc) {
    CAIRN_ASSIGN_OR_RETURN(found.raw, RawBehindBlosc(head, stored_bytes, bytes));
    if (found.raw) return found;
  }
  CAIRN_RETURN_IF_ERROR(CheckSizes(stored_bytes, bytes));
  return found;
}

std::string TextOf(std::uint8_t number) {
  return fmt::format("compressed by {}", OperatorName(number));
}

absl::StatusOr<OperatorBytes> TakeCommon(std::span<const std::byte> stored) {
  OperatorBytes bytes(stored);
  CAIRN_ASSIGN_OR_RETURN(const auto common, bytes.Take(kOperatorCommonBytes, "an operator's head"));
  const auto number = std::to_integer<std::uint8_t>(common[0]), version = std::to_integer<std::uint8_t>(common[1]);
  if (number != kBlosc && number != kBzip2 && number != kZfp && number != kNoOperator) {
    return FailedPrecondition("{}, which is not undone here", TextOf(number));
  }
  if (version != kOperatorVersion && number != kNoOperator) {
    return FailedPrecondition("{} in layout {}, which is not undone here", TextOf(number), version);
  }
  return bytes;
}

}  // namespace

std::string OperatorName(std::uint8_t number) {
  const auto found = std::ranges::find(kNames, number, &Named::number);
  return found == kNames.end() ? fmt::format("operator {}", number) : found->name;
}

absl::StatusOr<OperatorHead> ReadOperatorHead(std::span<const std::byte> head, std::uint64_t stored_bytes,
                                              std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const OperatorBytes rest, TakeCommon(head));
  const auto number = std::to_integer<std::uint8_t>(head[0]);
  auto found = ReadHead(number, rest, stored_bytes, bytes);
  if (found.ok() || number == kNoOperator) return found;
  return Annotate(found.status(), TextOf(number));
}

absl::StatusOr<Memory> MakeMemory(std::uint64_t bytes) {
  Memory memory(new (std::nothrow) std::byte[bytes]);
  if (memory == nullptr) return ResourceExhausted("no memory for {} bytes", bytes);
  return memory;
}

absl::StatusOr<Memory> UndoOperator(std::span<const std::byte> stored, Type type, std::uint64_t bytes) {
  CAIRN_ASSIGN_OR_RETURN(const OperatorBytes rest, TakeCommon(stored));
  const auto number = std::to_integer<std::uint8_t>(stored[0]);
  absl::StatusOr<Memory> elements = absl::InternalError("nothing to undo");
  if (number == kBzip2) elements = UndoBzip2(rest, bytes);
  if (number == kBlosc) elements = UndoBlosc(rest, bytes);
  if (number == kZfp) elements = UndoZfp(rest, type, bytes);
  if (elements.ok()) return elements;
  return Annotate(elements.status(), TextOf(number));
}

}  // namespace cairn::bp5
