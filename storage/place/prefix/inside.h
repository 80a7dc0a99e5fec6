// Which names below a prefix lead to regular files inside of it. Names come from records that others wrote. Calls block
// on disk; not thread-safe: one for each pass over the names.
#ifndef CAIRN_STORAGE_PLACE_PREFIX_INSIDE_H_
#define CAIRN_STORAGE_PLACE_PREFIX_INSIDE_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <set>
#include <string>

#include "storage/io/disk.h"

namespace cairn {

class Inside {
 public:
  Inside(Disk& disk, std::string prefix) : disk_(disk), prefix_(std::move(prefix)) {}

  // `name` is relative and normalized (NormalizeFileName). A symbolic link on the way may lead to another folder of the
  // prefix; the file itself must not be one.
  //   kNotFound            not there
  //   kFailedPrecondition  no regular file, or a link leads out of the prefix
  absl::StatusOr<FileInfo> Find(const std::string& name);

 private:
  absl::Status CheckFolder(const std::string& name);

  Disk& disk_;
  const std::string prefix_;
  std::set<std::string> folders_;  // found to be good
};

}  // namespace cairn

#endif  // CAIRN_STORAGE_PLACE_PREFIX_INSIDE_H_
