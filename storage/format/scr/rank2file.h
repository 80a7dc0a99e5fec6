// Which files of the prefix belong to which rank, split over several trees. SCR specification, section 9.2.
#ifndef CAIRN_STORAGE_FORMAT_SCR_RANK2FILE_H_
#define CAIRN_STORAGE_FORMAT_SCR_RANK2FILE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/kvtree/tree.h"

namespace cairn::scr {

inline constexpr std::uint64_t kRank2FileBlockBytes = 1 << 20;

// rank2file as its files: suffix after "rank2file" -> tree ("" is the root). files[r]: paths below the prefix.
// A part ends where the next rank's list would lie across a border of blocks of `block_bytes`, at least 128.
std::map<std::string, kvtree::Tree> MakeRank2File(const std::vector<std::vector<std::string>>& files,
                                                  std::uint64_t block_bytes = kRank2FileBlockBytes);

struct Rank2File {
  std::uint32_t ranks = 0;                         // of the run
  std::map<Rank, std::vector<std::string>> files;  // paths below the prefix, in file order; no entry: no files
};

// Reads the root and every part that it leads to; `load` gives the tree of "rank2file" + suffix, and its errors are
// returned as they are. Parts may be split in any way.
//   kDataLoss  a suffix, rank, level or path that cannot be; the message names the part
absl::StatusOr<Rank2File> GetRank2File(
    const std::function<absl::StatusOr<kvtree::Tree>(const std::string& suffix)>& load);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_FORMAT_SCR_RANK2FILE_H_
