// Redundancy files of datasets that have left a cache, kept so that those of later ones can be written over them: to
// write over pages or blocks that are there takes half of the time that it takes to find new ones. They lie in the
// run's folder under work names, which nobody reads, and which the next start removes. Calls block on disk. Stateless.
#ifndef CAIRN_STORAGE_PLACE_CACHE_SPARE_FILES_H_
#define CAIRN_STORAGE_PLACE_CACHE_SPARE_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/io/disk.h"

namespace cairn {

struct SpareFile {
  std::string path;
  std::uint64_t bytes = 0;
};

inline constexpr std::uint64_t kSpareBytesMin = 1024;  // smaller files are not worth it

// Moves them out of `records`, a dataset's .scr in which nobody believes any more (CacheFolder::Retire), into
// `run_folder` on the same disk: redundancy files of data, of at most `bytes_max` together, in the order of their
// names. Not those that have another name besides: they are still somebody's. What cannot be moved stays, and goes with
// its folder.
std::vector<SpareFile> TakeSpareFiles(Disk& disk, const std::string& run_folder, const std::string& records,
                                      std::uint64_t bytes_max);

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_CACHE_SPARE_FILES_H_
