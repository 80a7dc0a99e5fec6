// Under which names files of an SCR dataset are to lie below a run's prefix. Pure.
#ifndef CAIRN_STORAGE_JOB_ADOPT_SCR_NAMES_H_
#define CAIRN_STORAGE_JOB_ADOPT_SCR_NAMES_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "storage/format/scr/filemap.h"

namespace cairn {

// By rank: the path that SCR recorded -> the name, normalized.
using NamesByRank = std::vector<std::map<std::string, std::string>>;

struct ScrNaming {
  NamesByRank names;
  std::string prefix;    // that SCR's was
  bool guessed = false;  // only what the files' directories have in common tells it
};

// PATH/NAME of each file less SCR's prefix: `prefix_was`, or as AdoptScrRequest says if that is empty. A file without
// PATH has its NAME, or its base name.
//   kInvalidArgument  a file is not below `prefix_was`, or its name cannot be used below a prefix
//   kAlreadyExists    two files get one name: the message names both
absl::StatusOr<ScrNaming> NameScrFiles(const std::string& run, const std::string& prefix_was,
                                       const std::vector<scr::Filemap>& filemaps);

}  // namespace cairn

#endif  // CAIRN_STORAGE_JOB_ADOPT_SCR_NAMES_H_
