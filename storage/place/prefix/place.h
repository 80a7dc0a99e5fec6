// Where in the prefix the application's files may go: symbolic links on the way must not lead out of it.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_PLACE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_PLACE_H_

#include <absl/status/statusor.h>

#include <map>
#include <string>
#include <utility>

#include "storage/io/disk.h"

namespace cairn {

// Looks at what is there of directory `name` (normalized, below `prefix`, whose own links are resolved; empty: the
// prefix itself). Answers which directory it really is, below the prefix, too. Blocks on disk.
//   kFailedPrecondition  a link that leads out of the prefix or nowhere, or something else in the way; or what it comes
//                        to is Cairn's (IsCairnsPlace)
absl::StatusOr<std::string> RealDirectory(Disk& disk, const std::string& prefix, const std::string& name);

// The same for file `name`, in the directory that its directory really is; and it is no directory itself.
absl::StatusOr<std::string> RealPlace(Disk& disk, const std::string& prefix, const std::string& name);
absl::Status CheckPlace(Disk& disk, const std::string& prefix, const std::string& name);

// Names of files by where they really are, so that two names for one file through a link are one. Looks at each
// directory once; not thread-safe: one for each pass over the names.
class RealNames {
 public:
  RealNames(Disk& disk, std::string prefix) : disk_(disk), prefix_(std::move(prefix)) {}
  // The name itself where links lead to no place for files, or cannot be followed now.
  std::string Of(const std::string& name);

 private:
  Disk& disk_;
  const std::string prefix_;
  std::map<std::string, std::string> directories_;  // with the last '/', as named and as they are
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_PLACE_H_
