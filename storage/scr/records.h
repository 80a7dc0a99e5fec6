// SCR's records as structures: dataset descriptor, filemap and META, cache index, flush file, prefix index, summary,
// rank2file. Source: SCR specification, sections 3 to 9. Pure: trees in, structures out. Unknown keys are kept: each
// Put… changes only its own keys of the tree that it is given.
#ifndef CAIRN_STORAGE_SCR_RECORDS_H_
#define CAIRN_STORAGE_SCR_RECORDS_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/kvtree/tree.h"

namespace cairn::scr {

// Section 5. Cairn adds its own keys: CAIRN_LAUNCH, CAIRN_STEP, CAIRN_RANKS, CAIRN_FILES (1: the application's files).
struct Descriptor {
  DatasetId id = 0;
  std::string name;                 // "ckpt.<id>"
  bool checkpoint = true;
  bool output = false;
  std::int64_t created_us = 0;
  std::string user, job_id, job_name, cluster;  // empty: absent
  std::uint64_t files = 0;          // over all ranks; known when complete
  std::uint64_t bytes = 0;
  std::optional<bool> complete;     // absent while being written
  // Cairn's own; nothing in a descriptor that SCR wrote.
  std::optional<LaunchId> launch;
  std::optional<std::uint64_t> step;
  std::optional<std::uint32_t> ranks;
  bool own_files = false;
};
void PutDescriptor(const Descriptor& descriptor, kvtree::Tree& tree);
absl::StatusOr<Descriptor> GetDescriptor(const kvtree::Tree& tree);

// Section 4: META of one file.
struct Meta {
  std::string original;             // ORIG, as the application passed it
  std::string directory;            // PATH: in the prefix
  std::string name;                 // NAME
  std::uint32_t ranks = 0;
  bool complete = false;
  std::uint64_t bytes = 0;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0, gid = 0;
  timespec atime{}, mtime{}, ctime{};
  std::optional<std::uint32_t> crc32;
  std::optional<DatasetId> dataset; // CKPT
};

// Section 3. Absolute path in the cache -> META.
struct Filemap {
  std::map<std::string, Meta> files;
};
kvtree::Tree ToTree(const Filemap& filemap);
absl::StatusOr<Filemap> GetFilemap(const kvtree::Tree& tree);

// Section 6.
struct CacheEntry {
  Descriptor descriptor;
  std::string path;                 // the dataset's directory on this node
  bool bypass = false;
};
void PutCacheEntry(const CacheEntry& entry, kvtree::Tree& cindex);
absl::StatusOr<std::map<DatasetId, CacheEntry>> GetCacheEntries(const kvtree::Tree& cindex);
void EraseCacheEntry(DatasetId id, kvtree::Tree& cindex);

// Section 7.1, one dataset's entry.
struct FlushEntry {
  std::string name;
  bool in_cache = false, in_prefix = false, flushing = false, sync_flushing = false;
  bool checkpoint = false, output = false;
  std::optional<Descriptor> descriptor;
};
void PutFlushEntry(DatasetId id, const FlushEntry& entry, kvtree::Tree& flush);
absl::StatusOr<std::map<DatasetId, FlushEntry>> GetFlushEntries(const kvtree::Tree& flush);
void EraseFlushEntry(DatasetId id, kvtree::Tree& flush);

// Section 8: the prefix index.
struct IndexEntry {
  Descriptor descriptor;
  bool complete = false;
  std::string flushed;              // local time YYYY-MM-DDTHH:MM:SS; empty: absent
  std::vector<std::string> fetched;
  std::string failed;               // empty: absent
};
struct Index {
  std::string current;              // empty: absent
  std::map<DatasetId, IndexEntry> datasets;
};
absl::StatusOr<Index> GetIndex(const kvtree::Tree& tree);  // kFailedPrecondition: VERSION is not 2
void PutIndexEntry(const IndexEntry& entry, kvtree::Tree& index);  // VERSION, NAME map and DSET; CURRENT untouched
void EraseIndexEntry(DatasetId id, kvtree::Tree& index);  // and its name; CURRENT moves as in section 8
void SetCurrent(std::string_view name, kvtree::Tree& index);
std::string LocalTime(std::int64_t us_since_epoch);

// Section 9.
kvtree::Tree MakeSummary(const Descriptor& descriptor);
absl::StatusOr<Descriptor> GetSummary(const kvtree::Tree& tree);
// rank2file as its files: suffix after "rank2file" -> tree ("" is the root). files[r]: paths below the prefix.
std::map<std::string, kvtree::Tree> MakeRank2File(const std::vector<std::vector<std::string>>& files);

}  // namespace cairn::scr

#endif  // CAIRN_STORAGE_SCR_RECORDS_H_
