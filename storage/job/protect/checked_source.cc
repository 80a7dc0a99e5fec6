#include "storage/job/protect/checked_source.h"

#include <algorithm>
#include <cstring>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/checked/checked_blocks.h"

namespace cairn {

absl::Status CheckProtectSource(const ProtectSource& source) {
  const std::size_t files = source.member.files.size();
  if (source.paths.size() != files || source.sums.size() != files) {
    return absl::InvalidArgumentError(fmt::format("rank {} has {} files, {} paths and {} checksums",
                                                  source.member.descriptor.world_rank, files, source.paths.size(),
                                                  source.sums.size()));
  }
  for (std::size_t i = 0; i < files; ++i) {
    const auto& [path, meta] = source.member.files[i];
    const std::uint64_t bytes = source.sums[i].bytes();
    const std::uint64_t blocks = bytes / kCrcBlockBytes + (bytes % kCrcBlockBytes != 0 ? 1 : 0);
    if (meta.bytes != bytes || static_cast<std::uint64_t>(source.sums[i].crc32c_size()) != blocks) {
      return DataLoss("{}: {} bytes, but {} and {} checksums by its catalogue", path, meta.bytes, bytes,
                      source.sums[i].crc32c_size());
    }
  }
  return absl::OkStatus();
}

CheckedSource::CheckedSource(const ProtectSource& source, Throttle* throttle, TransferProgress& progress)
    : source_(source), throttle_(throttle), progress_(progress) {
  std::uint64_t end = 0;
  for (const catalogue::FileEntry& sums : source.sums) ends_.push_back(end += sums.bytes());
}

absl::Status CheckedSource::Read(std::uint64_t offset, std::span<std::byte> target) {
  while (!target.empty()) {
    const auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, offset) - ends_.begin());
    const std::uint64_t at = offset - (file == 0 ? 0 : ends_[file - 1]);
    CAIRN_RETURN_IF_ERROR(Load({.file = file, .begin = at - at % kCrcBlockBytes}));
    const auto from = static_cast<std::size_t>(at % kCrcBlockBytes);
    const std::size_t count = std::min(target.size(), block_.size() - from);
    std::memcpy(target.data(), block_.data() + from, count);
    target = target.subspan(count);
    offset += count;
  }
  return absl::OkStatus();
}

absl::Status CheckedSource::Load(const Block& block) {
  if (loaded_ && loaded_->file == block.file && loaded_->begin == block.begin) return absl::OkStatus();
  loaded_.reset();
  CAIRN_RETURN_IF_ERROR(Open(block.file));
  const catalogue::FileEntry& sums = source_.sums[block.file];
  block_.resize(static_cast<std::size_t>(std::min(kCrcBlockBytes, sums.bytes() - block.begin)));
  const bool goes = throttle_ == nullptr ? !progress_.stop : TakeBandwidth(*throttle_, block_.size(), progress_);
  if (!goes) return absl::CancelledError("the redundancy of a dataset is not made further");
  CAIRN_RETURN_IF_ERROR(file_->ReadAt(block.begin, block_));
  const std::uint32_t expected = sums.crc32c(static_cast<int>(block.begin / kCrcBlockBytes));
  if (const std::uint32_t found = Crc32c(block_); found != expected) {
    return BlockDiffers(source_.paths[block.file], block.begin, block_.size(), found, expected);
  }
  progress_.bytes_done += block_.size();
  loaded_ = block;
  return absl::OkStatus();
}

absl::Status CheckedSource::Open(std::size_t file) {
  if (file_ != nullptr && open_ == file) return absl::OkStatus();
  file_ = nullptr;
  CAIRN_ASSIGN_OR_RETURN(file_, source_.disk->Open(source_.paths[file], {}));
  open_ = file;
  CAIRN_ASSIGN_OR_RETURN(const FileInfo info, file_->Info());
  if (info.bytes != source_.sums[file].bytes()) {
    file_ = nullptr;
    return DataLoss("{}: {} bytes, and {} by its catalogue", source_.paths[file], info.bytes,
                    source_.sums[file].bytes());
  }
  return absl::OkStatus();
}

}  // namespace cairn
