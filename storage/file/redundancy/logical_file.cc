#include "storage/file/redundancy/logical_file.h"

#include <algorithm>
#include <utility>

#include "storage/base/check.h"
#include "storage/base/status.h"

namespace cairn::redundancy {

LogicalFile::LogicalFile(Disk& disk, std::vector<Part> parts) : disk_(disk), parts_(std::move(parts)) {
  std::uint64_t end = 0;
  for (const Part& part : parts_) {
    CAIRN_CHECK(!__builtin_add_overflow(end, part.bytes, &end));
    ends_.push_back(end);
  }
}

absl::Status LogicalFile::OpenPart(std::size_t part, bool writable) {
  if (file_ != nullptr && open_ == part && writable_ == writable) return absl::OkStatus();
  file_.reset();
  CAIRN_ASSIGN_OR_RETURN(file_, disk_.Open(parts_[part].path, {.writable = writable}));
  open_ = part;
  writable_ = writable;
  return absl::OkStatus();
}

absl::Status LogicalFile::ForEach(std::uint64_t offset, std::size_t count, bool writable, const Use& use) {
  CAIRN_CHECK(offset <= bytes() && count <= bytes() - offset);
  auto part = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), offset) - ends_.begin());
  for (std::size_t from = 0; from < count; ++part) {
    const std::uint64_t begin = ends_[part] - parts_[part].bytes;
    const auto here = static_cast<std::size_t>(std::min<std::uint64_t>(count - from, ends_[part] - offset - from));
    if (here == 0) continue;
    CAIRN_RETURN_IF_ERROR(OpenPart(part, writable));
    CAIRN_RETURN_IF_ERROR(use(*file_, parts_[part].offset + (offset + from - begin), from, here));
    from += here;
  }
  return absl::OkStatus();
}

absl::Status LogicalFile::Read(std::uint64_t offset, std::span<std::byte> target) {
  return ForEach(offset, target.size(), false, [&](File& file, std::uint64_t at, std::size_t from, std::size_t count) {
    return file.ReadAt(at, target.subspan(from, count));
  });
}

absl::Status LogicalFile::Write(std::uint64_t offset, std::span<const std::byte> bytes) {
  return ForEach(offset, bytes.size(), true, [&](File& file, std::uint64_t at, std::size_t from, std::size_t count) {
    return file.WriteAt(at, bytes.subspan(from, count));
  });
}

absl::Status LogicalFile::Create(std::uint32_t mode) {
  for (const Part& part : parts_) {
    CAIRN_ASSIGN_OR_RETURN(const auto file,
                           disk_.Open(part.path, {.writable = true, .create = true, .exclusive = true, .mode = mode}));
    CAIRN_RETURN_IF_ERROR(file->Truncate(part.offset + part.bytes));
  }
  return absl::OkStatus();
}

}  // namespace cairn::redundancy
