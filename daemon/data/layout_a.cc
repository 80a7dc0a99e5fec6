#include "daemon/data/layout_a.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/data/lane_hash.h"
#include "daemon/data/tail.h"
#include "storage/base/check.h"
#include "storage/base/path.h"
#include "storage/base/status.h"
#include "storage/format/ftiff/variables.h"

namespace cairn {
namespace {

// The checksums of a file that is written front to back, but for its first record, which comes last.
class FileCrcs {
 public:
  void Add(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (offset < end_) {
      first_ = {bytes.begin(), bytes.end()};
      return;
    }
    if (end_ == 0 && offset > 0) {
      windows_.push_back(ZeroCrc(offset));  // the record's place
      end_ = offset;
    }
    CAIRN_CHECK(offset == end_);
    while (!bytes.empty()) {
      const std::uint64_t in_window = end_ % kCrcBlockBytes;
      const std::size_t part = std::min<std::uint64_t>(kCrcBlockBytes - in_window, bytes.size());
      if (in_window == 0) windows_.emplace_back();
      windows_.back() = JoinCrc(windows_.back(), CrcOf(bytes.first(part)), part);
      bytes = bytes.subspan(part);
      end_ += part;
    }
  }

  std::uint64_t bytes() const { return end_; }
  std::vector<BlockCrc> Finish() {
    windows_.front() ^= ShareOf(CrcOf(first_), first_.size(), std::min(end_, kCrcBlockBytes) - first_.size());
    return windows_;
  }

 private:
  std::uint64_t end_ = 0;
  std::vector<BlockCrc> windows_;
  std::vector<std::byte> first_;
};

absl::StatusOr<CaptureResult> WriteTo(Disk& disk, const std::string& path, File& source, const ftiff::FileToWrite& file,
                                      const std::function<bool()>& stop) {
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> target, disk.Open(path, {.writable = true, .create = true}));
  // So that a full disk is known at once.
  CAIRN_RETURN_IF_ERROR(target->Truncate(file.layout.file_bytes(file.letter)));
  const ftiff::Variables variables(file.layout);
  const ftiff::ReadAt read_source = [&](std::uint64_t offset, std::span<std::byte> bytes) {
    return stop() ? Cancelled("{}: stopped", path) : source.ReadAt(offset, bytes);
  };
  const ftiff::ReadVariable read = [&](std::int32_t id, std::uint64_t offset, std::span<std::byte> bytes) {
    return variables.Read(path, id, offset, bytes, read_source);
  };
  FileCrcs crcs;
  const ftiff::WriteAt write = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    if (stop()) return Cancelled("{}: stopped", path);
    crcs.Add(offset, bytes);
    return target->WriteAt(offset, bytes);
  };
  CAIRN_RETURN_IF_ERROR(ftiff::WriteFile(file, read, write).status());
  CAIRN_RETURN_IF_ERROR(target->Sync());
  return SumUp(crcs.bytes(), crcs.Finish(), {});
}

}  // namespace

absl::StatusOr<CaptureResult> WriteLayoutA(Disk& disk, const std::string& path, const ftiff::FileToWrite& file,
                                           const std::function<bool()>& stop) {
  const std::string work = WorkName(path);
  CAIRN_ASSIGN_OR_RETURN(const std::unique_ptr<File> source, disk.Open(path, {}));
  absl::StatusOr<CaptureResult> result = WriteTo(disk, work, *source, file, stop);
  if (result.ok()) {
    if (const absl::Status renamed = disk.Rename(work, path); !renamed.ok()) result = renamed;
  }
  if (!result.ok()) {
    disk.Remove(work).IgnoreError();  // not there if it could not be made; a work name is garbage anyway
    return result;
  }
  result->bytes_written = result->file_bytes;
  return result;
}

}  // namespace cairn
