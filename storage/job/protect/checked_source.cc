#include "storage/job/protect/checked_source.h"

#include <algorithm>
#include <cstring>

#include "storage/base/checksum.h"
#include "storage/base/status.h"
#include "storage/file/checked/checked_blocks.h"

namespace cairn {
namespace {

constexpr std::size_t kBlocks = 16, kBlocksEachMax = 4;
constexpr std::size_t kBlocksOfOne = 8;  // that is read alone: two windows for each connection to another node

}  // namespace

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

CheckedSource::CheckedSource(const ProtectSource& source, Throttle* throttle, TransferProgress& progress,
                             std::size_t blocks)
    : source_(source), throttle_(throttle), progress_(progress), blocks_(blocks) {
  std::uint64_t end = 0;
  for (const catalogue::FileEntry& sums : source.sums) ends_.push_back(end += sums.bytes());
}

absl::Status CheckedSource::Read(std::uint64_t offset, std::span<std::byte> target) {
  while (!target.empty()) {
    CAIRN_ASSIGN_OR_RETURN(const auto lent, Lend(offset, target.size()));
    std::memcpy(target.data(), lent.data(), lent.size());
    target = target.subspan(lent.size());
    offset += lent.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const std::byte>> CheckedSource::Lend(std::uint64_t offset, std::uint64_t bytes_max) {
  const Place place = PlaceOf(offset);
  CAIRN_RETURN_IF_ERROR(Load(place));
  const std::span<const std::byte> here = loaded_->bytes.subspan(place.from);
  return here.first(static_cast<std::size_t>(std::min<std::uint64_t>(here.size(), bytes_max)));
}

void CheckedSource::Expect(std::uint64_t offset, std::uint64_t bytes) {
  expected_end_ = offset + bytes;
  if (bytes == 0) return;
  const Place place = PlaceOf(offset);
  if (IsLoaded(place) || IsInEarlier(place)) return;
  if (!IsNext(place) && !StartReading(place).ok()) return;
  stream_->ReadAhead();
}

CheckedSource::Place CheckedSource::PlaceOf(std::uint64_t offset) const {
  const auto file = static_cast<std::size_t>(std::ranges::upper_bound(ends_, offset) - ends_.begin());
  const std::uint64_t at = offset - BeginOf(file);
  return {.file = file, .block = at / kCrcBlockBytes, .from = static_cast<std::size_t>(at % kCrcBlockBytes)};
}

bool CheckedSource::IsLoaded(const Place& place) const {
  return loaded_ && loaded_->file == place.file && loaded_->block == place.block;
}

bool CheckedSource::IsNext(const Place& place) const {
  return stream_ != nullptr && open_ == place.file && next_ == place.block && !stream_->done();
}

std::uint64_t CheckedSource::BytesOf(const Place& place) const {
  return std::min(kCrcBlockBytes, source_.sums[place.file].bytes() - place.block * kCrcBlockBytes);
}

absl::Status CheckedSource::Load(const Place& place) {
  if (IsLoaded(place)) return absl::OkStatus();
  GiveBack();
  const bool in_order = in_order_ && in_order_->file == place.file && in_order_->next == place.block;
  if (!in_order) CAIRN_RETURN_IF_ERROR(LeaveOrder(place));
  if (!in_order_ || !LoadEarlier(place)) CAIRN_RETURN_IF_ERROR(LoadFromDisk(place));
  progress_.bytes_done += loaded_->bytes.size();
  return in_order_ ? CheckInOrder(place) : absl::OkStatus();
}

// Nobody would compare the rest of a file with its checksum then.
absl::Status CheckedSource::LeaveOrder(const Place& place) {
  const bool unchecked = in_order_ && in_order_->uses_earlier &&
                         in_order_->next < static_cast<std::uint64_t>(source_.sums[in_order_->file].crc32c_size());
  in_order_.reset();
  if (unchecked) return absl::AbortedError("a file with blocks of an earlier copy was not read to its end");
  if (place.block == 0) in_order_ = {.file = place.file};
  return absl::OkStatus();
}

// The file has a checksum of all of it besides: two blocks of which one checksum is the same count as equal only as
// long as that agrees.
bool CheckedSource::IsInEarlier(const Place& place) const {
  const EarlierCopy* const earlier = source_.earlier.get();
  if (earlier == nullptr || place.file >= earlier->sums.size() || !source_.sums[place.file].has_crc32()) return false;
  const catalogue::FileEntry &before = earlier->sums[place.file], &now = source_.sums[place.file];
  const std::uint64_t begin = place.block * kCrcBlockBytes, bytes = BytesOf(place);
  const bool has_it = before.bytes() >= begin + bytes && std::min(kCrcBlockBytes, before.bytes() - begin) == bytes &&
                      static_cast<std::uint64_t>(before.crc32c_size()) > place.block;
  const int block = static_cast<int>(place.block);
  return has_it && before.crc32c(block) == now.crc32c(block);
}

// What it does not have after all comes from where the rank's files are.
bool CheckedSource::LoadEarlier(const Place& place) {
  if (progress_.stop || !IsInEarlier(place)) return false;
  const EarlierCopy& earlier = *source_.earlier;
  const auto file = earlier.disk->Open(earlier.paths[place.file], {});
  if (!file.ok()) return false;
  earlier_block_.resize(static_cast<std::size_t>(BytesOf(place)));
  if (!(*file)->ReadAt(place.block * kCrcBlockBytes, earlier_block_).ok()) return false;
  if (Crc32c(earlier_block_) != source_.sums[place.file].crc32c(static_cast<int>(place.block))) return false;
  loaded_ = {.file = place.file, .block = place.block, .bytes = earlier_block_, .slot = std::nullopt};
  in_order_->uses_earlier = true;
  return true;
}

absl::Status CheckedSource::LoadFromDisk(const Place& place) {
  const std::uint64_t bytes = BytesOf(place);
  const bool goes = throttle_ == nullptr ? !progress_.stop : TakeBandwidth(*throttle_, bytes, progress_);
  if (!goes) return absl::CancelledError("the redundancy of a dataset is not made further");
  if (!IsNext(place)) CAIRN_RETURN_IF_ERROR(StartReading(place));
  const auto block = stream_->Next();
  if (!block.ok()) {
    StopReading();
    return block.status();
  }
  loaded_ = {.file = place.file, .block = place.block, .bytes = block->bytes, .slot = block->slot};
  ++next_;
  const std::uint32_t expected = source_.sums[place.file].crc32c(static_cast<int>(place.block));
  if (const std::uint32_t found = Crc32c(loaded_->bytes); found != expected) {
    StopReading();
    return BlockDiffers(source_.paths[place.file], place.block * kCrcBlockBytes, bytes, found, expected);
  }
  return absl::OkStatus();
}

absl::Status CheckedSource::CheckInOrder(const Place& place) {
  if (source_.earlier == nullptr) return absl::OkStatus();
  const catalogue::FileEntry& sums = source_.sums[place.file];
  in_order_->crc32 = Crc32(loaded_->bytes, in_order_->crc32);
  ++in_order_->next;
  const bool at_end = in_order_->next == static_cast<std::uint64_t>(sums.crc32c_size());
  if (!at_end || !in_order_->uses_earlier || in_order_->crc32 == sums.crc32()) return absl::OkStatus();
  StopReading();
  return absl::AbortedError(fmt::format("{}: blocks of an earlier copy of it have the same checksums, and are others",
                                        source_.paths[place.file]));
}

// From `place` to the end of what is expected of its file, or to the next block that is in the earlier copy; at least
// one block.
absl::Status CheckedSource::StartReading(const Place& place) {
  StopReading();
  CAIRN_RETURN_IF_ERROR(Open(place.file));
  const std::uint64_t begin = BeginOf(place.file);
  const std::uint64_t expected = expected_end_ > begin ? expected_end_ - begin : 0;
  const std::uint64_t last = std::max(place.block + 1, (expected + kCrcBlockBytes - 1) / kCrcBlockBytes);
  const auto file_blocks = static_cast<std::uint64_t>(source_.sums[place.file].crc32c_size());
  std::uint64_t blocks = place.block + 1;
  while (blocks < std::min(last, file_blocks) && !IsInEarlier({.file = place.file, .block = blocks})) ++blocks;
  if (!buffers_) buffers_.emplace(std::min<std::uint64_t>(blocks_ * kCrcBlockBytes, bytes()));
  const std::uint64_t end = std::min(blocks * kCrcBlockBytes, source_.sums[place.file].bytes());
  stream_ = std::make_unique<BlockStream>(*file_, end, place.block, *buffers_);
  next_ = place.block;
  return absl::OkStatus();
}

void CheckedSource::StopReading() {
  GiveBack();
  stream_ = nullptr;  // waits for what is under way
}

void CheckedSource::GiveBack() {
  if (loaded_ && loaded_->slot) stream_->GiveBack(*loaded_->slot);
  loaded_.reset();
}

absl::Status CheckedSource::Open(std::size_t file) {
  if (file_ != nullptr && open_ == file) return absl::OkStatus();
  file_ = nullptr;  // no stream is on it: StartReading
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

redundancy::Source AsSource(CheckedSource& source, std::uint64_t begin) {
  redundancy::Source made = [&source, begin](std::uint64_t offset, std::span<std::byte> target) {
    return source.Read(begin + offset, target);
  };
  made.lend = [&source, begin](std::uint64_t offset, std::uint64_t bytes_max) {
    return source.Lend(begin + offset, bytes_max);
  };
  made.expect = [&source, begin](std::uint64_t offset, std::uint64_t bytes) { source.Expect(begin + offset, bytes); };
  return made;
}

std::size_t BlocksOfEach(scr::Scheme scheme, std::size_t members) {
  if (scheme == scr::Scheme::kPartner) return kBlocksOfOne;
  return std::clamp<std::size_t>(kBlocks / members, 1, kBlocksEachMax);
}

}  // namespace cairn
