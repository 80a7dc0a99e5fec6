#include "storage/place/arbiter/folder_arbiter.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "storage/base/status.h"
#include "storage/io/create_once.h"
#include "storage/io/fresh_list.h"

namespace cairn {
namespace {

class FolderArbiter final : public Arbiter {
 public:
  FolderArbiter(Disk& disk, std::string prefix)
      : disk_(disk), prefix_(std::move(prefix)), folder_(prefix_ + "/.cairn") {}

  // Whoever made the folder may have died before its name was durable.
  absl::Status Create(const std::string& name, std::string_view bytes) override {
    if (bytes.size() > kRecordBytesMax) {
      return InvalidArgument("{}: a record of {} bytes, at most {}", PathOf(name), bytes.size(), kRecordBytesMax);
    }
    CAIRN_RETURN_IF_ERROR(disk_.SyncDirectory(prefix_));
    return CreateFileOnce(disk_, PathOf(name), bytes);
  }

  absl::StatusOr<std::vector<std::string>> Names() override {
    auto names = FreshList(disk_, folder_);
    if (absl::IsNotFound(names.status())) return std::vector<std::string>();
    return names;
  }

  // Never in a frame, which would be in the way of WriteLease. A maker that dies may leave an empty file: no lease.
  absl::Status CreateLease(const std::string& name, std::string_view bytes) override {
    return CreateFileOnce(disk_, PathOf(name), bytes, {.mode = 0600, .framed = false});
  }

  absl::Status WriteLease(const std::string& name, std::string_view bytes) override {
    CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, disk_.Open(PathOf(name), {.writable = true}));
    CAIRN_RETURN_IF_ERROR(file->WriteAt(0, std::as_bytes(std::span(bytes))));
    return file->Sync();
  }

  absl::StatusOr<std::string> ReadLease(const std::string& name, std::size_t bytes_max) override {
    const auto file = disk_.Open(PathOf(name), {});
    if (absl::IsInvalidArgument(file.status())) return std::string();  // a directory, a link
    if (!file.ok()) return file.status();
    CAIRN_ASSIGN_OR_RETURN(const FileInfo info, (*file)->Info());
    std::string bytes(std::min<std::uint64_t>(info.bytes, std::uint64_t{bytes_max} + 1), '\0');
    const absl::Status read = (*file)->ReadAt(0, std::as_writable_bytes(std::span(bytes)));
    if (absl::IsDataLoss(read)) return std::string();  // it has been cut since
    if (!read.ok()) return read;
    return bytes;
  }

 private:
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

  Disk& disk_;
  const std::string prefix_, folder_;
};

}  // namespace

std::unique_ptr<Arbiter> MakeFolderArbiter(Disk& disk, const std::string& prefix) {
  return std::make_unique<FolderArbiter>(disk, prefix);
}

}  // namespace cairn
