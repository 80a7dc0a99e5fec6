// Blocks of dataset ids: <prefix>/.cairn/ids.<n>, made once, with the first id and how many there are. Whoever has made
// one gives its ids out, each once. The run's arbiter decides who has made which. Calls block as the arbiter's.
// Stateless, hence thread-safe.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_ID_BLOCKS_H_
#define CAIRN_STORAGE_PLACE_PREFIX_ID_BLOCKS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "storage/base/ids.h"
#include "storage/io/disk.h"
#include "storage/place/arbiter/arbiter.h"

namespace cairn {

// [first, first + count)
struct IdBlock {
  DatasetId first = 0;
  std::uint64_t count = 0;
  std::uint64_t number = 0;  // n of ids.<n>
};

}  // namespace cairn

namespace cairn::id_blocks {

inline constexpr std::uint64_t kBlock = 16'384;

// The next block, durably: above `above`, the blocks there are (but for what of the last one was returned), and the
// folders of datasets. Fewer than `count` at the end of all ids.
//   kResourceExhausted  SCR and FTI keep ids in an int, so they end at 2^31 - 1
absl::StatusOr<IdBlock> Reserve(Arbiter& arbiter, Disk& disk, const std::string& prefix, DatasetId above,
                                std::uint64_t count = kBlock);

// The last id of all blocks, but for what was returned of the newest; none: there is no block. Only looks.
absl::StatusOr<std::optional<DatasetId>> Highest(Disk& disk, const std::string& prefix);

// What is left of a block will not be given out: the next block may begin there. `block`: what is left.
absl::Status Return(Disk& disk, const std::string& prefix, const IdBlock& block);

}  // namespace cairn::id_blocks

#endif  // CAIRN_STORAGE_PLACE_PREFIX_ID_BLOCKS_H_
