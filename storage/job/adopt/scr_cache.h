// A cache that SCR has left: which datasets its nodes' stores hold, as far as they can be reached from here. Read for
// `cairn adopt --scr`. Source: SCR specification, sections 2, 3, 6 and 10.3 to 11. Calls block on disk. Bytes and names
// in the folders are hostile; nothing in them is changed. Values; no call changes another's.
#ifndef CAIRN_STORAGE_JOB_ADOPT_SCR_CACHE_H_
#define CAIRN_STORAGE_JOB_ADOPT_SCR_CACHE_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "storage/base/ids.h"
#include "storage/format/scr/records.h"
#include "storage/format/scr/redset_records.h"
#include "storage/io/disk.h"

namespace cairn {

// A redundancy file: its header, and where the payload is.
struct ScrHeader {
  std::string path;
  scr::RedundancyHeader header;
  std::uint64_t header_bytes = 0, payload_bytes = 0;
};

// A dataset's folder on one node. What could not be read is not in here.
struct ScrPart {
  std::string folder;                    // …/scr.dataset.<id>
  std::map<Rank, std::string> filemaps;  // paths; not yet looked at
  std::map<scr::RedsetKind, std::map<Rank, ScrHeader>> headers;
  std::map<scr::RedsetKind, scr::EncodeState> states;
};

struct ScrDataset {
  DatasetId id = 0;
  std::optional<scr::CacheEntry> entry;  // of the nodes' cache indexes; absent: none has it
  std::set<std::string> recorded;        // the folder's path as the indexes have it, of the time when SCR wrote it
  std::vector<std::string> folders;      // of its parts
};

struct ScrCache {
  std::string job;
  std::map<DatasetId, ScrDataset> datasets;
  std::vector<std::string> warnings;  // what was passed over, and why
};

// Looks for the cache of one job below `roots` (absolute): SCR's stores and control directories, of all nodes, up to 8
// folders deep, following no symbolic links below. What cannot be reached there is left out with a warning. `job`:
// which, if there are several (empty: the only one). Datasets of Cairn, which keeps its caches in the same manner, are
// left out with a warning.
//   kNotFound            a root is not there; no cache of SCR is below them, or none of that job
//   kFailedPrecondition  caches of several jobs: the message names them
//   kResourceExhausted   more than some million names below the roots
absl::StatusOr<ScrCache> FindScrCache(Disk& disk, const std::vector<std::string>& roots, const std::string& job);

// Reads the records below `folder`/.scr. What is damaged or closed is left out, with a warning. Errors are the disk's.
absl::StatusOr<ScrPart> ReadScrPart(Disk& disk, const std::string& folder, std::vector<std::string>* warnings);

// Where a file that SCR recorded as `path` is, if it is one of the dataset's own in `folder`: below one of the recorded
// folders, or else behind the folder's own name.
std::optional<std::string> PlaceInPart(const ScrDataset& dataset, const std::string& folder, const std::string& path);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_SCR_CACHE_H_
