// The layout engine: which container of a checkpoint file holds which bytes of which variable.
// Source of the rules: FTI-FF specification, section 5 (containers), 3.1 and 3.2 (where a layout puts them).
// Pure: no I/O. Thread-safe: values only.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_LAYOUT_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_LAYOUT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "storage/format/ftiff/letter.h"

namespace cairn::ftiff {

struct VariableSize {
  std::int32_t id = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(const VariableSize&, const VariableSize&) = default;
};

// A slot of the file and the chunk in it.
struct Container {
  std::int32_t id = 0;     // of the variable
  std::int32_t index = 0;  // 0 for the first container of the variable, 1 for the second, …
  bool has_content = true;
  bool in_file_before = false;        // "hasCkpt"
  std::uint64_t variable_offset = 0;  // dptr
  std::uint64_t file_offset = 0;      // fptr
  std::uint64_t chunk_bytes = 0;      // in use
  std::uint64_t container_bytes = 0;  // reserved
  friend bool operator==(const Container&, const Container&) = default;
};

// The containers of one file in file order, and how many of them each block has.
struct FileLayout {
  std::vector<Container> containers;
  std::vector<std::uint32_t> block_containers;  // sums to containers.size()
  std::uint64_t data_bytes = 0;                 // all containers: where the metadata of C to F begins

  std::uint64_t meta_bytes(Letter letter) const;  // file record, block and chunk records
  std::uint64_t file_bytes(Letter letter) const { return data_bytes + meta_bytes(letter); }
};

// The same containers with the file offsets that a file of layout `letter` gives them: in A and B each block's records
// lie in front of its containers, in C to F the containers begin at 0 and have no gap. What is planned has F's offsets.
FileLayout Placed(FileLayout layout, Letter letter);

enum class Packing {
  kExact,    // FTI's own: one container a variable, no padding
  kAligned,  // containers are padded to 4 KiB; a variable is split into containers of total/32, clamped to 1…64 MiB
             // and a multiple of 1 MiB, so that windows are aligned and MD5 runs in lanes
};

inline constexpr std::uint64_t kContainersMax = 1 << 20;  // of a planned file: 64 TiB in the largest containers

// A fresh container list for `variables` in processing order (each id once; zero sizes are legal), all in one block.
// No variables: an empty list; such a rank has no file.
//   kInvalidArgument   an id twice or negative, sizes that overflow or that need more than kContainersMax containers
absl::StatusOr<FileLayout> PlanFresh(std::span<const VariableSize> variables, Packing packing);

// The list of the next checkpoint, from that of the last one (of the same run, or of the file that was restored), by
// the rules of section 5: containers keep place and size; a variable that shrinks leaves later ones without content;
// what is new goes into one new block at the end, in the order of `variables` (processing order).
//   kExact    a variable that has outgrown its containers gets one more
//   kAligned  a variable that has outgrown its containers: PlanFresh; a new one is split and padded as there. So each
//             variable is one contiguous run of containers
// With either, PlanFresh: if a variable of `last` is no longer given; if the list would get more than kContainersMax
// containers; if `last` is not as this packing makes it (kAligned: padding, sizes, one run a variable; it may come from
// a file of FTI) or not sound. in_file_before: the container is in `last`, and `last_is_restored` says so of a file
// that was restored, or it was set there. `last` has F's offsets. Time is linear in containers and variables. Errors as
// PlanFresh.
absl::StatusOr<FileLayout> PlanNext(const FileLayout& last, bool last_is_restored,
                                    std::span<const VariableSize> variables, Packing packing);

// Layout A is read by FTI 1.1, which finds a variable by idx, its place among those that were registered, and checks
// its size against that of the variable that appears at this place in the file. Is that of the same size for all?
// `registered`: the variables of the layout, as they are registered.
bool AppearAsRegistered(const FileLayout& layout, std::span<const VariableSize> registered);

// `variables` in processing order: those of `last` in the order of their first appearance there, then the rest as
// given. An id given twice stays twice.
std::vector<VariableSize> ProcessingOrder(const FileLayout& last, std::span<const VariableSize> variables);

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_LAYOUT_H_
