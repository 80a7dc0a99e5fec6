// Reads elements of arrays: selections of global and joined arrays over all blocks of a step, blocks of local arrays.
// Source: BP5 specification, sections 9 and 12. Only bytes of blocks that the selection touches are read, of each from
// the first to behind the last wanted element, without large gaps between its rows. Scratch memory is a few MiB,
// however large blocks and selections are; rows that are contiguous in the target are read into it.
#ifndef CAIRN_STORAGE_FORMAT_BP5_SELECTION_H_
#define CAIRN_STORAGE_FORMAT_BP5_SELECTION_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "storage/base/box.h"
#include "storage/format/bp5/byte_source.h"
#include "storage/format/bp5/metadata.h"

namespace cairn::bp5 {

// Elements of `box` (of a G or J variable's shape in the step) into `target`, packed. Where blocks overlap the later
// one wins; what no block covers is left as it is in `target`. Answers false if there was such an element.
//   kInvalidArgument     the box leaves the shape, or `target` has not its size
//   kNotFound            the variable was not written in the step, or a subfile is missing
//   kFailedPrecondition  a block is compressed by something that is not undone here, or its data was not stored
//   kDataLoss            damaged metadata, or a subfile is too short
//   kResourceExhausted   blocks lie over each other many times, in a way that only damage or malice explains; a
//                        compressed block is too large for memory
// However often blocks lie over each other, of each only what the selection has is read, all in all at most eight times
// its elements (and the gaps between close rows).
absl::StatusOr<bool> ReadSelection(const Metadata& metadata, VariableNumber variable, std::uint32_t step,
                                   const Box& box, ByteSource& source, std::span<std::byte> target);

// Block `id` (as Block::id) of any array, whole or `within` (relative to the block). Errors as above; kNotFound: no
// such block.
absl::Status ReadBlock(const Metadata& metadata, VariableNumber variable, std::uint32_t step, std::uint64_t id,
                       const std::optional<Box>& within, ByteSource& source, std::span<std::byte> target);
// The same for one that a walk over this variable and step has shown. By number a block is looked for writer by writer,
// so those who read many walk once, and use this.
absl::Status ReadBlock(const Metadata& metadata, VariableNumber variable, std::uint32_t step, const Block& block,
                       const std::optional<Box>& within, ByteSource& source, std::span<std::byte> target);

// The selection's bytes where they are: a single block covers it, not compressed, they are contiguous there and in
// memory. nullopt: no, use ReadSelection. Errors as above.
absl::StatusOr<std::optional<std::span<const std::byte>>> SelectionInPlace(const Metadata& metadata,
                                                                           VariableNumber variable, std::uint32_t step,
                                                                           const Box& box, ByteSource& source);
// The same for a block.
absl::StatusOr<std::optional<std::span<const std::byte>>> BlockInPlace(const Metadata& metadata,
                                                                       VariableNumber variable, std::uint32_t step,
                                                                       std::uint64_t id,
                                                                       const std::optional<Box>& within,
                                                                       ByteSource& source);
absl::StatusOr<std::optional<std::span<const std::byte>>> BlockInPlace(const Metadata& metadata,
                                                                       VariableNumber variable, std::uint32_t step,
                                                                       const Block& block,
                                                                       const std::optional<Box>& within,
                                                                       ByteSource& source);

}  // namespace cairn::bp5

#endif  // CAIRN_STORAGE_FORMAT_BP5_SELECTION_H_
