// What there is in the folder that is drained, and the order in which it goes: found by names alone. Whether a file is
// complete, and what the sets' own records say of it, is asked elsewhere (sets.h, complete.h). Calls block.
#ifndef CAIRN_STORAGE_JOB_DRAIN_SCAN_H_
#define CAIRN_STORAGE_JOB_DRAIN_SCAN_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/io/tree.h"
#include "storage/job/drain/identity.h"
#include "storage/job/drain/report.h"

namespace cairn::drain {

// The folder of a drain's own below the root of its target: each user has one, ".cairn-drain-1000". What lies there is
// never drained itself.
std::string OwnFolder();
bool IsOwnFolder(std::string_view path);  // of any user
// A source file is called so while it is being deleted, for microseconds; this and its name.
inline constexpr std::string_view kAsidePrefix = ".cairn-drained.";

// The waves of a drain. Each is durable, under its final names, before the next begins.
enum class Wave : std::uint8_t { kData, kRecords, kBp5Index, kIndex, kMarker };
inline constexpr int kWaves = 5;
inline constexpr Wave kAfterAll = static_cast<Wave>(kWaves);

// Whose files belong together: a drain of an index waits until all files of its set are there.
struct Set {
  enum class Kind : std::uint8_t { kFti, kScrCache, kScrPrefix, kBp5 };
  Kind kind = Kind::kBp5;
  std::string name;    // of the execution, of the job
  std::string folder;  // the prefix, the BP5 directory; the cache's folder scr.<job>, the last one that was found
};
std::string NameOf(const Set& set);  // "FTI's execution X", for people

struct Item {
  enum class Kind : std::uint8_t { kFile, kSymlink };
  std::string path;
  FileInfo info;
  Kind kind = Kind::kFile;
  Wave wave = Wave::kData;
  std::int64_t leader = -1;  // another name of this file comes first: its place in the list
  std::vector<std::size_t> sets;
  // What the set's own records say (sets.h).
  bool finished = false;    // it is complete, whatever its age
  std::string unfinished;   // it is not: why
  std::uint64_t order = 0;  // of a set that is complete: greater goes earlier; 0: of none
};

struct Folder {
  std::string path;
  FileInfo info;
};

struct Scan {
  std::vector<Item> items;      // sorted by path
  std::vector<Folder> folders;  // parents before what is in them; without the root
  std::vector<Set> sets;
  std::vector<Told> left_out;      // what is neither file, folder nor link; other file systems
  std::vector<Told> failed;        // folders that cannot be listed
  std::vector<std::string> aside;  // files whose deletion was interrupted
};

// `marker`: as DrainOptions has it. `target`: the root of the drain's target, which is not entered if it is met, by
// whatever mount it got there. Errors: the root cannot be listed (kNotFound: it is gone).
absl::StatusOr<Scan> ScanTree(Tree& source, const std::string& marker, const std::optional<Place>& target);

std::string FolderOf(const std::string& path);  // "" of what lies at the root

// Does `name` match a marker, "DONE" or "*.done"?
bool IsMarker(std::string_view name, const std::string& marker);

}  // namespace cairn::drain

#endif  // CAIRN_STORAGE_JOB_DRAIN_SCAN_H_
