// The variables of a checkpoint file as wholes: their chunks put together. Ids, not positions, tell them apart.
// Source: FTI-FF specification, sections 5 and 9. Pure: reads through a ReadAt.
#ifndef CAIRN_STORAGE_FORMAT_FTIFF_VARIABLES_H_
#define CAIRN_STORAGE_FORMAT_FTIFF_VARIABLES_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "storage/format/ftiff/codec.h"

namespace cairn::ftiff {

class Variables {
 public:
  explicit Variables(const FileLayout& layout);  // copied; sound, as DecodeMetadata leaves it

  const std::vector<VariableSize>& sizes() const { return sizes_; }  // in the order of first appearance
  // The same, those of `ids` first, in their order.
  std::vector<VariableSize> SizesInOrder(std::span<const std::int32_t> ids) const;
  // Reads bytes [offset, offset + target.size()) of a variable out of its chunks.
  //   kNotFound         no such variable
  //   kInvalidArgument  the range leaves it
  // Errors of `read` pass through. `name` goes into errors. Thread-safe, if `read` is.
  absl::Status Read(std::string_view name, std::int32_t id, std::uint64_t offset, std::span<std::byte> target,
                    const ReadAt& read) const;

 private:
  struct Chunk {
    std::uint64_t variable_offset = 0;
    std::uint64_t file_offset = 0;
    std::uint64_t bytes = 0;
  };
  std::vector<VariableSize> sizes_;
  std::map<std::int32_t, std::vector<Chunk>> chunks_;  // with bytes, by offset in the variable
};

}  // namespace cairn::ftiff

#endif  // CAIRN_STORAGE_FORMAT_FTIFF_VARIABLES_H_
