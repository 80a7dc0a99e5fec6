// Blocks that an operator of ADIOS2 has stored: their heads read, their elements got back. Pure; thread-safe.
// Source: BP5 specification, section 9; the layouts of bzip2, blosc and zfp are those of ADIOS2's operators, "V1"
// (source/adios2/operator/compress/ in its sources), which 2.8 to 2.12 write.
#ifndef CAIRN_STORAGE_FORMAT_BP5_OPERATOR_H_
#define CAIRN_STORAGE_FORMAT_BP5_OPERATOR_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "storage/format/bp5/types.h"

namespace cairn::bp5 {

// As many of a block's first bytes as ReadOperatorHead may want to see.
inline constexpr std::uint64_t kOperatorHeadBytes = 32;

// What a block's first bytes say.
struct OperatorHead {
  std::uint8_t number = 0;
  // The elements as they are begin here: the operator is none, or has left them alone. nullopt: UndoOperator.
  std::optional<std::uint64_t> raw;
};

// "bzip2"; "operator 99" if there is none of this number.
std::string OperatorName(std::uint8_t number);

// `head`: the first bytes of the `stored_bytes` of a block, kOperatorHeadBytes or all. `bytes`: those of its elements.
//   kFailedPrecondition  compressed by something that is not undone here: named
//   kDataLoss            it says another number of bytes, or cannot be so many
//   kResourceExhausted   more than is got back at once
absl::StatusOr<OperatorHead> ReadOperatorHead(std::span<const std::byte> head, std::uint64_t stored_bytes,
                                              std::uint64_t bytes);

// Memory that is not cleared when it is made.
using Memory = std::unique_ptr<std::byte[]>;

// The elements of a block that is in memory, `bytes` of them: exactly those, or an error. No memory is made before the
// block was found to have them by its own tables. REQUIRES: ReadOperatorHead knew no raw ones.
//   kDataLoss            damaged, or not all there
//   kFailedPrecondition  compressed in a way that is not undone here: named
//   kResourceExhausted   no memory
absl::StatusOr<Memory> UndoOperator(std::span<const std::byte> stored, Type type, std::uint64_t bytes);

// nullptr is never the answer: kResourceExhausted.
absl::StatusOr<Memory> MakeMemory(std::uint64_t bytes);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_OPERATOR_H_
