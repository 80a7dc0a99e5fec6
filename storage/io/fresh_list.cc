#include "storage/io/fresh_list.h"

#include <absl/status/status.h>

#include <memory>

#include "storage/base/path.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// No record is called so; so nobody takes our work file for one of a record of his own.
constexpr std::string_view kStem = "look";

absl::Status Touch(Disk& disk, const std::string& work) {
  CAIRN_ASSIGN_OR_RETURN(std::unique_ptr<File> file,
                         disk.Open(work, {.writable = true, .create = true, .exclusive = true}));
  file.reset();  // NFS would rename a file that is open, instead of removing it
  const absl::Status removed = disk.Remove(work);
  // Somebody has cleared the folder up. To find that out, the removal went to the server as well.
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FreshList(Disk& disk, const std::string& directory) {
  const std::string work = WorkName(fmt::format("{}/{}", directory, kStem));
  CAIRN_RETURN_IF_ERROR(Touch(disk, work));
  CAIRN_ASSIGN_OR_RETURN(std::vector<std::string> names, disk.List(directory));
  std::erase(names, BaseOf(work));  // a listing may still show what has just gone
  return names;
}

}  // namespace cairn
