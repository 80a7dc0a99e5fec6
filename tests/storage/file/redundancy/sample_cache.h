// A cache as SCR would leave it, of a test's own making: one dataset, one rank a node, all ranks in one set.
#ifndef CAIRN_TESTS_STORAGE_FILE_REDUNDANCY_SAMPLE_CACHE_H_
#define CAIRN_TESTS_STORAGE_FILE_REDUNDANCY_SAMPLE_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/scr/redset_records.h"
#include "storage/io/disk.h"

namespace cairn::testing {

struct SampleCache {
  scr::Scheme scheme = scr::Scheme::kXor;
  std::uint32_t checksums = 0;  // kRs
  DatasetId id = 1;
  std::vector<std::vector<std::uint64_t>> files;  // by rank: sizes
  bool crcs = false;                              // in META, as some writers have it
};

// <root>/node<r>/me/scr.7/cindex.scrinfo and scr.dataset.<id>/ with records of both kinds. SCR's prefix was /old, each
// file's name <rank>/<index> below it.
void PutSampleCache(Disk& disk, const std::string& root, const SampleCache& sample);

// What the application wrote.
std::string SampleBytes(Rank rank, std::size_t file, std::uint64_t bytes);

}  // namespace cairn::testing

#endif  // CAIRN_TESTS_STORAGE_FILE_REDUNDANCY_SAMPLE_CACHE_H_
