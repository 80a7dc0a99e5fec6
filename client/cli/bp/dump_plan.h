// What `cairn dump` reads of a variable: which steps, and of each which boxes of elements, slab by slab.
#ifndef CAIRN_CLIENT_CLI_BP_DUMP_PLAN_H_
#define CAIRN_CLIENT_CLI_BP_DUMP_PLAN_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "storage/base/box.h"
#include "storage/format/bp5/metadata.h"
#include "storage/format/bp5/selection.h"

namespace cairn::cli {

struct DumpSelection {
  std::string step;                 // "" (see StepsOf), "all", "3", "-1" (the variable's last but 0)
  bool relative = false;            // `step` counts the variable's own steps
  std::vector<std::int64_t> start;  // negative: from the end; empty: the beginning
  std::vector<std::int64_t> count;  // negative: to the end, less so many but one; empty: to the end
  std::optional<std::uint64_t> block;
};

// "0,10" and the like. kInvalidArgument, naming `option`.
absl::StatusOr<std::vector<std::int64_t>> ParseNumbers(std::string_view option, std::string_view text);

// Absolute steps. None given: of scalars all, of arrays the last.
//   kInvalidArgument  no number
//   kNotFound         there is no such step, or the variable was not written in it; the message says in which it was
absl::StatusOr<std::vector<std::uint32_t>> StepsOf(const bp5::Variable& variable, std::uint32_t steps,
                                                   const DumpSelection& selection);

// The box of elements in an array of extents `shape`. kInvalidArgument: it leaves it, or has other dimensions.
absl::StatusOr<Box> BoxOf(std::span<const std::uint64_t> shape, const DumpSelection& selection);

// One box of elements that lies in an array of a step: the whole array, or one block.
struct DumpPart {
  std::uint32_t step = 0;
  std::optional<std::uint64_t> block;  // `box` counts from the block's own begin
  std::uint32_t writer = 0;            // of the block
  Extents shape;                       // of the array, or the block
  Box box;
  std::optional<bp5::Block> walked;  // the block as the walk showed it, so that it is not looked for again
};
// The parts of an array variable in one step: of local arrays (or where a block was named) each block, else one.
// Errors of the metadata; kNotFound: no such block; kInvalidArgument as above.
absl::StatusOr<std::vector<DumpPart>> PartsOf(const bp5::Metadata& metadata, bp5::VariableNumber number,
                                              std::uint32_t step, const DumpSelection& selection);

// Reads a part in order of its elements, so many of them at a time that the memory for it stays bounded: at most
// `slab_elements` (0: as many as fit into 4 MiB), whole rows or a multiple of 120 elements of one. `visit` gets packed
// elements; zeros where no block has any. Answers false if there was such an element. An error of `visit` ends it.
//   kFailedPrecondition  an element alone is beyond what is read at once
// Errors of bp5::ReadSelection and ReadBlock pass through.
using VisitSlab = std::function<absl::Status(std::span<const std::byte> elements)>;
absl::StatusOr<bool> ReadPart(const bp5::Metadata& metadata, bp5::VariableNumber number, const DumpPart& part,
                              bp5::ByteSource& source, std::uint64_t slab_elements, const VisitSlab& visit);

}  // namespace cairn::cli

#endif  // CAIRN_CLIENT_CLI_BP_DUMP_PLAN_H_
