// What there is of FTI's below some folders. Used by storage/file/fti/ only. Calls block on disk.
#ifndef CAIRN_STORAGE_FILE_FTI_SCAN_H_
#define CAIRN_STORAGE_FILE_FTI_SCAN_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/file/fti/names.h"
#include "storage/io/disk.h"

namespace cairn::fti {

// What was passed over and why, for people: bounded, however much of it there is.
class Warnings {
 public:
  void Add(std::string text) {
    if (texts_.size() < kMax) {
      texts_.push_back(std::move(text));
    } else {
      ++more_;
    }
  }
  std::vector<std::string> Take();

 private:
  static constexpr std::size_t kMax = 64;
  std::vector<std::string> texts_;
  std::uint64_t more_ = 0;
};

struct FoundFile {
  std::string execution;  // the folder above that of the level
  LevelFolder folder = LevelFolder::kLocal;
  std::optional<std::uint32_t> node;  // of the folder node<k> above the execution
  FileName name;
  std::string path;
};

struct Found {
  std::vector<FoundFile> files;                                  // in the order of their paths, root by root
  std::vector<std::pair<std::string, std::string>> topologies;   // execution, path of its Topology.fti
  std::vector<std::pair<std::string, std::string>> other_modes;  // execution, path of another I/O mode's file
};

inline constexpr int kScanDepth = 6;                       // folders below a root
inline constexpr std::uint64_t kScanEntriesMax = 1 << 22;  // names, in all folders together

// Looks through `roots` without following symbolic links below them, each folder once. A root may itself be the
// execution's folder or that of a level. Unfinished checkpoints (tmp), stashes and staged files are passed over, and
// so are folders that cannot be read, with a warning.
//   kInvalidArgument    a root that is no absolute path or no folder
//   kNotFound           a root that is not there
//   kResourceExhausted  more than kScanEntriesMax names
absl::StatusOr<Found> Scan(Disk& disk, const std::vector<std::string>& roots, Warnings& warnings);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_SCAN_H_
