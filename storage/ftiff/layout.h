// The layout engine: which container of a checkpoint file holds which bytes of which variable.
// Source of the rules: FTI-FF specification, section 5 (containers) and 3.2 (layout F's order).
// Pure: no I/O. Thread-safe: values only.
#ifndef CAIRN_STORAGE_FTIFF_LAYOUT_H_
#define CAIRN_STORAGE_FTIFF_LAYOUT_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

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
  std::uint64_t data_bytes = 0;                 // all containers: where layout F's metadata begins

  std::uint64_t meta_bytes_f() const;  // 106 + 12 * blocks + 58 * containers
  std::uint64_t file_bytes_f() const { return data_bytes + meta_bytes_f(); }
};

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

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FTIFF_LAYOUT_H_
