// Level 3: lost checkpoint files out of what is left of their group. Used by storage/file/fti/ only. Calls block on
// disk. Source: FTI-FF specification, section 7.3.
#ifndef CAIRN_STORAGE_FILE_FTI_CODED_GROUP_H_
#define CAIRN_STORAGE_FILE_FTI_CODED_GROUP_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "storage/io/disk.h"

namespace cairn::fti {

// What is left of a group: by group rank.
struct GroupRemains {
  std::uint32_t size = 0;                      // k
  std::int32_t id = 0;                         // of the checkpoint
  std::map<std::uint32_t, std::string> files;  // whole: their data has been verified
  std::map<std::uint32_t, std::string> codes;  // not yet looked at
};

struct RebuiltGroup {
  std::vector<std::string> warnings;            // code files that were damaged
  std::map<std::uint32_t, absl::Status> wrong;  // targets that came out wrong of all tries: the first one's reason
};

// Whether the file that was made for a target is the right one.
using CheckRebuilt = std::function<absl::Status(std::uint32_t member, const std::string& path)>;

// Makes the files of `targets` (group rank, path: replaced if there), with the length that the encoding tells, and
// has each checked. Bytes of a data file that no hash covers (unused ones) are code words, too: one that is damaged
// there makes wrong files. So those that `check` refuses are made again, with code files in place of data files, then
// without one data file after the other: k times at most.
//   kDataLoss  fewer than k files are left that fit each other; the message tells what is wrong with which code file
// Errors of writing pass through.
absl::StatusOr<RebuiltGroup> RebuildGroup(Disk& disk, const GroupRemains& remains,
                                          const std::map<std::uint32_t, std::string>& targets,
                                          const CheckRebuilt& check);

}  // namespace cairn::fti

#endif  // CAIRN_STORAGE_FILE_FTI_CODED_GROUP_H_
