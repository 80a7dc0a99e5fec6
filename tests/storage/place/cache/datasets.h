// Small datasets for the tests of cache, prefix and transfer: contents that depend on dataset and rank, their
// catalogues and descriptors.
#ifndef CAIRN_TESTS_STORAGE_PLACE_CACHE_DATASETS_H_
#define CAIRN_TESTS_STORAGE_PLACE_CACHE_DATASETS_H_

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "proto/catalogue.pb.h"
#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/io/disk.h"

namespace cairn {

RunId TestRun(std::uint8_t number = 1);

// Bytes that no other seed has in the same places.
std::string TestContent(std::uint64_t seed, std::size_t bytes);

// With all checksums of `content`.
catalogue::FileEntry TestEntry(const std::string& name, const std::string& prefix_name, const std::string& content);

// Of rank `rank` with one checkpoint file.
catalogue::Catalogue TestCatalogue(const RunId& run, DatasetId id, Rank rank, std::uint32_t nranks,
                                   const std::string& content);
// Of a rank without variables.
catalogue::Catalogue EmptyCatalogue(const RunId& run, DatasetId id, Rank rank, std::uint32_t nranks);

// Launch 1, step 10 * id.
scr::Descriptor TestDescriptor(DatasetId id, std::uint32_t nranks);

// A new or replaced file, synced; its name is not.
absl::Status WriteTestFile(Disk& disk, const std::string& path, const std::string& content);

}  // namespace cairn

#endif  // CAIRN_TESTS_STORAGE_PLACE_CACHE_DATASETS_H_
