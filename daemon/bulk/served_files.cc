#include "daemon/bulk/served_files.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/bulk/frame.h"
#include "storage/base/check.h"
#include "storage/base/checksum.h"
#include "storage/base/quoted.h"
#include "storage/base/status.h"

namespace cairn {
namespace {

// What is read is summed up in pieces of this size, while each is in the processor's cache.
constexpr std::size_t kAtOnce = 128 << 10;

// Where a name leads, and what is there. Each part is looked at: a directory or, at the end, a directory or file.
// Between the look and the use nobody but our own user can change the folder.
struct Found {
  std::string path;
  FileInfo info;
};
absl::StatusOr<Found> Find(Disk& disk, const std::string& folder, std::string_view name) {
  Found found{.path = folder, .info = {}};
  CAIRN_ASSIGN_OR_RETURN(found.info, disk.Info(folder));
  while (!name.empty()) {
    if (!found.info.is_directory()) return NotFound("{}: on the way there is no directory", found.path);
    const std::size_t end = std::min(name.find('/'), name.size());
    found.path += "/" + std::string(name.substr(0, end));
    name.remove_prefix(std::min(end + 1, name.size()));
    CAIRN_ASSIGN_OR_RETURN(found.info, disk.Info(found.path));
    if (found.info.is_symlink()) return InvalidArgument("name: {} is a symbolic link", found.path);
    if (found.info.is_directory() || found.info.is_regular()) continue;
    return InvalidArgument("name: {} is neither a file nor a directory", found.path);
  }
  return found;
}

absl::Status CheckIsMeant(const bulk::Request& request, const FileInfo& info) {
  if (request.inode() == 0 || (info.inode == request.inode() && info.device == request.device())) {
    return absl::OkStatus();
  }
  return NotFound("{}: another file has its name now", Quoted(request.name()));
}

absl::StatusOr<std::size_t> Read(Disk& disk, const std::string& path, const bulk::Request& request,
                                 std::span<std::byte> window, bulk::Answer& answer) {
  CAIRN_ASSIGN_OR_RETURN(const auto file, disk.Open(path, {}));
  if (request.inode() != 0) {
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file->Info());
    CAIRN_RETURN_IF_ERROR(CheckIsMeant(request, info));
  }
  for (std::size_t done = 0; done < request.bytes(); done += kAtOnce) {
    const auto target = window.subspan(done, std::min<std::size_t>(kAtOnce, request.bytes() - done));
    CAIRN_RETURN_IF_ERROR(file->ReadAt(request.offset() + done, target));
    answer.set_crc32c(Crc32c(target, answer.crc32c()));
  }
  return request.bytes();
}

absl::StatusOr<std::size_t> List(Disk& disk, const std::string& path, const bulk::Request& request,
                                 std::span<std::byte> window, bulk::Answer& answer) {
  CAIRN_ASSIGN_OR_RETURN(const std::vector<std::string> names, disk.List(path));
  std::size_t used = 0;
  for (auto name = std::ranges::upper_bound(names, request.after()); name != names.end(); ++name) {
    const std::size_t bytes = name->size() + 1;  // with the zero
    if (bytes > window.size() - used) {
      answer.set_more(true);
      break;
    }
    std::memcpy(window.data() + used, name->c_str(), bytes);
    used += bytes;
  }
  answer.set_crc32c(Crc32c(window.first(used)));
  return used;
}

absl::StatusOr<std::size_t> Do(Disk& disk, const std::string& folder, const bulk::Request& request,
                               std::span<std::byte> window, bulk::Answer& answer) {
  CAIRN_RETURN_IF_ERROR(CheckRequest(request));
  if (ServedFiles::NeedsWindow(request) && window.empty()) return ResourceExhausted("no memory for a window");
  CAIRN_ASSIGN_OR_RETURN(const Found found, Find(disk, folder, request.name()));
  if (request.op() == bulk::Request::LIST) return List(disk, found.path, request, window, answer);
  if (request.op() == bulk::Request::READ) return Read(disk, found.path, request, window, answer);
  FileInfo info = found.info;
  if (request.op() == bulk::Request::OPEN) {
    CAIRN_ASSIGN_OR_RETURN(const auto file, disk.Open(found.path, {}));
    CAIRN_ASSIGN_OR_RETURN(info, file->Info());
  }
  CAIRN_RETURN_IF_ERROR(CheckIsMeant(request, info));
  *answer.mutable_info() = ToMessage(info);
  return 0;
}

}  // namespace

void ServedFiles::Serve(const RunId& run, Disk& disk, const std::string& folder) {
  const absl::MutexLock lock(&mutex_);
  places_[run] = {.disk = &disk, .folder = folder};
}

void ServedFiles::Unserve(const RunId& run) {
  const absl::MutexLock lock(&mutex_);
  places_.erase(run);
}

ServedFiles::Served ServedFiles::Answer(const RunId& run, const bulk::Request& request,
                                        std::span<std::byte> window) const {
  std::optional<Place> place;
  {
    const absl::MutexLock lock(&mutex_);
    const auto found = places_.find(run);
    if (found != places_.end()) place = found->second;
  }
  Served served;
  const auto bytes = place ? Do(*place->disk, place->folder, request, window, served.answer)
                           : Unavailable("it serves no files of run {}", run.Hex());
  served.answer.set_id(request.id());
  if (bytes.ok()) {
    served.payload_bytes = *bytes;
  } else {
    SetStatus(bytes.status(), served.answer);
  }
  return served;
}

}  // namespace cairn
